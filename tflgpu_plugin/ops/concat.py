"""Concatenation on any axis: one launch per input, which writes its part of the output in place."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tflgpu_plugin.graph import Graph, Node, Shape
from tflgpu_plugin.lowering import Access, Lowering
from tflgpu_plugin.ops import Op
from tflgpu_plugin.ops.movement import empty_refusal, grid, vector_strides
from tflgpu_plugin.target import Target

ROW_MAJOR = 5  # ranks from here on, and below 2, are stored row-major


@dataclass(frozen=True)
class Part:
    """Where one input goes: blocks of `run` units, `stride` units apart in the output, the first at `offset`."""

    tensor: int
    offset: int
    extent: int


def axis_of(graph: Graph, node: Node) -> int:
    """The concatenation axis, counted from the front. Raises ValueError when the rank does not have it."""
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
        if shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :] or len(shape) != len(first):
            raise ValueError(f"shapes {list(first)} and {list(shape)} differ outside axis {axis}")
    return [(*first[:axis], sum(shape[axis] for shape in given), *first[axis + 1 :])]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Inputs of one rank and one shape outside the axis, no fused activation (the hosts' kernels have none either)."""
    if node.attributes.get("activation", "none") != "none" or node.posts:
        return "Concatenation with a fused activation is not supported; apply the activation to its result."
    try:
        (shape,) = shapes(graph, node)
    except ValueError as error:
        return f"Concatenation cannot be planned: {error}."
    return empty_refusal(graph, node, shape)


def lower(low: Lowering, node: Node) -> None:
    axis, output = axis_of(low.graph, node), node.outputs[0]
    parts: list[Part] = []
    offset = 0
    for tensor in _given(node):
        extent = low.graph.shape(tensor)[axis]
        if prod(low.graph.shape(tensor)):
            parts.append(Part(tensor, offset, extent))
        offset += extent
    shape = low.graph.shape(output)
    if len(parts) == 1:
        low.alias(output, parts[0].tensor)
    elif 2 <= len(shape) < ROW_MAJOR:
        _images(low, node, parts, axis)
    else:
        _rows(low, node, parts, axis)


def _images(low: Lowering, node: Node, parts: list[Part], axis: int) -> None:
    """PHWC4 tensors: whole vec4 unless channels are joined off the quad boundaries."""
    shape = low.graph.shape(node.outputs[0])
    stored = low.geometry(node.outputs[0])
    channel = axis == len(shape) - 1
    if channel and any(part.offset % 4 for part in parts):
        last = parts[-1]
        for part in parts:
            tail = stored.quads * 4 - last.offset - last.extent if part is last else 0
            inside = low.geometry(part.tensor)
            row = inside.quads * inside.spatial * 4, inside.spatial * 4
            target = stored.quads * stored.spatial * 4, stored.spatial * 4
            _floats(low, node, part, (inside.batch, inside.channels, stored.spatial), row, target, (tail, 0))
        return
    strides = vector_strides(shape)
    for part in parts:
        inside = low.geometry(part.tensor)
        base = part.offset // 4 * strides[axis] if channel else part.offset * strides[axis]
        # Axes between batch and channels are one run: of the output's spatial extent, offset included.
        blocks = _spatial_blocks(low.graph.shape(part.tensor), shape, axis)
        low.dispatch(
            "concat",
            node,
            {"x": low.stored(part.tensor)},
            {"y": node.outputs[0]},
            grid(inside.vectors),
            {
                "vectors": inside.vectors,
                "run": blocks[0],
                "rows": blocks[1],
                "quads": inside.quads,
                "row_stride": blocks[2],
                "quad_stride": stored.spatial,
                "batch_stride": stored.quads * stored.spatial,
                "base": base,
                "first_quad": part.offset // 4 if channel else 0,
                "quad_step": 1,
            },
            {"lanes": False},
        )


