"""`softmax(x): beta, axis` (default: the last): exp(beta * (x - max)) / sum, as in
tensorflow/lite/kernels/internal/reference/softmax.h.
"""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Lowering
from tflgpu_plugin.ops.movement import MAX_AXES
from tflgpu_plugin.ops.reduce import exchanges, lanes
from tflgpu_plugin.ops.table import Op, elements, same_shape

HELD = 8  # vec4 of a row that a thread keeps in registers, on GPUs
MAX_CHANNELS = MAX_LOOP_ROUNDS * WORKGROUP * 4  # that a workgroup takes in one loop


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Rank 1 or more."""
    shape = graph.shape(node.operand())
    if not shape:
        return Refusal("rank.unsupported", "Softmax needs an input of rank 1 at least.")
    if prod(shape) == 0:
        return Refusal("shape.empty", f"An input of {list(shape)} has no elements.")
    axis = int(node.attributes.get("axis", -1))
    if not -len(shape) <= axis < len(shape):
        return Refusal(
            "attribute.invalid", f"Axis {axis} is out of range for an input of rank {len(shape)}."
        )
    if shape[axis] > MAX_CHANNELS:
        said = f"Softmax over {shape[axis]:,} channels is over the limit of {MAX_CHANNELS:,}."
        return Refusal("shape.too_large", said)
    return None


def lower(low: Lowering, node: Node) -> None:
    """One launch over rows of [batch, spatial]."""
    x = low.geometry(node.operand())
    rows = x.batch * x.spatial
    together = lanes(low.target, x.slices, rows)
    each = -(-x.slices // together)
    low.loops(node, 3 * (each + 1) + 2 * together.bit_length())
    low.dispatch(
        "softmax",
        node,
        {"x": node.operand()},
        {"out": node.outputs[0]},
        (-(-rows * together // WORKGROUP), 1, 1),
        {
            "rows": rows,
            "spatial": x.spatial,
            "slices": x.slices,
            "channels": x.channels,
            "lanes": together,
            "beta": float(node.attributes["beta"]),
        },
        {
            "shared": exchanges(low.target, x.slices),
            "held": 0 if low.target.software or each > HELD else each,
        },
    )


def decompose(steps: Decomposition, node: Node) -> bool:
    """Another axis than the last is moved there and back; of many axes the others become one."""
    shape = steps.shape(node.operand())
    rank = len(shape)
    axis = int(node.attributes.get("axis", -1)) % rank
    if axis == rank - 1:
        if rank <= MAX_AXES:
            return False
        rows = steps.reshape(node.operand(), (-1, shape[-1]))
        made = steps.add("softmax", rows, beta=node.attributes["beta"])
        steps.last("reshape", made, None, shape=shape)
        return True
    perm = (*(k for k in range(rank) if k != axis), axis)
    back = tuple(sorted(range(rank), key=perm.__getitem__))
    moved = steps.add("transpose", node.operand(), perm=perm)
    made = steps.add("softmax", moved, beta=node.attributes["beta"])
    steps.last("transpose", made, perm=back)
    return True


ATTRIBUTES = "axis beta"
OPS = (
    Op(
        "softmax", refuse, same_shape, lower, "transcendental", work=elements(4), kind="reduction",
        operands=1, fuses=True, decompose=decompose, accumulates=False, follows="last",
    ),
)  # fmt: skip
