"""`split(x, axis i32 constant, extents i32 constant)` into as many parts along an axis as it has
outputs, of these extents (one may be -1: the rest) or, where there is no third input, of equal
ones; and `unstack(x): axis` into as many as the axis has elements, which lose it."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from tflgpu_plugin.ir import Array, Graph, Node, NotConstant
from tflgpu_plugin.ir.host_op import count_given
from tflgpu_plugin.ops.movement import decompose_parts, moving
from tflgpu_plugin.ops.views import View, axis_of, part

REST = -1  # an extent: what the other parts leave


def axis(graph: Graph, node: Node) -> int:
    """The axis, counted from 0. Raises ValueError when it is computed at run time or not there."""
    rank, value = len(graph.shape(node.operand())), graph.constant(node.inputs[1])
    if value is None or value.size != 1:
        raise NotConstant("the axis must be one constant")
    return axis_of(int(value.reshape(-1)[0]), rank)


def views(graph: Graph, node: Node) -> list[View]:
    """The parts, one after the other."""
    shape, at, count = graph.shape(node.operand()), axis(graph, node), len(node.outputs)
    if count_given(node.inputs) > 2:
        extents = _given(graph.constant(node.inputs[2]), shape[at], count)
    elif shape[at] % count:
        raise ValueError(f"an extent of {shape[at]} does not divide into {count} parts")
    else:
        extents = [shape[at] // count] * count
    starts = accumulate(extents, initial=0)
    return [part(shape, at, start, extent) for start, extent in zip(starts, extents, strict=False)]


def _given(value: Array | None, whole: int, count: int) -> list[int]:
    """The parts' extents, the rest where -1 is given. Raises ValueError."""
    if value is None:
        raise NotConstant("the extents of the parts must be constants")
    extents = [int(extent) for extent in value.reshape(-1)]
    others = sum(extent for extent in extents if extent != REST)
    possible = len(extents) == count and extents.count(REST) <= 1 and min(extents) >= REST
    if not possible or (others != whole if REST not in extents else others > whole):
        raise ValueError(f"parts of {extents} do not make up {count} of an extent of {whole}")
    return [whole - others if extent == REST else extent for extent in extents]


def unstacked(graph: Graph, node: Node) -> list[View]:
    """The elements of an axis, which is gone."""
    shape = graph.shape(node.operand())
    at = axis_of(node.attributes["axis"], len(shape))
    if shape[at] != len(node.outputs):
        raise ValueError(f"an extent of {shape[at]} does not become {len(node.outputs)} tensors")
    left = (*shape[:at], *shape[at + 1 :])
    return [replace(part(shape, at, k, 1), shape=left) for k in range(shape[at])]


ATTRIBUTES = {"unstack": "axis!"}
OPS = (
    moving(
        "unstack",
        unstacked,
        "As many outputs as the axis has elements.",
        decompose=decompose_parts,
    ),
    moving(
        "split",
        views,
        "A constant axis that divides into equal parts, or (SPLIT_V) into parts of constant "
        "extents, one of which may be -1, the rest.",
        decompose=decompose_parts,
        operands="xx?",
    ),
)
