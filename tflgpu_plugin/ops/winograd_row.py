"""Convolution with windows three wide, by Winograd's F(4, 3) along rows: 6 products for 4 pixels
and 3 taps, not 12, in one launch. The points are those of `winograd`. An infinite or NaN input
spoils the 4 pixels of a row that it is transformed for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Array, Node, Shape, Target
from tflgpu_plugin.ops.blocks import Blocks, convolve, pieces
from tflgpu_plugin.ops.lowering import VECTOR_BYTES, Constant, Lowering
from tflgpu_plugin.ops.tiles import WAITING_THREADS, Tile, choose_tile
from tflgpu_plugin.ops.window import Span, edges, parameters
from tflgpu_plugin.ops.winograd import MEMORY_BYTE, SIDE, SIX, G, multiplied

DEEP = 16  # input channels; with fewer terms the rounding of the transforms would show
SLICES = 2  # of a thread: with 4 it would hold twice as many sums, and few waves fit a SIMD
LANES = 32
TRANSFORM = 12 * 4  # multiply-adds, of six vec4


def pays(low: Lowering, node: Node, x: Shape, filters: Shape, rows: Span, columns: Span) -> bool:
    """Whether this convolution can run in this form, and is faster so: on GPUs that read weights
    from global memory by addresses that all lanes share, since a thread multiplies each only once
    here; with threads for all of them, so that none goes through parts of the channels; and where
    the multiply-adds saved outweigh reading twice the weights.
    """
    target, blocks = low.target, _blocks(filters)
    size = blocks.count * blocks.block_vectors * VECTOR_BYTES
    if not _suits(low, node, x, filters, columns) or size > target.storage_bytes:
        return False
    if (forced := target.tuning.get("winograd")) or target.software:
        return forced == "row"
    tile = choose_tile(target, -(-filters[0] // 4), rows.positions * columns.positions)
    threads = x[0] * rows.positions * _across(columns) * blocks.count
    busy = tile.weights == "global" and threads >= WAITING_THREADS
    return busy and gained(target, x, filters, rows.positions, columns.positions) > 0


def gained(target: Target, x: Shape, filters: Shape, high: int, wide: int) -> int:
    """Multiply-adds that a GPU saves, those of idle lanes counted, less what it could make while it
    reads twice the weights. For results of so many rows and columns."""
    blocks, depth, lanes = _blocks(filters), -(-x[3] // 4), target.workgroup(LANES)
    each = blocks.slices * SIX * 16 + TRANSFORM  # of a thread, row of the window and input slice
    made = -(-high * -(-wide // SIDE) // lanes) * lanes * blocks.count * depth * each
    direct = 3 * multiplied(target, high * wide, (depth, -(-filters[0] // 4)))
    weights = blocks.count * blocks.block_vectors * VECTOR_BYTES
    return filters[1] * x[0] * (direct - made) - weights // 2 * MEMORY_BYTE


def _suits(low: Lowering, node: Node, x: Shape, filters: Shape, columns: Span) -> bool:
    exact = any(each.op in kernels.ROWS for each in node.epilogue)  # whole sums must stay so
    turned = node.attributes.get("filters_last") or low.graph.constant(node.inputs[1]) is None
    three = columns.kernel == 3 and columns.stride == columns.dilation == 1
    return three and x[3] == filters[3] and x[3] >= DEEP and not exact and not turned


def lower(low: Lowering, node: Node, x: Shape, filters: Shape, rows: Span, columns: Span) -> None:
    """One launch, in which a thread makes `SIDE` pixels of a row."""
    blocks, across = _blocks(filters), _across(columns)
    convolve(
        low,
        node,
        blocks,
        Tile(SIDE, blocks.slices, 4, low.target.workgroup(LANES), "global"),
        kernel="winograd_row",
        taps="winograd",
        pixels=rows.positions * columns.positions,
        planes=x[0],
        x_slice=x[1] * x[2],
        parameters={
            "tap_vectors": blocks.tap_vectors,
            "items": across * rows.positions,
            "row_items": across,
            **parameters((rows, columns)),
        },
        packed=_weights(low, node, blocks, filters),
        threads=across * rows.positions,
        variant={"edges": edges(columns, SIDE, (across - 1) * SIDE), "run": None},
    )


def _across(columns: Span) -> int:
    """Patches of a row."""
    return -(-columns.positions // SIDE)


def _blocks(filters: Shape) -> Blocks:
    slices = min(SLICES, -(-filters[0] // 4))
    return Blocks(filters[0], filters[1] * SIX, filters[3], 1, slices)


def _weights(low: Lowering, node: Node, blocks: Blocks, filters: Shape) -> Constant:
    """[block][row of the window][point][channel][slice] of vec4 over outputs."""
    return low.constant(
        node.operand(1),
        "winograd_row",
        blocks,
        vectors=blocks.count * blocks.block_vectors,
        pack=lambda data: transform(data.reshape(filters), blocks),
    )


def transform(data: Array, blocks: Blocks) -> Iterator[Array]:
    """w G^T of weights [O, H, 3, I], as [block, H x 6, channel, slice, 4] float32, some blocks at a
    time."""
    rows = blocks.slices * 4
    for block in range(blocks.count):
        part = data[block * rows : (block + 1) * rows].astype(np.float64)
        points = np.einsum("pk,ohki->ohpi", G, part).astype(np.float32)
        whole = np.zeros((rows, *points.shape[1:]), np.float32)
        whole[: len(points)] = points
        yield from pieces(whole, replace(blocks, outputs=rows), 0, 1)
