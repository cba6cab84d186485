"""`split(x, axis i32 constant, extents i32 constant)` into one part along an axis per output, of
these extents (one may be -1: the rest) or, without the third input, of equal ones; `unstack(x):
axis` into one output per element of the axis, which is removed."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from tflgpu_plugin.ir import Array, Graph, Node, NotConstant
from tflgpu_plugin.ir.host_op import count_given
from tflgpu_plugin.ir.symbolic import in_range, integer
from tflgpu_plugin.ops.movement import decompose_parts, moving
from tflgpu_plugin.ops.views import View, axis_of, part

REST = -1  # an extent: the rest


def axis(graph: Graph, node: Node) -> int:
    """Returns the axis, from 0. Raises ValueError if it is computed at run time or out of range."""
    rank, value = len(graph.shape(node.operand())), graph.constant(node.inputs[1])
    if value is None or value.size != 1:
        raise NotConstant("the axis must be one constant")
    return axis_of(int(value.reshape(-1)[0]), rank)


def views(graph: Graph, node: Node) -> list[View]:
    """Returns the view of each part."""
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
    """Returns the extents of the parts, with -1 replaced by what remains. Raises ValueError if they
    do not fit."""
    if value is None:
        raise NotConstant("the extents of the parts must be constants")
    extents = [integer(extent) for extent in value.reshape(-1)]
    others = sum(extent for extent in extents if extent != REST)
    possible = len(extents) == count and extents.count(REST) <= 1 and in_range(value, REST)
    if not possible or (others != whole if REST not in extents else others > whole):
        raise ValueError(f"parts of {extents} do not make up {count} of an extent of {whole}")
    return [whole - others if extent == REST else extent for extent in extents]


def unstacked(graph: Graph, node: Node) -> list[View]:
    """Returns the view of each element of an axis, without the axis."""
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
