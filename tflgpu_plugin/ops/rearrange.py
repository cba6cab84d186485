"""Ops that pick elements by a fixed pattern:

* `tile(x, repeats constant)`, `expand(x, shape constant)`: numpy's tile and broadcast_to (the shape
  is broadcast with that of x)
* `take(x, a row of constant indices per axis, ...): axes`: numpy's take along each of these axes
* `gather(x, indices): axis, wraps`: numpy's take; constant indices may be negative, others become a
  `pick`
* `depth_to_space(x [B, H, W, C]): block, mode` and `space_to_depth`: mode "DCR" (default) has the
  block outside of the channels, "CRD" inside
* `space_to_batch(x [B, extents..., C], blocks, paddings)` and `batch_to_space(x, blocks, crops)`:
  the places inside a block become batches, the first place's first; paddings and crops are
  [axes, 2]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import pick
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.ops.movement import ANY, MAX_AXES, moving
from tflgpu_plugin.ops.table import MOVED, Op
from tflgpu_plugin.ops.views import View, axis_of, repeated, taken, transposed


def _numbers(graph: Graph, node: Node, what: str) -> Array:
    value = graph.constant(node.inputs[1])
    if value is None:
        raise ValueError(f"{what} must be constant")
    return value


def _axis(graph: Graph, node: Node) -> int:
    """The axis of a gather, from 0. Raises ValueError when there is none."""
    return axis_of(node.attributes["axis"], len(graph.shape(node.operand())))


def _indices(graph: Graph, node: Node, axis: int, position: int = 1) -> Array:
    """Indices from 0 along an axis. Raises ValueError when one is outside of it."""
    extent = graph.shape(node.operand())[axis]
    given = graph.constant(node.inputs[position])
    if given is None:
        raise ValueError("indices must be constant")
    given = given.astype(np.int64)
    if given.size and (given.min() < -extent or given.max() >= extent):
        raise ValueError(f"an index is outside an axis of {extent}")
    return np.where(given < 0, given + extent, given)


def rows(graph: Graph, node: Node) -> dict[int, Array]:
    """Of a `take`: the indices by axis, both from 0. Raises ValueError."""
    rank = len(graph.shape(node.operand()))
    named = [axis_of(axis, rank) for axis in node.attributes["axes"]]
    found = {axis: _indices(graph, node, axis, k) for k, axis in enumerate(named, start=1)}
    if len(found) < len(node.inputs) - 1 or any(row.ndim != 1 for row in found.values()):
        raise ValueError("each axis needs one row of indices")
    return found


def tiled(graph: Graph, node: Node) -> list[View]:
    shape, repeats = graph.shape(node.operand()), _numbers(graph, node, "repeats").reshape(-1)
    if len(repeats) != len(shape):
        raise ValueError(f"{len(repeats)} repeats do not fit a tensor of rank {len(shape)}")
    return [repeated(shape, [int(count) for count in repeats])]


def expanded(graph: Graph, node: Node) -> list[View]:
    shape = graph.shape(node.operand())
    wanted = tuple(int(extent) for extent in _numbers(graph, node, "the shape").reshape(-1))
    target = broadcast(shape, wanted)
    lead = len(target) - len(shape)
    pairs = zip(target, (1,) * lead + shape, strict=True)
    return [repeated(shape, [1 if wide == extent else wide for wide, extent in pairs])]


def took(graph: Graph, node: Node) -> list[View]:
    return [taken(graph.shape(node.operand()), rows(graph, node))]


def gather_shapes(graph: Graph, node: Node) -> list[Shape]:
    shape, axis, listed = graph.shape(node.operand()), _axis(graph, node), node.operand(1)
    if not _is_computed(graph, node):
        _indices(graph, node, axis)  # they must be inside
    return [(*shape[:axis], *graph.shape(listed), *shape[axis + 1 :])]


def _is_computed(graph: Graph, node: Node) -> bool:
    """A run tells the indices."""
    return node.op == "gather" and graph.constant(node.inputs[1]) is None


def blocks(graph: Graph, node: Node) -> list[View]:
    """Depth to space and back: the axes in parts, in another order."""
    shape, n = graph.shape(node.operand()), int(node.attributes["block"])
    if len(shape) != 4 or n < 1:
        raise ValueError(f"a block of {n} and an input of shape {list(shape)} do not fit")
    batch, height, width, channels = shape
    apart = node.op == "depth_to_space"
    if channels % (n * n) if apart else height % n or width % n:
        raise ValueError(f"a block of {n} does not divide an input of shape {list(shape)}")
    inside = node.attributes.get("mode", "DCR") == "CRD"
    if apart:
        depth = channels // (n * n)
        parts = (batch, height, width, *((depth, n, n) if inside else (n, n, depth)))
        perm = (0, 1, 4, 2, 5, 3) if inside else (0, 1, 3, 2, 4, 5)
        result = (batch, height * n, width * n, depth)
    else:
        parts = (batch, height // n, n, width // n, n, channels)
        perm = (0, 1, 3, 5, 2, 4) if inside else (0, 1, 3, 2, 4, 5)
        result = (batch, height // n, width // n, channels * n * n)
    return [replace(transposed(parts, perm), shape=result)]


def batch_shapes(graph: Graph, node: Node) -> list[Shape]:
    return [_batches(graph, node).shape]


class _Batches(NamedTuple):
    """Blocks and margins (before, after) of the axes after the batch, and the result's shape."""

    blocks: tuple[int, ...]
    margins: tuple[tuple[int, int], ...]
    shape: Shape


def _batches(graph: Graph, node: Node) -> _Batches:
    """Raises ValueError with the reason when it cannot be read."""
    shape, given = graph.shape(node.operand()), [graph.constant(t) for t in node.inputs[1:3]]
    if given[0] is None or given[1] is None:
        raise ValueError("blocks and margins must be constant")
    blocks = tuple(int(n) for n in given[0].reshape(-1))
    if given[1].size != 2 * len(blocks) or not 0 < len(blocks) < len(shape):
        raise ValueError(f"{len(blocks)} blocks do not fit an input of shape {list(shape)}")
    margins = tuple((int(a), int(b)) for a, b in given[1].reshape(-1, 2))
    if min(blocks) < 1 or min(min(pair) for pair in margins) < 0:
        raise ValueError("blocks must be positive, and margins not negative")
    inner, rest = shape[1 : 1 + len(blocks)], shape[1 + len(blocks) :]
    sizes = list(zip(inner, blocks, margins, strict=True))
    if node.op == "space_to_batch":
        batch, rests = shape[0] * prod(blocks), [(n + sum(m)) % block for n, block, m in sizes]
        made = [(n + sum(m)) // block for n, block, m in sizes]
    else:
        batch, rests = shape[0] // prod(blocks), [shape[0] % prod(blocks)]
        made = [n * block - sum(m) for n, block, m in sizes]
    if any(rests) or min(made) < 0:
        raise ValueError(f"blocks of {list(blocks)} do not fit an input of shape {list(shape)}")
    return _Batches(blocks, margins, (batch, *made, *rest))


SHAPES = {
    "space_to_batch": batch_shapes, "batch_to_space": batch_shapes, "gather": gather_shapes
}  # fmt: skip
NEEDS = (
    "A pattern that is known when the model is prepared, over 5 axes at most. GATHER also takes "
    "indices of a run; one outside gives the nearest element."
)


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    try:
        (shape,) = SHAPES[node.op](graph, node)
    except ValueError as error:
        return f"{node.op} cannot be planned: {error}."
    axes = max(len(shape), len(graph.shape(node.operand())))
    if axes > MAX_AXES:
        return f"{node.op} works on {axes} axes, and {MAX_AXES} are supported."
    if _is_computed(graph, node):
        return pick.refuse_indices(graph, node)
    return None


refuse.__doc__ = NEEDS


def _axes(shape: Shape, target: Sequence[int]) -> int:
    """Of the view that repeats a tensor."""
    counts = [wide // extent for wide, extent in zip(target, shape, strict=True)]
    return len(repeated(shape, counts).simple().axes)


def decompose_tile(steps: Decomposition, node: Node) -> bool:
    """One axis after the other where all at once are too many for one movement; an axis between all
    before it and all after it where even that is too much."""
    x, target = node.operand(), list(steps.shape(node.outputs[0]))
    if _axes(steps.shape(x), target) <= MAX_AXES:
        return False
    for axis, extent in enumerate(target):
        shape = list(steps.shape(x))
        repeats = extent // shape[axis]
        if repeats == 1:
            continue
        shape[axis] = extent
        if _axes(steps.shape(x), shape) <= MAX_AXES:
            row = [repeats if k == axis else 1 for k in range(len(shape))]
            x = steps.add("tile", x, steps.indices(row))
            continue
        sides = prod(shape[:axis]), extent // repeats, prod(shape[axis + 1 :])
        x = steps.add("tile", steps.reshape(x, sides), steps.indices((1, repeats, 1)))
        x = steps.reshape(x, shape)
    steps.last("reshape", x, None, shape=tuple(target))
    return True


def decompose_gather(steps: Decomposition, node: Node) -> bool:
    """Indices of another rank than 1: taken in one row, then given their shape."""
    axis = _axis(steps.graph, node)
    if _is_computed(steps.graph, node):
        places, wraps = pick.rows(steps, node.operand(1), 1), node.attributes.get("wraps", False)
        taken = steps.add("pick", node.operand(), places, axis=axis, wraps=wraps)
    else:
        row = steps.indices(_indices(steps.graph, node, axis).reshape(-1))
        taken = steps.add("take", node.operand(), row, axes=(axis,))
    steps.last("reshape", taken, None, shape=gather_shapes(steps.graph, node)[0])
    return True


def decompose_batches(steps: Decomposition, node: Node) -> bool:
    """Margins, and the places of blocks: axes in parts, in another order."""
    x, graph = node.operand(), steps.graph
    blocks, margins, shape = _batches(graph, node)
    count, rank, padded = len(blocks), len(shape), any(map(any, margins))
    around = ((0, 0), *margins, *((0, 0) for _ in range(1 + count, rank)))
    rest = range(1 + 2 * count, rank + count)
    if node.op == "space_to_batch":
        x = steps.add("pad", x, steps.indices(around)) if padded else x
        batch, *extents = steps.shape(x)
        parts = [n for e, b in zip(extents, blocks, strict=False) for n in (e // b, b)]
        odd, even = range(1, 2 * count, 2), range(2, 2 * count + 1, 2)
        view = transposed((batch, *parts, *shape[1 + count :]), (*even, 0, *odd, *rest))
        steps.last("view", x, view=replace(view, shape=shape))
        return True
    batch, *extents = steps.shape(x)
    pairs = [axis for k in range(count) for axis in (count + 1 + k, k)]
    view = transposed((*blocks, batch // prod(blocks), *extents), (count, *pairs, *rest))
    grown = tuple(extent + sum(pair) for extent, pair in zip(shape, around, strict=True))
    view = replace(view, shape=grown)
    if padded:
        first = steps.indices([before for before, _ in around])
        steps.last("slice", steps.add("view", x, view=view), first, steps.indices(shape))
    else:
        steps.last("view", x, view=view)
    return True


OPS = (
    moving("tile", tiled, NEEDS, fuses=True, decompose=decompose_tile),
    moving("expand", expanded, NEEDS, fuses=True),
    moving("take", took, NEEDS, fuses=True, follows="axes"),
    *(moving(name, blocks, NEEDS, fuses=True) for name in ("depth_to_space", "space_to_depth")),
    *(
        Op(
            name,
            refuse,
            SHAPES[name],
            lower_decomposed,
            "exact",
            types=ANY,
            kind="movement",
            decompose=rule,
            keeps="first",
            errors=MOVED,
        )
        for name, rule in (
            ("gather", decompose_gather),
            ("space_to_batch", decompose_batches),
            ("batch_to_space", decompose_batches),
        )
    ),
)
