"""`reverse_sequence(x, lengths [sequences]): batch_axis, time_axis, raises` reverses the first
steps of each sequence, as many as its length, and keeps the others. Lengths out of range are
clamped, and with `raises`, where hosts fail, the run is flagged."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Target, planar
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering
from tflgpu_plugin.ops.movement import ANY, vector_strides
from tflgpu_plugin.ops.pick import refuse_indices
from tflgpu_plugin.ops.table import MOVED, Op, same_shape


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires two axes, and a length for each sequence."""
    shape, lengths = graph.shape(node.operand()), graph.shape(node.operand(1))
    batch, time = node.attributes["batch_axis"], node.attributes["time_axis"]
    if not all(-len(shape) <= axis < len(shape) for axis in (batch, time)):
        said = f"Axes {batch} and {time} are out of range for an input of rank {len(shape)}."
        return Refusal("attribute.invalid", said)
    batch, time = batch % len(shape), time % len(shape)
    if batch == time:
        return Refusal(
            "attribute.invalid", f"The axes of sequences and of their steps are the same, {time}."
        )
    if lengths != (shape[batch],):
        return Refusal(
            "shape.mismatch", f"{shape[batch]} sequences have lengths of the shape {list(lengths)}."
        )
    told = graph.constant(node.inputs[1])
    if told is not None and not all(0 <= length <= shape[time] for length in told.reshape(-1)):
        said = f"Lengths must be from 0 to {shape[time]}, not {told.reshape(-1).tolist()}."
        return Refusal("constant.invalid", said)
    return refuse_indices(graph, node)


def lower(low: Lowering, node: Node) -> None:
    """Records one launch."""
    shape = low.graph.shape(node.operand())
    batch, time = _axes(node, len(shape))
    strides, raises = vector_strides(shape), bool(node.attributes.get("raises"))
    low.each_vector(
        Kernel(
            "reverse_sequence",
            {
                "step": strides[time], "steps": shape[time], "apart": strides[batch],
                "sequences": shape[batch],
            },
            {"raises": raises},
        ),
        node,
        {
            "x": low.stored(node.operand()),
            "lengths": Access(low.stored(node.operand(1)), 1),
        },
        checked=raises,
    )  # fmt: skip


def decompose(steps: Decomposition, node: Node) -> bool:
    """Transposes to [sequences, steps, others] if the last axis is involved or storage is not
    planar."""
    shape, lengths = steps.shape(node.operand()), node.operand(1)
    batch, time = _axes(node, len(shape))
    if planar(shape) and len(shape) - 1 not in (batch, time):
        return False
    perm = (batch, time, *(k for k in range(len(shape)) if k not in (batch, time)))
    moved = steps.add("transpose", node.operand(), perm=perm)
    there, raises = steps.shape(moved), bool(node.attributes.get("raises"))
    x = steps.reshape(moved, (*there[:2], prod(there[2:])))
    made = steps.add("reverse_sequence", x, lengths, batch_axis=0, time_axis=1, raises=raises)
    back = tuple(sorted(range(len(shape)), key=perm.__getitem__))
    steps.last("transpose", steps.reshape(made, there), perm=back)
    return True


def _axes(node: Node, rank: int) -> tuple[int, int]:
    return node.attributes["batch_axis"] % rank, node.attributes["time_axis"] % rank


ATTRIBUTES = "batch_axis! time_axis! raises"
OPS = (
    Op("reverse_sequence", refuse, same_shape, lower, "exact", types=ANY,
       kind="movement", fuses=True, decompose=decompose, keeps="first", errors=MOVED,
       operands="xx"),
)  # fmt: skip
