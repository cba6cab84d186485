"""Normalizations, made of reductions and elementwise ops: the mean of squares is that of the
differences from the mean, so that a large mean does not cancel it.

* `instance_normalization(x [B, ..., C], scale [C] | None, bias [C] | None): epsilon`: over all axes
  between batch and channels
* `layer_normalization(x, scale | None, bias | None): axis, epsilon`: over the axes from `axis` on;
  scale and bias broadcast to x
* `log_softmax(x): axis`
* `lp_normalization(x): axis, p, least`: x over the sum of |x| (p 1) or the root of that of squares
  (p 2) along the axis, or over `least` where that is larger
"""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.ops.movement import MAX_AXES
from tflgpu_plugin.ops.table import Op, same_shape

SMALLEST = 1.17549435e-38  # of normal float32: what divides an input of zeros


def _axes(graph: Graph, node: Node) -> tuple[int, ...]:
    """Axes that are normalized together."""
    rank = len(graph.shape(node.operand()))
    if node.op == "instance_normalization":
        return tuple(range(1, rank - 1))
    axis = int(node.attributes.get("axis", -1))
    axis += rank if axis < 0 else 0
    alone = node.op in ("log_softmax", "lp_normalization")
    return (axis,) if alone else tuple(range(axis, rank))


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """An axis of the input; scale and bias that broadcast to it."""
    shape = graph.shape(node.operand())
    axes = _axes(graph, node)
    if prod(shape) == 0:
        return f"An input of {list(shape)} has no elements."
    if not axes or not all(0 <= axis < len(shape) for axis in axes) or len(shape) > MAX_AXES:
        return f"{node.op} has no axes to work on in an input of shape {list(shape)}."
    for tensor in node.inputs[1:]:
        if tensor is None:
            continue
        given = graph.shape(tensor)
        try:
            fits = broadcast(shape, given) == shape
        except ValueError:
            fits = False
        if not fits:
            return f"A scale or bias of shape {list(given)} does not fit {list(shape)}."
    return None


def decompose(steps: Decomposition, node: Node) -> bool:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias."""
    x = node.operand()
    axes = steps.indices(_axes(steps.graph, node))
    mean = steps.add("mean", x, axes, keep_dims=True)
    centred = steps.add("sub", x, mean)
    variance = steps.add("reduce_mean_square", centred, axes, keep_dims=True)
    epsilon = steps.number(node.attributes.get("epsilon", 1e-5))
    factor = steps.add("rsqrt", steps.add("add", variance, epsilon))
    scale, bias = (*node.inputs[1:], None, None)[:2]
    if scale is not None and node.op == "instance_normalization":
        factor, scale = steps.add("mul", factor, scale), None
    tail = [("mul", factor), ("mul", scale), ("add", bias)]
    tail = [(op, operand) for op, operand in tail if operand is not None]
    value = centred
    for op, operand in tail[:-1]:
        value = steps.add(op, value, operand)
    steps.last(tail[-1][0], value, tail[-1][1])
    return True


def decompose_log_softmax(steps: Decomposition, node: Node) -> bool:
    """x - max - log(sum(exp(x - max)))."""
    x = node.operand()
    axes = steps.indices(_axes(steps.graph, node))
    top = steps.add("reduce_max", x, axes, keep_dims=True)
    below = steps.add("sub", x, top)
    total = steps.add("reduce_log_sum", steps.add("exp", below), axes, keep_dims=True)
    steps.last("sub", below, total)
    return True


def refuse_lp(graph: Graph, node: Node, target: Target) -> str | None:
    """An axis of the input, p 1 or 2."""
    if node.attributes.get("p", 2) not in (1, 2):
        return f"A norm of p {node.attributes['p']} is not supported; 1 and 2 are."
    return refuse(graph, node, target)


def decompose_lp(steps: Decomposition, node: Node) -> bool:
    """x / max(norm, least)."""
    x, axes = node.operand(), steps.indices(_axes(steps.graph, node))
    norm = steps.add(f"reduce_l{node.attributes.get('p', 2)}", x, axes, keep_dims=True)
    least = steps.number(node.attributes.get("least", SMALLEST))
    steps.last("div", x, steps.add("maximum", least, norm))  # which keeps NaN of its second operand
    return True


def _work(graph: Graph, node: Node) -> int:
    return 8 * prod(graph.shape(node.operand()))


OPS = (
    *(
        Op(name, refuse, same_shape, lower_decomposed, "reduction", work=_work, kind="composite",
           decompose=decompose, accumulates=False)
        for name in ("instance_normalization", "layer_normalization")
    ),
    Op(
        "log_softmax", refuse, same_shape, lower_decomposed, "transcendental", work=_work,
        kind="composite", decompose=decompose_log_softmax,
    ),
    Op(
        "lp_normalization", refuse_lp, same_shape, lower_decomposed, "reduction", work=_work,
        kind="composite", decompose=decompose_lp, accumulates=False,
    ),
)  # fmt: skip
