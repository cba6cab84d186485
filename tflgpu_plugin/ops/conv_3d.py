"""3-D convolution: `conv_3d(x [B, D, H, W, C], weights [O, KD, KH, KW, C / groups], bias | None)`
-> [B, OD, OH, OW, O]. Strides and dilations are (d, h, w); padding is "same", "valid" or (before,
after) of each axis in order. With `filters_last` weights are [KD, KH, KW, C, O].

`transpose_conv_3d(x, weights, bias | None, shape)` is its gradient with respect to the input, with
a result of this shape: a convolution of the input, with zeros between its elements, by flipped
filters. `padding` is cropped from the full result (only the values "before" count); "same" and
"valid" crop half of what the full result has more. With `filters_last` weights are [KD, KH, KW, O,
C]."""

from __future__ import annotations

from tflgpu_plugin.ir import Graph, Node, NotConstant, Refusal, Shape, Target
from tflgpu_plugin.ir.symbolic import integer
from tflgpu_plugin.ops import rounding
from tflgpu_plugin.ops.blocks import refuse_groups, shapes, work
from tflgpu_plugin.ops.conv import FORMS, refuse
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.transpose_conv import spread, windows_of, work_back

FIRST = (4, 0, 1, 2, 3)  # permutation from [KD, KH, KW, C, O] to filters first
BACK = (3, 0, 1, 2, 4)  # the same for weights of transposed convolutions


def _decompose(steps: Decomposition, node: Node) -> bool:
    """Transposes weights whose filters are last."""
    if not node.attributes.get("filters_last"):
        return False
    x, weights, *bias = node.inputs
    data = steps.data(weights)
    if data is None:
        first = steps.add("transpose", weights, perm=FIRST)
    else:
        first = steps.number(data.transpose(FIRST))
    attributes = {k: v for k, v in node.attributes.items() if k != "filters_last"}
    steps.last("conv_3d", x, first, *bias, **attributes)
    return True


# ---- transposed ----------------------------------------------------------------------------------


def _refuse_back(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires 5 dimensions, a constant shape, and a part of the full result."""
    x, weights, wanted = graph.shape(node.operand()), _filters(graph, node), _wanted(graph, node)
    if len(x) != 5 or len(weights) != 5 or wanted is None or len(wanted) != 5:
        said = "A transposed convolution of volumes needs 5 dimensions, and a constant shape."
        return Refusal("rank.unsupported", said)
    if min(*node.attributes["strides"], *wanted) < 1 or 0 in (*x, *weights):
        return Refusal(
            "shape.empty", f"An input of {list(x)} with weights of {list(weights)} has no result."
        )
    if refusal := refuse_groups(x, weights):
        return refusal
    if wanted[0] != x[0] or wanted[4] != weights[0]:
        said = f"Shapes {list(x)}, {list(weights)} and output {list(wanted)} do not agree."
        return Refusal("shape.mismatch", said)
    if isinstance(node.attributes["padding"], str) and x[1:4] != windows_of(
        node, wanted[1:4], _filters(graph, node)[1:4]
    ):
        return Refusal(
            "shape.mismatch",
            f"An output of {list(wanted)} does not fit an input of {list(x[1:4])}.",
        )
    if min(_sides(graph, node)) < 0:
        return Refusal(
            "shape.mismatch", f"An output of {list(wanted)} is not a part of the full result."
        )
    return None


def _filters(graph: Graph, node: Node) -> Shape:
    """Returns the shape of the weights, outputs first."""
    shape = graph.shape(node.operand(1))
    return (shape[3], *shape[:3], shape[4]) if node.attributes.get("filters_last") else shape


def _wanted(graph: Graph, node: Node) -> Shape | None:
    value = graph.constant(node.inputs[3])
    return None if value is None else tuple(integer(extent) for extent in value)


def _shapes_back(graph: Graph, node: Node) -> list[Shape]:
    wanted = _wanted(graph, node)
    if wanted is None:
        raise NotConstant("the shape must be a constant")
    return [wanted]


def _sides(graph: Graph, node: Node) -> tuple[int, ...]:
    """Returns the (before, after) padding of each axis for the convolution over the dilated
    input."""
    found, wanted, padding = [], _wanted(graph, node), node.attributes["padding"]
    assert wanted is not None
    x, kernel = graph.shape(node.operand()), _filters(graph, node)[1:4]
    dilations = node.attributes.get("dilations", (1, 1, 1))
    for k in range(3):
        spread = (x[k + 1] - 1) * node.attributes["strides"][k] + 1
        reach = (kernel[k] - 1) * dilations[k]
        more = max(spread + reach - wanted[k + 1], 0)
        cut = more // 2 if isinstance(padding, str) else padding[2 * k]
        found += [reach - cut, wanted[k + 1] - spread + cut]
    return tuple(found)


def _decompose_back(steps: Decomposition, node: Node) -> bool:
    """Replaces the node by a convolution over the dilated input."""
    weights, last = node.operand(1), node.attributes.get("filters_last")
    data = steps.data(weights)
    if data is not None:
        filters = data.transpose(BACK) if last else data
        turned = steps.number(filters[:, ::-1, ::-1, ::-1])
    else:
        first = steps.add("transpose", weights, perm=BACK) if last else weights
        turned = steps.add("reverse", first, steps.indices([1, 2, 3]))
    x = node.operand()
    for axis, stride in enumerate(node.attributes["strides"], 1):
        x = spread(steps, x, axis, int(stride))
    attributes = {k: v for k, v in node.attributes.items() if k != "filters_last"}
    attributes |= {"strides": (1, 1, 1), "padding": _sides(steps.graph, node)}
    steps.last("conv_3d", x, turned, node.inputs[2], **attributes)
    return True


ATTRIBUTES = "strides[3]! padding[6]!=same|valid dilations[3] activation filters_last"
OPS = (
    Op("conv_3d", refuse, shapes, FORMS, "accumulate", work=work, kind="product", fuses=True,
       decompose=_decompose, weights=Weights(), accumulates=False, rounding=rounding.LAYER,
       operands="xx?"),
    Op("transpose_conv_3d", _refuse_back, _shapes_back, lower_decomposed, "accumulate",
       work=work_back, kind="product", decompose=_decompose_back, accumulates=False,
       operands="xx?x"),
)  # fmt: skip
