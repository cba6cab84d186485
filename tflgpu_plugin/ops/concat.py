"""Concatenation on any axis: one launch per input, which writes its part of the output in place.
`stack(inputs): axis` is one along a new axis."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np

from tflgpu_plugin.ir.graph import Graph, Misfit, Node, Shape, planar
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.lowering import Access, Lowering
from tflgpu_plugin.ops.movement import Reading, read, workgroups
from tflgpu_plugin.ops.table import MOVED, Op
from tflgpu_plugin.ops.views import part


@dataclass(frozen=True)
class Part:
    """An input, the place on the axis where it begins in the output, and its extent there."""

    tensor: int
    offset: int
    extent: int


def axis_of(graph: Graph, node: Node) -> int:
    """The concatenation axis, counted from the front."""
    rank, axis = len(graph.shape(node.outputs[0])), int(node.attributes["axis"])
    return axis + rank if axis < 0 else axis


def _given(node: Node) -> list[int]:
    return [tensor for tensor in node.inputs if tensor is not None]


def shapes(graph: Graph, node: Node) -> list[Shape]:
    given = [graph.shape(tensor) for tensor in _given(node)]
    axis = int(node.attributes["axis"])
    first = given[0]
    axis += len(first) if axis < 0 else 0
    if not 0 <= axis < len(first):
        raise ValueError(f"axis {axis} is outside a tensor of rank {len(first)}")
    for shape in given:
        if shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :] or len(
            shape
        ) != len(first):
            kind = ValueError if any(0 in other for other in given) else Misfit  # hosts skip these
            raise kind(f"shapes {list(first)} and {list(shape)} differ outside axis {axis}")
    return [(*first[:axis], sum(shape[axis] for shape in given), *first[axis + 1 :])]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Inputs of one shape outside the axis; no fused activation (the hosts have none)."""
    if node.attributes.get("activation", "none") != "none" or node.epilogue:
        return "Concatenation has a fused activation; apply the activation to its result instead."
    try:
        shapes(graph, node)
    except ValueError as error:
        return f"Concatenation cannot be planned: {error}."
    return None


def lower(low: Lowering, node: Node) -> None:
    """Whole vec4 where every part begins on one, else single floats."""
    axis, output = axis_of(low.graph, node), node.outputs[0]
    shape, stored = low.graph.shape(output), low.geometry(output)
    extents = [low.graph.shape(tensor)[axis] for tensor in _given(node)]
    starts = accumulate(extents, initial=0)
    parts = [
        Part(tensor, start, extent)
        for tensor, start, extent in zip(_given(node), starts, extents, strict=False)
        if prod(low.graph.shape(tensor))
    ]
    if len(parts) == 1:
        low.alias(output, parts[0].tensor)
        return
    places = [
        read(part(shape, axis, p.offset, p.extent), stored, low.geometry(p.tensor)) for p in parts
    ]
    if all(place.form == "vectors" for place in places):
        for p, place in zip(parts, places, strict=True):
            _vectors(low, node, p.tensor, place)
        return
    planes = planar(shape)
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    run, quad = shape[axis] * inner, 4 * stored.spatial
    for p in parts:
        inside, count = low.geometry(p.tensor), p.extent * inner
        runs = Runs(outer, count, 1, count, run)
        tail, tail_from = -(outer * run) % 4, outer - 1
        if planes:
            sides = (inside.quads * quad, stored.quads * quad)
            runs = Runs(stored.batch, p.extent, stored.spatial, *sides)
            tail, tail_from = 4 * stored.quads - stored.channels, 0
        start = p.offset * (1 if planes else inner)
        _floats(low, node, p.tensor, start, runs, tail if p is parts[-1] else 0, tail_from)


def _vectors(low: Lowering, node: Node, tensor: int, place: Reading) -> None:
    """Each vec4 of the part goes to where a reader of this part of the output would find it."""
    stored = low.geometry(node.outputs[0])
    vectors = low.geometry(tensor).vectors
    parameters: dict[str, object] = {"vectors": vectors, "base": place.base}
    parameters |= {"spatial": stored.spatial, "quads": stored.quads}
    for k, (axis,) in enumerate(place.rows):
        parameters |= {f"d{k}": axis.extent, f"k{k}": axis.stride}
    low.dispatch(
        "concat",
        node,
        {"x": low.stored(tensor)},
        {"y": node.outputs[0]},
        workgroups(vectors),
        parameters,
        {"vectors": True, "rank": len(place.rows)},
        fused=False,
        copies=place.block,
    )


@dataclass(frozen=True)
class Runs:
    """A part as `outer` rows of `run` channels at `spatial` places; `row` and `target_row` are the
    floats between rows in the part and in the output."""

    outer: int
    run: int
    spatial: int
    row: int
    target_row: int


def _floats(
    low: Lowering, node: Node, tensor: int, start: int, runs: Runs, tail: int, tail_from: int
) -> None:
    """One float after another; also zeroes `tail` pad lanes after rows from `tail_from` on."""
    channels = runs.run + tail
    elements = runs.outer * channels * runs.spatial
    low.dispatch(
        "concat",
        node,
        {"x": Access(low.stored(tensor), 1)},
        {"y": Access(node.outputs[0], 1)},
        workgroups(elements),
        {
            "elements": elements,
            "channels": channels,
            "spatial": runs.spatial,
            "run": runs.run,
            "row": runs.row,
            "target_row": runs.target_row,
            "offset": start,
            "tail_from": tail_from,
        },
        {"vectors": False},
        fused=False,
    )


def _alone(graph: Graph, node: Node) -> tuple[Shape, int]:
    """The shape of each input, with the new axis of extent 1, and that axis."""
    first, *others = (graph.shape(tensor) for tensor in _given(node))
    if any(shape != first for shape in others):
        raise ValueError(f"shapes {list(first)} and {[list(shape) for shape in others]} differ")
    rank, axis = len(first) + 1, int(node.attributes["axis"])
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    axis %= rank
    return (*first[:axis], 1, *first[axis:]), axis


def stack_shapes(graph: Graph, node: Node) -> list[Shape]:
    shape, axis = _alone(graph, node)
    return [(*shape[:axis], len(node.inputs), *shape[axis + 1 :])]


def refuse_stack(graph: Graph, node: Node, target: Target) -> str | None:
    """Inputs of one shape."""
    try:
        stack_shapes(graph, node)
    except ValueError as error:
        return f"Packing cannot be planned: {error}."
    return None


def decompose_stack(steps: Decomposition, node: Node) -> bool:
    """Each input with the new axis, then joined."""
    shape, axis = _alone(steps.graph, node)
    parts = []
    for tensor in _given(node):
        data = steps.data(tensor)
        fixed = data is not None and data.dtype == np.float32
        parts.append(steps.number(data.reshape(shape)) if fixed else steps.reshape(tensor, shape))  # type: ignore[union-attr]
    steps.last("concat", *parts, axis=axis, activation="none")
    return True


OPS = (
    Op("concat", refuse, shapes, lower, "exact", types=("f32", "bool"), kind="movement",
       keeps="any", errors=MOVED, follows="axis"),
    Op("stack", refuse_stack, stack_shapes, lower_decomposed, "exact", kind="movement", keeps="any",
       decompose=decompose_stack),
)  # fmt: skip
