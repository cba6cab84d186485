"""Convolution with windows three wide by Winograd's F(4, 3) along rows: 6 products for 4 pixels and
3 taps, not 12, in one launch, with the points of `winograd`. An infinite or NaN input spoils the 4
pixels of its patch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Array, Shape, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops.blocks import Blocks, pieces
from tflgpu_plugin.ops.convolution import Convolution
from tflgpu_plugin.ops.lowering import Constant
from tflgpu_plugin.ops.packing import VECTOR_BYTES
from tflgpu_plugin.ops.product import Addressing, Product, multiply
from tflgpu_plugin.ops.tiles import WAITING_THREADS, Tile, choose_tile
from tflgpu_plugin.ops.window import Span, edges, parameters
from tflgpu_plugin.ops.winograd import MEMORY_BYTE, SIDE, SIX, G, multiplied

DEEP = 16  # input channels; with fewer terms the rounding of the transforms would show
SLICES = 2  # slices per thread; 4 would double the sums, and few waves would fit a SIMD
LANES = 32
TRANSFORM = 12 * 4  # multiply-adds of transforming six vec4


def suits(c: Convolution) -> bool:
    """Whether this convolution can be computed in this form."""
    if not c.flat or kernels.sums_integers(c.node.epilogue) or not c.constant:
        return False
    blocks, columns = _blocks(c.filters), c.columns
    size = blocks.count * blocks.block_vectors * VECTOR_BYTES
    three = columns.kernel == 3 and columns.stride == columns.dilation == 1
    deep = c.groups == 1 and c.x[3] >= DEEP
    return three and deep and size <= c.low.target.storage_bytes


@heuristic
def pays(c: Convolution) -> bool:
    """Whether it is expected to be faster: on GPUs whose lanes read weights from one shared address
    in global memory, if there are enough threads without split-K, and if the multiply-adds saved
    outweigh reading twice the weights."""
    target, (rows, columns) = c.low.target, c.axes
    if target.software:
        return False
    tile = choose_tile(target, -(-c.filters[0] // 4), c.pixels)
    threads = c.x[0] * rows.positions * _across(columns) * _blocks(c.filters).count
    busy = tile.weights == "global" and threads >= WAITING_THREADS
    return busy and gained(target, c.x, c.filters, rows.positions, columns.positions) > 0


def gained(target: Target, x: Shape, filters: Shape, high: int, wide: int) -> int:
    """Returns how many multiply-adds a GPU saves, including those of idle lanes, less those it
    could do while it reads twice the weights, for results of this many rows and columns."""
    blocks, depth, lanes = _blocks(filters), -(-x[3] // 4), target.workgroup(LANES)
    each = blocks.slices * SIX * 16 + TRANSFORM  # of a thread, row of the window and input slice
    made = -(-high * -(-wide // SIDE) // lanes) * lanes * blocks.count * depth * each
    direct = 3 * multiplied(target, high * wide, (depth, -(-filters[0] // 4)))
    weights = blocks.count * blocks.block_vectors * VECTOR_BYTES
    return filters[1] * x[0] * (direct - made) - weights // 2 * MEMORY_BYTE


def lower(c: Convolution) -> None:
    """Records one launch, in which a thread computes `SIDE` pixels of a row."""
    blocks, across, (rows, columns) = _blocks(c.filters), _across(c.columns), c.axes
    given: dict[str, object] = {
        "tap_vectors": blocks.tap_vectors,
        "items": across * rows.positions,
        "row_items": across,
        **parameters(c.axes),
    }
    threads = across * rows.positions
    address = Addressing("winograd", c.pixels, c.x[0], c.x_pixels, given, threads=threads)
    product = Product(
        blocks,
        Tile(SIDE, blocks.slices, 4, c.low.target.workgroup(LANES), "global"),
        address,
        kernel="winograd_row",
        packed=_weights(c, blocks),
        variant={"edges": edges(columns, SIDE, (across - 1) * SIDE), "run": None},
    )
    multiply(c.low, c.node, product)


def _across(columns: Span) -> int:
    """Returns the number of patches in a row."""
    return -(-columns.positions // SIDE)


def _blocks(filters: Shape) -> Blocks:
    slices = min(SLICES, -(-filters[0] // 4))
    return Blocks(filters[0], filters[1] * SIX, filters[3], 1, slices)


def _weights(c: Convolution, blocks: Blocks) -> Constant:
    """Returns weights as [block][row of the window][point][channel][slice] of vec4 over outputs."""
    return c.low.constant(
        c.node.operand(1),
        "winograd_row",
        blocks,
        vectors=blocks.count * blocks.block_vectors,
        pack=lambda data: transform(data.reshape(c.filters), blocks),
    )


def transform(data: Array, blocks: Blocks) -> Iterator[Array]:
    """Transforms weights [O, H, 3, I]: yields w G^T as [H x 6, channel, slice, 4] float32, one
    block at a time."""
    rows = blocks.slices * 4
    for block in range(blocks.count):
        part = data[block * rows : (block + 1) * rows].astype(np.float64)
        points = np.einsum("pk,ohki->ohpi", G, part).astype(np.float32)
        whole = np.zeros((rows, *points.shape[1:]), np.float32)
        whole[: len(points)] = points
        yield from pieces(whole, replace(blocks, outputs=rows), 0, 1)
