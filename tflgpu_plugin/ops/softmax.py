"""`softmax(x): beta, axis` (default: the last): exp(beta * (x - max)) / sum, as in
tensorflow/lite/kernels/internal/reference/softmax.h."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.forms import Form, Forms, always
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Kernel, Lowering
from tflgpu_plugin.ops.movement import MAX_AXES
from tflgpu_plugin.ops.reduce_forms import exchanges, lanes
from tflgpu_plugin.ops.table import Int16, Op, elements, same_shape

HELD = 8  # vec4 of a row that a thread keeps in registers, on GPUs
MAX_CHANNELS = MAX_LOOP_ROUNDS * WORKGROUP * 4  # channels that a workgroup covers in one loop


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires rank 1 or more."""
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


# ---- forms ---------------------------------------------------------------------------------------


class Softmax(NamedTuple):
    """A softmax along the rows of a tensor, that is its last axis."""

    low: Lowering
    node: Node

    @property
    def together(self) -> int:
        """Returns the number of threads that share a row."""
        x = self.low.geometry(self.node.operand())
        return lanes(self.low.target, x.slices, x.batch * x.spatial)

    @property
    def each(self) -> int:
        """Returns the number of vec4 of a row per thread."""
        return -(-self.low.geometry(self.node.operand()).slices // self.together)


def _launch(s: Softmax, held: int) -> None:
    """Records one launch. A thread keeps `held` vec4 of its row in registers, or reads rows
    again."""
    low, node, together = s.low, s.node, s.together
    x = low.geometry(node.operand())
    rows = x.batch * x.spatial
    low.loops(node, 3 * (s.each + 1) + 2 * together.bit_length())
    low.dispatch(
        Kernel(
            "softmax",
            {
                "rows": rows,
                "spatial": x.spatial,
                "slices": x.slices,
                "channels": x.channels,
                "lanes": together,
                "beta": float(node.attributes["beta"]),
            },
            {"shared": exchanges(low.target, x.slices), "held": held},
        ),
        node,
        {"x": node.operand()},
        {"out": node.outputs[0]},
        (-(-rows * together // WORKGROUP), 1, 1),
    )


FORMS = Forms(
    Softmax,
    (
        Form("softmax_held", lambda s: s.each <= HELD, lambda s: _launch(s, s.each),
             lambda s: not s.low.target.software),
        Form("softmax_rows", always, lambda s: _launch(s, 0)),
    ),
)  # fmt: skip


def decompose(steps: Decomposition, node: Node) -> bool:
    """Transposes another axis to the last and back, and merges leading axes beyond the kernel's
    rank."""
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


def refuse_int16(graph: Graph, node: Node) -> Refusal | None:
    """Refuses int16 of more axes than the kernels take, or rows whose sums may exceed int32."""
    shape = graph.shape(node.operand())
    if len(shape) <= MAX_AXES and shape[-1] < 1 << 16:
        return None
    said = f"A softmax of int16 has up to {MAX_AXES} axes, the last of fewer than 65,536 numbers."
    return Refusal("shape.unsupported", said)


ATTRIBUTES = "axis beta!"
OPS = (
    Op(
        "softmax", refuse, same_shape, FORMS, "transcendental", work=elements(4), kind="reduction",
        fuses=True, decompose=decompose, accumulates=False, follows="last",
        int16=Int16("shares", refuse_int16),
    ),
)  # fmt: skip
