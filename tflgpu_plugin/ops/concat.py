"""Concatenation on any axis: one launch per input, which writes its part of the output in place.
`stack(inputs): axis` is one along a new axis."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tflgpu_plugin.ir.graph import Graph, Misfit, Node, Shape, planar
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.decompose import Steps, lower_expanded
from tflgpu_plugin.ops.lowering import Access, Lowering
from tflgpu_plugin.ops.movement import (
    MAX_AXES,
    grid,
    storage_order,
    vector_strides,
)
from tflgpu_plugin.ops.table import MOVED, Op


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
    if node.attributes.get("activation", "none") != "none" or node.posts:
        return "Concatenation has a fused activation; apply the activation to its result instead."
    try:
        shapes(graph, node)
    except ValueError as error:
        return f"Concatenation cannot be planned: {error}."
    return None


def lower(low: Lowering, node: Node) -> None:
    axis, output = axis_of(low.graph, node), node.outputs[0]
    parts: list[Part] = []
    offset = 0
    for tensor in _given(node):
        extent = low.graph.shape(tensor)[axis]
        if prod(low.graph.shape(tensor)):
            parts.append(Part(tensor, offset, extent))
        offset += extent
    if len(parts) == 1:
        low.alias(output, parts[0].tensor)
    elif planar(low.graph.shape(output)):
        _images(low, node, parts, axis)
    else:
        _rows(low, node, parts, axis)


def _images(low: Lowering, node: Node, parts: list[Part], axis: int) -> None:
    """PHWC4 tensors: whole vec4 unless channels are joined off the quad boundaries."""
    shape, stored = low.graph.shape(node.outputs[0]), low.geometry(node.outputs[0])
    channel = axis == len(shape) - 1
    if channel and any(part.offset % 4 for part in parts):
        quad = 4 * stored.spatial
        for part in parts:
            last = part is parts[-1]
            inside = low.geometry(part.tensor)
            runs = Runs(
                stored.batch,
                inside.channels,
                stored.spatial,
                inside.quads * quad,
                stored.quads * quad,
            )
            _floats(low, node, part, runs, stored.quads * 4 - stored.channels if last else 0, 0)
        return
    strides = vector_strides(shape)
    order = storage_order(len(shape))
    for part in parts:
        given = low.graph.shape(part.tensor)
        extents = [
            low.geometry(part.tensor).quads if k == len(shape) - 1 else given[k] for k in order
        ]
        base = part.offset // (4 if channel else 1) * strides[axis]
        _vectors(low, node, part, extents, [strides[k] for k in order], base)


def _rows(low: Lowering, node: Node, parts: list[Part], axis: int) -> None:
    """Row-major tensors: runs of neighbouring elements, as vec4 where every run begins on one."""
    shape = low.graph.shape(node.outputs[0])
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    run = shape[axis] * inner
    parts = [Part(part.tensor, part.offset * inner, part.extent * inner) for part in parts]
    aligned = not any(part.offset % 4 for part in parts)
    if aligned and (outer == 1 or run % 4 == 0):
        for part in parts:
            _vectors(
                low, node, part, [outer, -(-part.extent // 4)], [run // 4, 1], part.offset // 4
            )
        return
    for part in parts:
        runs = Runs(outer, part.extent, 1, part.extent, run)
        _floats(low, node, part, runs, -(outer * run) % 4 if part is parts[-1] else 0, outer - 1)


def _vectors(
    low: Lowering, node: Node, part: Part, extents: list[int], strides: list[int], base: int
) -> None:
    """Vec4 i of the part has coordinates over `extents` and goes to base + these * strides."""
    stored = low.geometry(node.outputs[0])
    fill = MAX_AXES - len(extents)
    parameters: dict[str, object] = {"vectors": prod(extents), "base": base}
    parameters |= {"spatial": stored.spatial, "quads": stored.quads}
    for k, (extent, stride) in enumerate(
        zip([1] * fill + extents, [0] * fill + strides, strict=True)
    ):
        parameters |= {f"d{k}": extent, f"k{k}": stride}
    low.dispatch(
        "concat",
        node,
        {"x": low.stored(part.tensor)},
        {"y": node.outputs[0]},
        grid(prod(extents)),
        parameters,
        {"vectors": True},
        fused=False,
        copies=base if _neighbours(extents, strides) else None,
    )


def _neighbours(extents: list[int], strides: list[int]) -> bool:
    """Whether the part is one block of the output."""
    steps = [prod(extents[k + 1 :]) for k in range(len(extents))]
    return all(e == 1 or a == b for e, a, b in zip(extents, strides, steps, strict=True))


@dataclass(frozen=True)
class Runs:
    """A part as `outer` rows of `run` channels at `spatial` places; `row` and `target_row` are the
    floats between rows in the part and in the output."""

    outer: int
    run: int
    spatial: int
    row: int
    target_row: int


def _floats(low: Lowering, node: Node, part: Part, runs: Runs, tail: int, tail_from: int) -> None:
    """One float after another; also zeroes `tail` pad lanes after rows from `tail_from` on."""
    channels = runs.run + tail
    elements = runs.outer * channels * runs.spatial
    low.dispatch(
        "concat",
        node,
        {"x": Access(low.stored(part.tensor), 1)},
        {"y": Access(node.outputs[0], 1)},
        grid(elements),
        {
            "elements": elements,
            "channels": channels,
            "spatial": runs.spatial,
            "run": runs.run,
            "row": runs.row,
            "target_row": runs.target_row,
            "offset": part.offset,
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


def expand_stack(steps: Steps, node: Node) -> bool:
    """Each input with the new axis, then joined."""
    shape, axis = _alone(Graph(steps.editor.tensors, (), (), ()), node)
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
    Op("stack", refuse_stack, stack_shapes, lower_expanded, "exact", kind="movement", keeps="any",
       expand=expand_stack),
)  # fmt: skip
