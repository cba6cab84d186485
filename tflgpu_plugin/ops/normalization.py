"""Normalizations. Those of rows, of the last axis or of groups of channels, are one launch, with
scale and bias as fused steps; others decompose into reductions and elementwise ops. Variances are
computed from differences from the mean, so that a large mean does not cancel them.

* `standardize(x): epsilon, centred`: (x - mean) / sqrt(mean of squares of that + epsilon) along the
  last axis; if not `centred`, the mean is not subtracted
* `standardize_groups(x [B, ..., C]): epsilon, groups`: the same over all axes between batch and
  channels, and the channels of each of `groups` groups
* `instance_normalization(x [B, ..., C], scale [C] | None, bias [C] | None): epsilon`: over all axes
  between batch and channels
* `layer_normalization(x, scale | None, bias | None): axis, epsilon`: over the axes from `axis` on;
  scale and bias broadcast to x
* `log_softmax(x): axis`
* `lp_normalization(x): axis, p, least`: x / max(norm, least) along the axis, with the L1 norm (p 1)
  or L2 norm (p 2)"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target, planar
from tflgpu_plugin.ir.symbolic import f32
from tflgpu_plugin.ops import split_depth
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.elementwise import spreads
from tflgpu_plugin.ops.forms import Form, Forms, always
from tflgpu_plugin.ops.group_moments import divides
from tflgpu_plugin.ops.lowering import WORKGROUP, Kernel, Launch, Lowering, Stores
from tflgpu_plugin.ops.reduce_forms import AHEAD, exchanges, lanes, wide
from tflgpu_plugin.ops.table import NORMALIZED, Op, elements, same_shape

MAX_CHANNELS = 1 << 14  # channels of a row that few threads share
WIDE = 4  # vec4 per thread if more threads than usual share a row
HELD = 16  # vec4 of a row that a thread keeps in registers, on GPUs
MANY_VALUES = 1 << 16
SMALLEST = 1.17549435e-38  # smallest normal float32: the divisor of an input of zeros


def _axes(graph: Graph, node: Node) -> tuple[int, ...]:
    """Returns the axes over which the node normalizes."""
    rank = len(graph.shape(node.operand()))
    if node.op == "instance_normalization":
        return tuple(range(1, rank - 1))
    axis = int(node.attributes.get("axis", -1))
    axis += rank if axis < 0 else 0
    alone = node.op in ("log_softmax", "lp_normalization")
    return (axis,) if alone else tuple(range(axis, rank))


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an axis of the input; scale and bias that broadcast to it."""
    shape = graph.shape(node.operand())
    axes = _axes(graph, node)
    if prod(shape) == 0:
        return Refusal("shape.empty", f"An input of {list(shape)} has no elements.")
    if not axes or not all(0 <= axis < len(shape) for axis in axes):
        said = f"{node.op} has no axes to work on in an input of shape {list(shape)}."
        return Refusal("shape.unsupported", said)
    for tensor in node.inputs[1:]:
        if tensor is None:
            continue
        given = graph.shape(tensor)
        if not spreads(given, shape):
            said = f"A scale or bias of shape {list(given)} does not fit {list(shape)}."
            return Refusal("shape.mismatch", said)
    return None


def whole_rows(shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether `standardize` takes these axes as rows; longer rows are faster in several
    launches."""
    return axes == (len(shape) - 1,) and planar(shape) and shape[-1] <= MAX_CHANNELS


def refuse_rows(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires rows of up to 16,384 channels."""
    shape = graph.shape(node.operand())
    if not whole_rows(shape, (len(shape) - 1,)) or prod(shape) == 0:
        return Refusal("shape.unsupported", f"{node.op} does not support rows of {list(shape)}.")
    return None


def whole_groups(shape: Shape, groups: int) -> bool:
    """Whether `standardize_groups` computes these groups in one launch: groups of whole slices or
    of one channel, within the limit of rows."""
    if not planar(shape) or not 0 < groups <= shape[-1] or shape[-1] % groups:
        return False
    each = shape[-1] // groups
    count = each * prod(shape[1:-1])
    return (each == 1 or each % 4 == 0) and 0 < count <= MAX_CHANNELS


def groups_pay(shape: Shape, groups: int) -> bool:
    """Whether these groups are faster as `standardize_groups` than transposed to rows: one launch
    computes them, or the tensor is expensive to move."""
    large = divides(shape, groups) and prod(shape) >= MANY_VALUES
    return large or whole_groups(shape, groups)


def refuse_groups(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires groups of one channel or of a multiple of 4 channels, with at most 16,384 values
    each, unless the tensor has at least 65,536 values."""
    shape, groups = graph.shape(node.operand()), int(node.attributes["groups"])
    if groups_pay(shape, groups) and 0 not in shape:
        return None
    return Refusal(
        "shape.mismatch", f"{node.op} does not support {groups} groups of {list(shape)}."
    )


# ---- forms ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standardized:
    """A normalization of `rows` of `items` vec4, which hold `count` values. `groups`: a row has all
    channels (""), those of one or more "slices", or of one of the "lanes" of a slice."""

    low: Lowering
    node: Node
    rows: int
    items: int
    count: int
    groups: str = ""

    @classmethod
    def of_rows(cls, low: Lowering, node: Node) -> Standardized:
        """Returns the normalization over the last axis."""
        x = low.geometry(node.operand())
        return cls(low, node, x.batch * x.spatial, x.slices, x.channels)

    @classmethod
    def of_groups(cls, low: Lowering, node: Node) -> Standardized:
        """Returns the normalization over groups of channels."""
        x, groups = low.geometry(node.operand()), int(node.attributes["groups"])
        apart = groups == x.channels
        rows = x.batch * (x.slices if apart else groups)
        count = x.channels // groups * x.spatial
        return cls(low, node, rows, x.vectors // rows, count, "lanes" if apart else "slices")

    @property
    def threads(self) -> tuple[int, int]:
        """Returns the number of threads of a workgroup, and the number of those that share a
        row."""
        together = lanes(self.low.target, self.items, self.rows)
        threads = wide(self.low.target, self.items, self.rows, together, WIDE)
        return threads, threads if threads > WORKGROUP else together

    @property
    def each(self) -> int:
        """Returns the number of vec4 of a row per thread."""
        return -(-self.items // self.threads[1])

    @property
    def short(self) -> bool:
        """Whether a thread keeps its part of a row in registers."""
        return self.each <= HELD

    @property
    def summed(self) -> bool:
        """Whether the input is given as partial sums that are still to be added (split-K)."""
        return not self.groups and split_depth.taken(self.low, self.node) is not None


def _lower_sums(s: Standardized) -> None:
    """Records the launch with the addition of partial sums; it also stores the sums for other
    readers."""
    held = s.each if s.short and not s.low.target.software else 0
    adding = s.low.launches.pop()
    parts = adding.variant["parts"]
    assert isinstance(parts, int)
    _launch(s, held, adding, parts)


def _launch(s: Standardized, held: int, adding: Launch | None = None, parts: int = 0) -> None:
    """Records one launch. A thread keeps `held` vec4 of its row in registers, or reads rows
    again."""
    low, node, (threads, together) = s.low, s.node, s.threads
    x = low.geometry(node.operand())
    low.loops(node, (s.each + 1) * (3 + parts) + 2 * together.bit_length())
    low.dispatch(
        Kernel(
            "normalization",
            {
                "rows": s.rows,
                "spatial": x.spatial,
                "slices": x.slices,
                "items": s.items,
                "channels": x.channels,
                "count": f32(s.count),
                "lanes": together,
                "epsilon": float(node.attributes["epsilon"]),
                **({"part": adding.parameters["part"]} if adding else {}),
            },
            {
                "centred": bool(node.attributes.get("centred", True)),
                "groups": s.groups,
                "threads": threads,
                "shared": exchanges(low.target, s.items),
                "parts": parts,
                "held": held,
                "ahead": 1 if low.target.software or s.short or adding else AHEAD,
            },
        ),
        node,
        {"parts": adding.reads[0]} if adding else {"x": node.operand()},
        {**({"x": adding.writes[0]} if adding else {}), "out": node.outputs[0]},
        (-(-s.rows * together // threads), 1, 1),
        stores=Stores(also=(adding.node,) if adding else ()),
    )


FORMS: tuple[Form[Standardized], ...] = (
    Form("normalize_sums", lambda s: s.summed, _lower_sums),
    Form("normalize_held", lambda s: s.short, lambda s: _launch(s, s.each),
         lambda s: not s.low.target.software),
    Form("normalize_rows", always, lambda s: _launch(s, 0)),
)  # fmt: skip


def decompose(steps: Decomposition, node: Node) -> bool:
    """Computes (x - mean) / sqrt(variance + epsilon) * scale + bias."""
    x = node.operand()
    if whole_rows(steps.shape(x), _axes(steps.graph, node)):
        return _decompose_rows(steps, node, "standardize", centred=True)
    shape = steps.shape(x)
    if node.op == "instance_normalization" and whole_groups(shape, shape[-1]):
        return _decompose_rows(steps, node, "standardize_groups", groups=shape[-1])
    axes = steps.indices(_axes(steps.graph, node))
    mean = steps.add("mean", x, axes, keep_dims=True)
    image = node.op == "instance_normalization" and planar(shape)
    centred = None if image else steps.add("sub", x, mean)
    of = (x, axes, mean) if centred is None else (centred, axes)
    variance = steps.add("reduce_mean_square", *of, keep_dims=True)
    epsilon = steps.number(node.attributes.get("epsilon", 1e-5))
    factor = steps.add("rsqrt", steps.add("add", variance, epsilon))
    scale, bias = (*node.inputs[1:], None, None)[:2]
    if scale is not None and node.op == "instance_normalization":
        factor, scale = steps.add("mul", factor, scale), None
    tail = [("mul", factor), ("mul", scale), ("add", bias)]
    tail = [(op, operand) for op, operand in tail if operand is not None]
    value = steps.add("sub", x, mean) if centred is None else centred  # with all that follows
    for op, operand in tail[:-1]:
        value = steps.add(op, value, operand)
    steps.last(tail[-1][0], value, tail[-1][1])
    return True


def decompose_groups(steps: Decomposition, node: Node) -> bool:
    """Normalizes groups that exceed one launch: means and variances of groups, then all
    elements."""
    x, groups = node.operand(), int(node.attributes["groups"])
    shape = steps.shape(x)
    if whole_groups(shape, groups):
        return False
    mean = steps.add("mean_of_groups", x, groups=groups)
    variance = steps.add("mean_square_of_groups", x, None, mean, groups=groups)
    epsilon = steps.number(node.attributes["epsilon"])
    factor = steps.add("rsqrt", steps.add("add", variance, epsilon))
    places = steps.indices([channel // (shape[-1] // groups) for channel in range(shape[-1])])
    mean, factor = (
        steps.add("gather", each, places, axis=len(shape) - 1) for each in (mean, factor)
    )
    steps.last("mul", steps.add("sub", x, mean), factor)
    return True


def _decompose_rows(steps: Decomposition, node: Node, op: str, **more: int) -> bool:
    """Standardizes rows, then multiplies by the scale and adds the bias."""
    tail = zip(("mul", "add"), node.inputs[1:3], strict=False)
    given = [(op, operand) for op, operand in tail if operand is not None]
    epsilon = node.attributes.get("epsilon", 1e-5)
    inputs: tuple[int, ...] = (node.operand(),)
    last, attributes = op, {"epsilon": epsilon, **more}
    for op, operand in given:
        inputs = (steps.add(last, *inputs, **attributes), operand)
        last, attributes = op, {}
    steps.last(last, *inputs, **attributes)
    return True


def decompose_log_softmax(steps: Decomposition, node: Node) -> bool:
    """Computes x - max - log(sum(exp(x - max)))."""
    x = node.operand()
    axes = steps.indices(_axes(steps.graph, node))
    top = steps.add("reduce_max", x, axes, keep_dims=True)
    below = steps.add("sub", x, top)
    total = steps.add("reduce_log_sum", steps.add("exp", below), axes, keep_dims=True)
    steps.last("sub", below, total)
    return True


def refuse_lp(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an axis of the input, p 1 or 2."""
    if node.attributes.get("p", 2) not in (1, 2):
        said = f"A norm of p {node.attributes['p']} is not supported; 1 and 2 are."
        return Refusal("attribute.unsupported", said)
    return refuse(graph, node, target)


def decompose_lp(steps: Decomposition, node: Node) -> bool:
    """Computes x / max(norm, least). Without the attribute `least`, small x is multiplied by 2^75
    first, since devices may flush squares below 2^-126 to zero; x whose squares are zero on hosts
    gives zeros."""
    x, axes = node.operand(), steps.indices(_axes(steps.graph, node))
    power, least = node.attributes.get("p", 2), steps.number(node.attributes.get("least", SMALLEST))
    if power == 2 and "least" not in node.attributes:
        largest = steps.add("reduce_max", steps.add("abs", x), axes, keep_dims=True)
        some = steps.typed("bool", "greater", largest, steps.number(2.0**-75))
        small = steps.typed("bool", "less", largest, steps.number(2.0**-40))
        factor = steps.add("mul", steps.typed("f32", "cast", small), steps.number(2.0**75))
        factor = steps.add("add", factor, steps.number(1.0))
        x = steps.add("mul", x, steps.add("mul", steps.typed("f32", "cast", some), factor))
    norm = steps.add(f"reduce_l{power}", x, axes, keep_dims=True)
    # `maximum` keeps NaN of its second operand.
    steps.last("div", x, steps.add("maximum", least, norm))
    return True


ATTRIBUTES = {
    "instance_normalization": "epsilon", "layer_normalization": "axis epsilon",
    "log_softmax": "axis", "lp_normalization": "axis least p",
    "standardize": "centred epsilon!", "standardize_groups": "epsilon! groups!",
}  # fmt: skip
OPS = (
    Op("standardize", refuse_rows, same_shape, Forms(Standardized.of_rows, FORMS), "reduction",
       work=elements(8), kind="reduction", fuses=True, accumulates=False, errors=NORMALIZED,
       follows="last", adds_parts=True),
    Op("standardize_groups", refuse_groups, same_shape, Forms(Standardized.of_groups, FORMS),
       "reduction", work=elements(8), kind="reduction", fuses=True, accumulates=False,
       errors=NORMALIZED, decompose=decompose_groups),
    *(
        Op(name, refuse, same_shape, lower_decomposed, "reduction", work=elements(8),
           kind="composite", decompose=decompose, accumulates=False, operands="x??")
        for name in ("instance_normalization", "layer_normalization")
    ),
    Op(
        "log_softmax", refuse, same_shape, lower_decomposed, "transcendental", work=elements(8),
        kind="composite", decompose=decompose_log_softmax,
    ),
    Op(
        "lp_normalization", refuse_lp, same_shape, lower_decomposed, "reduction", work=elements(8),
        kind="composite", decompose=decompose_lp, accumulates=False,
    ),
)  # fmt: skip
