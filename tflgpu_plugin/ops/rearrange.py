"""Ops that pick elements by a fixed pattern:

* `tile(x, repeats constant)`, `expand(x, shape constant)`: numpy's tile and broadcast_to (the shape
  is broadcast with that of x, unless `one_way`)
* `reverse(x, axes constant)`: numpy's flip
* `gather(x, indices): axis, wraps, batch_dims, raises`: numpy's take. Constant indices may be
  negative (with `raises` only if they also wrap). Computed indices make it a `pick`, as do
  `batch_dims`, the leading axes that x, indices and result share
* `depth_to_space(x [B, H, W, C]): block, mode` and `space_to_depth`: mode "DCR" (default) has the
  block outside of the channels, "CRD" inside
* `space_to_batch(x [B, extents..., C], blocks, paddings)` and `batch_to_space(x, blocks, crops)`:
  positions in a block become batches, slowest; paddings and crops are [axes, 2]"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, NotConstant, Refusal, Shape, Target
from tflgpu_plugin.ir.symbolic import always_equal, in_range, integer, integers
from tflgpu_plugin.ops import pick
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.ops.movement import ANY, MAX_WALKED, moving
from tflgpu_plugin.ops.table import MOVED, Op, unplanned
from tflgpu_plugin.ops.views import View, axis_of, region, repeated, taken, transposed


def _numbers(graph: Graph, node: Node, what: str) -> Array:
    value = graph.constant(node.inputs[1])
    if value is None:
        raise NotConstant(f"{what} must be constant")
    return value


def _axis(graph: Graph, node: Node) -> int:
    """Returns the axis of a gather, from 0. Raises ValueError if there is none."""
    return axis_of(node.attributes["axis"], len(graph.shape(node.operand())))


def _batch(graph: Graph, node: Node) -> int:
    """Returns how many axes x and indices share; a negative attribute counts from the indices'
    rank."""
    batch, rank = int(node.attributes.get("batch_dims", 0)), len(graph.shape(node.operand(1)))
    return batch + rank if batch < 0 else batch


def _indices(graph: Graph, node: Node) -> Array:
    """Returns the indices of a gather as a vector. Raises ValueError for indices that are out of
    range or computed."""
    shape, axis = graph.shape(node.operand()), _axis(graph, node)
    row = integers(_numbers(graph, node, "indices")).reshape(-1)
    attributes = node.attributes
    low = 0 if attributes.get("raises") and not attributes.get("wraps") else -shape[axis]
    if not in_range(row, low, shape[axis] - 1):
        raise ValueError(f"an index is outside an axis of {shape[axis]}")
    return row


def gathered(graph: Graph, node: Node) -> list[View]:
    """Returns the view of a gather. Raises ValueError as _indices does."""
    shape, axis, given = graph.shape(node.operand()), _axis(graph, node), node.operand(1)
    if _batch(graph, node):
        raise ValueError("each batch has indices of its own")
    row = _indices(graph, node)
    view = taken(shape, {axis: np.where(row < 0, row + shape[axis], row)})
    return [replace(view, shape=(*shape[:axis], *graph.shape(given), *shape[axis + 1 :]))]


def tiled(graph: Graph, node: Node) -> list[View]:
    shape, repeats = graph.shape(node.operand()), _numbers(graph, node, "repeats").reshape(-1)
    if len(repeats) != len(shape):
        raise ValueError(f"{len(repeats)} repeats do not fit a tensor of rank {len(shape)}")
    if not in_range(repeats, 0):
        raise ValueError("repeats must not be negative")
    return [repeated(shape, [integer(count) for count in repeats])]


def expanded(graph: Graph, node: Node) -> list[View]:
    shape = graph.shape(node.operand())
    wanted = tuple(integer(extent) for extent in _numbers(graph, node, "the shape").reshape(-1))
    target = broadcast(shape, wanted)
    if node.attributes.get("one_way") and target != wanted:
        raise ValueError(f"a tensor of {list(shape)} does not broadcast to {list(wanted)}")
    lead = len(target) - len(shape)
    pairs = zip(target, (1,) * lead + shape, strict=True)
    return [repeated(shape, [1 if wide == extent else wide for wide, extent in pairs])]


def reversed_axes(graph: Graph, node: Node) -> list[View]:
    shape = graph.shape(node.operand())
    given = _numbers(graph, node, "the axes").reshape(-1)
    axes = {axis_of(int(axis), len(shape)) for axis in given}
    last = [extent - 1 if k in axes else 0 for k, extent in enumerate(shape)]
    return [region(shape, last, shape, [-1 if k in axes else 1 for k in range(len(shape))])]


def gather_shapes(graph: Graph, node: Node) -> list[Shape]:
    batch = _batch(graph, node)
    if graph.constant(node.inputs[1]) is not None and not batch:
        _indices(graph, node)
    shape, axis = graph.shape(node.operand()), _axis(graph, node)
    indices = graph.shape(node.operand(1))
    if not 0 <= batch <= min(axis, len(indices)) or indices[:batch] != shape[:batch]:
        raise ValueError(f"{list(shape)} and {list(indices)} have no {batch} axes in common")
    if batch and not pick.inside(graph, node, (shape[axis],)):
        raise ValueError(f"an index is outside an axis of {shape[axis]}")
    return [(*shape[:axis], *indices[batch:], *shape[axis + 1 :])]


def blocks(graph: Graph, node: Node) -> list[View]:
    """Returns the view of depth to space or space to depth: split axes, transposed."""
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
    return [_batches(graph, node)[2]]


def _batches(graph: Graph, node: Node) -> tuple[Shape, tuple[tuple[int, int], ...], Shape]:
    """Returns blocks and margins (before, after) of the axes after the batch, and the result's
    shape. Raises ValueError with the reason if they cannot be read."""
    shape, given = graph.shape(node.operand()), [graph.constant(t) for t in node.inputs[1:3]]
    if given[0] is None or given[1] is None:
        raise NotConstant("blocks and margins must be constant")
    blocks = tuple(integer(n) for n in given[0].reshape(-1))
    if given[1].size != 2 * len(blocks) or not 0 < len(blocks) < len(shape):
        raise ValueError(f"{len(blocks)} blocks do not fit an input of shape {list(shape)}")
    margins = tuple((integer(a), integer(b)) for a, b in given[1].reshape(-1, 2))
    if len(blocks) + len(shape) > MAX_WALKED:
        raise ValueError(f"blocks on {len(blocks)} of {len(shape)} axes are too many")
    if min(blocks) < 1 or not in_range(given[1], 0):
        raise ValueError("blocks must be positive, and margins not negative")
    inner, rest = shape[1 : 1 + len(blocks)], shape[1 + len(blocks) :]
    sizes = list(zip(inner, blocks, margins, strict=True))
    if node.op == "space_to_batch":
        batch, rests = shape[0] * prod(blocks), [(n + sum(m)) % block for n, block, m in sizes]
        made = [(n + sum(m)) // block for n, block, m in sizes]
    else:
        batch, rests = shape[0] // prod(blocks), [shape[0] % prod(blocks)]
        made = [n * block - sum(m) for n, block, m in sizes]
    if any(rests) or not in_range(integers(made), 0):
        raise ValueError(f"blocks of {list(blocks)} do not fit an input of shape {list(shape)}")
    return blocks, margins, (batch, *made, *rest)


NEEDS = "A pattern that is known when the model is prepared."


def refuse_gather(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant indices inside the tensor, or any computed indices."""
    found = unplanned(node.op, gather_shapes, graph, node)
    computed = graph.constant(node.inputs[1]) is None or _batch(graph, node) != 0
    return found or (pick.refuse_indices(graph, node) if computed else None)


def decompose_gather(steps: Decomposition, node: Node) -> bool:
    """Makes a gather with computed indices a pick of one row of them, reshaped."""
    if batch := _batch(steps.graph, node):
        _gather_batches(steps, node, batch)
        return True
    if steps.data(node.inputs[1]) is not None:
        return False
    axis, row = _axis(steps.graph, node), pick.rows(steps, node.operand(1), 1)
    picked = steps.add("pick", node.operand(), row, axis=axis, **pick.outside(steps, node))
    steps.last("reshape", picked, None, shape=gather_shapes(steps.graph, node)[0])
    return True


def _gather_batches(steps: Decomposition, node: Node, batch: int) -> None:
    """Replaces a gather that has batch axes by a `pick`, which takes the positions along the batch
    and all axes before the gather's from constants, and the position along that axis from the
    indices."""
    shape, axis = steps.shape(node.operand()), _axis(steps.graph, node)
    indices = steps.shape(node.operand(1))
    batches, between, each = prod(shape[:batch]), prod(shape[batch:axis]), prod(indices[batch:])
    index = pick.rows(steps, node.operand(1), 1)
    if between > 1:
        apart = steps.reshape(index, (batches, 1, each))
        spread = steps.add("expand", apart, steps.indices((batches, between, each)))
        index = steps.reshape(spread, (batches * between * each, 1))
    x = steps.reshape(node.operand(), (batches * between, shape[axis], *shape[axis + 1 :]))
    pick.pick_by(steps, node, x, [pick.repeated(steps, batches * between, each), index])


def refuse_batches(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant blocks, paddings and crops."""
    return unplanned(node.op, batch_shapes, graph, node)


def decompose_batches(steps: Decomposition, node: Node) -> bool:
    """Pads or crops, and transposes split axes."""
    x, graph = node.operand(), steps.graph
    blocks, margins, shape = _batches(graph, node)
    count, rank = len(blocks), len(shape)
    padded = not all(always_equal(n, 0) for pair in margins for n in pair)
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


ATTRIBUTES = {
    **dict.fromkeys(("depth_to_space", "space_to_depth"), "block! mode=DCR|CRD"),
    "expand": "one_way",
    "gather": "axis! batch_dims raises wraps",
}  # fmt: skip
OPS = (
    moving("tile", tiled, NEEDS, fuses=True, operands="xx"),
    moving("expand", expanded, NEEDS, fuses=True, operands="xx"),
    moving("reverse", reversed_axes, NEEDS, fuses=True, operands="xx"),
    *(moving(name, blocks, NEEDS, fuses=True) for name in ("depth_to_space", "space_to_depth")),
    replace(
        moving("gather", gathered, "", fuses=True, decompose=decompose_gather, operands="xx"),
        refuse=refuse_gather,
        shapes=gather_shapes,
    ),
    *(
        Op(
            name,
            refuse_batches,
            batch_shapes,
            lower_decomposed,
            "exact",
            types=ANY,
            kind="movement",
            decompose=decompose_batches,
            keeps="first",
            errors=MOVED,
            operands="xxx",
        )
        for name in ("space_to_batch", "batch_to_space")
    ),
)
