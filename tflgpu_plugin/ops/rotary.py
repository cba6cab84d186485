"""`rotary(x, cos, sin): heads, joined, paired, together`: rotary position embedding, which rotates
pairs of values of each head by an angle (J. Su and others, "RoFormer", 2021, equation 34): x * cos
+ y * sin, where y has (-b, a) for each pair (a, b) of x.

x is [batch, heads, length, depth], or has rank 3 [batch, length, heads * depth] with the attribute
`heads` (default 1). The result has rank 3 if `joined` (default: if x has). The leading values of
each head are rotated, the others are copied. A pair has one value in each half of them, or with
`together` is adjacent. cos and sin have one shape, which broadcasts to [batch, heads, length,
values that are rotated]; with `paired` they have one value per pair."""

from __future__ import annotations

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, ShapeError, Target
from tflgpu_plugin.ops.attention import spread_steps, steps_of, with_heads
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.ops.lowering import Kernel, Lowering
from tflgpu_plugin.ops.table import Op, unplanned
from tflgpu_plugin.ops.views import part


def split(graph: Graph, node: Node) -> tuple[Shape, int]:
    """Returns the shape of x with its heads, and how many values of each are rotated. Raises
    ValueError if cos and sin do not fit."""
    shape = with_heads(graph.shape(node.operand()), int(node.attributes.get("heads", 1)))
    cos, sin = (graph.shape(node.operand(k)) for k in (1, 2))
    turning = cos[-1] * (2 if node.attributes.get("paired") else 1) if cos else 0
    fits = len(cos) <= 4 and broadcast(shape[:-1], cos[:-1]) == shape[:-1]
    if cos != sin or not fits or turning % 2 or not 0 < turning <= shape[-1]:
        raise ShapeError(f"{list(cos)} and {list(sin)} do not fit {list(shape)}")
    return shape, turning


def _joined(graph: Graph, node: Node) -> bool:
    return bool(node.attributes.get("joined", len(graph.shape(node.operand())) == 3))


def shapes(graph: Graph, node: Node) -> list[Shape]:
    batch, heads, length, depth = shape = split(graph, node)[0]
    return [(batch, length, heads * depth) if _joined(graph, node) else shape]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires angles (cos and sin) of one shape that broadcasts over heads and positions."""
    reason = unplanned("Rotary embedding", shapes, graph, node)
    if reason is None and 0 in graph.shape(node.operand()):
        return Refusal("shape.empty", "A rotary embedding of an empty input is not supported.")
    return reason


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with a thread per vec4 of the result."""
    (_, heads, length, depth), turning = split(low.graph, node)
    paired, together = (bool(node.attributes.get(name)) for name in ("paired", "together"))
    low.each_vector(
        Kernel(
            "rotary",
            {
                "heads": heads, "length": length, "own": -(-depth // 4), "turning": turning // 4,
                "half": turning // 8, "table": turning // (8 if paired else 4),
                **steps_of("x", low.graph.shape(node.operand()), heads),
                **steps_of("y", low.graph.shape(node.outputs[0]), heads),
                **spread_steps("t", low.graph.shape(node.operand(1))),
            },
            {"together": together, "paired": paired},
        ),
        node,
        {name: low.stored(node.operand(k)) for k, name in enumerate(("x", "cos", "sin"))},
        writes=("y",),
    )  # fmt: skip


def even(turning: int, together: bool) -> bool:
    """Whether the values to rotate fill whole vec4, as the kernel requires."""
    return turning % (4 if together else 8) == 0


def decompose(steps: Decomposition, node: Node) -> bool:
    """Moves heads that do not begin at a vec4 to a separate axis, and rotates pairs that do not
    fill vec4 by elementwise ops."""
    (batch, heads, length, depth), turning = split(steps.graph, node)
    shape, joined = steps.shape(node.operand()), _joined(steps.graph, node)
    uneven = not even(turning, bool(node.attributes.get("together")))
    packed = heads > 1 and depth % 4 != 0 and (joined or len(shape) == 3)
    if not (uneven or packed):
        return False
    x = node.operand()
    if len(shape) == 3:
        x = steps.reshape(x, (batch, length, heads, depth))
        x = steps.add("transpose", x, perm=(0, 2, 1, 3))
    if uneven:
        made = _spelled(steps, x, turning)
    else:
        given = {**node.attributes, "joined": False}
        made = steps.add("rotary", x, *node.inputs[1:], **given)
    if joined:
        made = steps.add("transpose", made, perm=(0, 2, 1, 3))
    steps.last("reshape", made, None, shape=steps.shape(node.outputs[0]))
    return True


def _spelled(steps: Decomposition, x: int, turning: int) -> int:
    """Rotates x [batch, heads, length, depth] by elementwise products and sums."""
    together = bool(steps.node.attributes.get("together"))
    shape, pairs = steps.shape(x), turning // 2

    def cut(tensor: int, start: int, extent: int) -> int:
        whole = steps.shape(tensor)
        view = part(whole, len(whole) - 1, start, extent)
        return tensor if extent == whole[-1] else steps.add("view", tensor, view=view)

    def sides(tensor: int) -> list[int]:
        """Returns the first and the second value of each pair."""
        *outer, width = steps.shape(tensor)
        if together:
            tensor, width = steps.reshape(tensor, (*outer, pairs, width // pairs)), width // pairs
        each = 1 if together else pairs
        return [cut(tensor, start % width, each) for start in (0, each)]

    def times(a: int, b: int) -> int:
        return steps.add("mul", a, b)

    a, b = sides(cut(x, 0, turning))
    (cos_a, cos_b), (sin_a, sin_b) = (sides(steps.node.operand(k)) for k in (1, 2))
    found = (
        steps.add("sub", times(a, cos_a), times(b, sin_a)),
        steps.add("add", times(b, cos_b), times(a, sin_b)),
    )
    axis = len(steps.shape(found[0])) - 1
    made = steps.add("concat", *found, axis=axis, activation="none")
    made = steps.reshape(made, (*shape[:-1], turning))
    if turning == shape[-1]:
        return made
    rest = cut(x, turning, shape[-1] - turning)
    return steps.add("concat", made, rest, axis=3, activation="none")


ATTRIBUTES = "heads joined paired together"
OPS = (
    Op("rotary", refuse, shapes, lower, "accumulate", kind="product",
       by_head=True, operands="xxx", fuses=True, decompose=decompose, accumulates=False),
)  # fmt: skip
