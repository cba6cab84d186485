"""`split(x, axis i32 constant, extents i32 constant)` into as many parts along an axis as it has
outputs, of these extents (one may be -1: the rest) or, where there is no third input, of equal
ones; and `unstack(x): axis` into as many as the axis has places, which lose it."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.movement import MAX_AXES, Axis, move
from tflgpu_plugin.ops.table import MOVED, Op

REST = -1  # an extent: what the other parts leave


def axis(graph: Graph, node: Node) -> int:
    """The axis, counted from 0. Raises ValueError when it is computed at run time or not there."""
    assert node.inputs[0] is not None
    rank, value = len(graph.shape(node.inputs[0])), graph.constant(node.inputs[1])
    if value is None or value.size != 1:
        raise ValueError("the axis must be one constant")
    given = int(value.reshape(-1)[0])
    if not -rank <= given < rank:
        raise ValueError(f"axis {given} is outside a tensor of rank {rank}")
    return given % rank


def shapes(graph: Graph, node: Node) -> list[Shape]:
    assert node.inputs[0] is not None
    shape, at, count = graph.shape(node.inputs[0]), axis(graph, node), len(node.outputs)
    if len(node.inputs) > 2:
        extents = _given(graph.constant(node.inputs[2]), shape[at], count)
    elif shape[at] % count:
        raise ValueError(f"an extent of {shape[at]} does not divide into {count} parts")
    else:
        extents = [shape[at] // count] * count
    return [(*shape[:at], extent, *shape[at + 1 :]) for extent in extents]


def _given(value: Array | None, whole: int, count: int) -> list[int]:
    """The parts' extents, the rest where -1 is given. Raises ValueError."""
    if value is None:
        raise ValueError("the extents of the parts must be constants")
    extents = [int(extent) for extent in value.reshape(-1)]
    others = sum(extent for extent in extents if extent != REST)
    possible = len(extents) == count and extents.count(REST) <= 1 and min(extents) >= REST
    if not possible or (others != whole if REST not in extents else others > whole):
        raise ValueError(f"parts of {extents} do not make up {count} of an extent of {whole}")
    return [whole - others if extent == REST else extent for extent in extents]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """A constant axis that divides into equal parts, or (SPLIT_V) into parts of constant extents,
    one of which may be -1, the rest."""
    try:
        shape, *_ = shapes(graph, node)
    except ValueError as error:
        return f"A split cannot be planned: {error}."
    if len(shape) > MAX_AXES:
        return f"A split takes rank {MAX_AXES} at most, not {len(shape)}; reshape the tensor."
    return None


def lower(low: Lowering, node: Node) -> None:
    """A launch per part."""
    at, start = axis(low.graph, node), 0
    for output in node.outputs:
        shape = low.graph.shape(output)
        axes = [Axis(e, j, start if j == at else 0) for j, e in enumerate(shape)]
        move(low, replace(node, outputs=(output,)), axes)
        start += shape[at]


def unstack_shapes(graph: Graph, node: Node) -> list[Shape]:
    assert node.inputs[0] is not None
    shape = graph.shape(node.inputs[0])
    at = _unstacked(graph, node)
    if shape[at] != len(node.outputs):
        raise ValueError(f"an extent of {shape[at]} does not become {len(node.outputs)} tensors")
    return [(*shape[:at], *shape[at + 1 :])] * len(node.outputs)


def _unstacked(graph: Graph, node: Node) -> int:
    assert node.inputs[0] is not None
    rank, given = len(graph.shape(node.inputs[0])), int(node.attributes["axis"])
    if not -rank <= given < rank:
        raise ValueError(f"axis {given} is outside a tensor of rank {rank}")
    return given % rank


def refuse_unstack(graph: Graph, node: Node, target: Target) -> str | None:
    """As many outputs as the axis has places."""
    try:
        unstack_shapes(graph, node)
    except ValueError as error:
        return f"Unpacking cannot be planned: {error}."
    return None


def lower_unstack(low: Lowering, node: Node) -> None:
    """A launch per place."""
    at = _unstacked(low.graph, node)
    for k, output in enumerate(node.outputs):
        shape = low.graph.shape(output)
        axes = [Axis(e, j + (j >= at)) for j, e in enumerate(shape)]
        move(low, replace(node, outputs=(output,)), axes, fixed={at: k})


OPS = (
    Op("unstack", refuse_unstack, unstack_shapes, lower_unstack, "exact", types=("f32", "bool"),
       kind="movement", keeps="first"),
    Op("split", refuse, shapes, lower, "exact", types=("f32", "bool"), kind="movement",
       keeps="first", errors=MOVED),
)  # fmt: skip
