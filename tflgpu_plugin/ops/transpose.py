"""`transpose(x): perm`, axis k of the result being axis perm[k] of x (negative: from the end).

With `view` and `shape` (made by a pass), x is read under another row-major shape, and the result
has one of its own.

Nothing moves when the device storage stays as it is. Otherwise one gather: neighbouring axes that
stay together count as one, so that any order of up to 5 such groups runs, of rank 8 at most.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import io_layout
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.movement import MAX_AXES, Axis, in_place, move
from tflgpu_plugin.ops.table import MOVED, Op


def order(graph: Graph, node: Node) -> tuple[int, ...]:
    """The permutation, counted from 0. Raises ValueError when it is none of this rank."""
    rank = len(_view(graph, node))
    given = [int(axis) for axis in node.attributes["perm"]]
    perm = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(perm) != list(range(rank)):
        raise ValueError(f"perm {given} does not order the axes of a tensor of rank {rank}")
    return perm


def _view(graph: Graph, node: Node) -> Shape:
    assert node.inputs[0] is not None
    return tuple(node.attributes.get("view", graph.shape(node.inputs[0])))


def shapes(graph: Graph, node: Node) -> list[Shape]:
    shape = _view(graph, node)
    if "shape" in node.attributes:
        return [tuple(node.attributes["shape"])]
    return [tuple(shape[axis] for axis in order(graph, node))]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """A permutation of the axes that falls into 5 groups of neighbours at most."""
    try:
        shapes(graph, node)
    except ValueError as error:
        return f"A transpose cannot be planned: {error}."
    assert node.inputs[0] is not None
    _, perm = grouped(_view(graph, node), order(graph, node))
    if len(perm) > MAX_AXES:
        return f"The transpose moves {len(perm)} groups of axes; {MAX_AXES} are supported."
    return None


def grouped(shape: Shape, perm: tuple[int, ...]) -> tuple[Shape, tuple[int, ...]]:
    """The same movement with axes of extent 1 left out and neighbours that stay together joined."""
    runs: list[list[int]] = []  # axes of the input, in the order of the output
    previous = None
    present = [axis for axis in range(len(shape)) if shape[axis] != 1]
    following = dict(pairwise(present))
    for axis in perm:
        if shape[axis] == 1:
            continue
        if previous is not None and following.get(previous) == axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
        previous = axis
    starts = sorted(run[0] for run in runs)
    extents = {run[0]: prod(shape[axis] for axis in run) for run in runs}
    return tuple(extents[start] for start in starts), tuple(starts.index(r[0]) for r in runs)


def lower(low: Lowering, node: Node) -> None:
    assert node.inputs[0] is not None
    shape, perm = low.graph.shape(node.inputs[0]), order(low.graph, node)
    target = low.graph.shape(node.outputs[0])
    if len(shape) <= MAX_AXES and "view" not in node.attributes:
        axes = [Axis(shape[axis], axis) for axis in perm]
        if in_place(shape, target, axes) and not node.posts:
            low.alias(node.outputs[0], node.inputs[0])
        elif not io_layout.pack_turned(low, node, perm):
            if perm == (0, len(perm) - 1, *range(1, len(perm) - 1)) and not node.posts:
                low.turned[node.outputs[0]] = node.inputs[0]
            move(low, node, axes)
        return
    view, joined = grouped(_view(low.graph, node), perm)
    move(low, node, [Axis(view[axis], axis) for axis in joined], view=view)


OPS = (
    Op("transpose", refuse, shapes, lower, "exact", types=("f32", "bool"), fuses=True, max_rank=8,
       kind="movement", keeps="first", errors=MOVED),
)  # fmt: skip
