"""Convolution of an input of few channels, the first of most networks, on GPUs: a thread makes
neighbours in a row, whose windows share what they load, and loads a row of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflgpu_plugin.ir import Node, Shape
from tflgpu_plugin.ops import window
from tflgpu_plugin.ops.blocks import Blocks, convolve
from tflgpu_plugin.ops.lowering import Lowering, Source
from tflgpu_plugin.ops.tiles import Tile, choose_tile, row_threads
from tflgpu_plugin.ops.window import Span

REACH = 16  # elements that are loaded at once; with more of them a thread has too few registers
LEAST = 4  # taps of a part of a longer row
PRODUCTS = 64  # of vec4 that follow: more take long to compile


def suits(low: Lowering, filters: Shape, rows: Span, columns: Span) -> bool:
    """Whether windows overlap along a row or reach over several elements, and lanes read weights
    from global memory, by addresses that all of them share."""
    whole = columns.kernel <= REACH or _taps(columns) >= LEAST
    if columns.dilation > 1 or columns.kernel == 1 or not whole:
        return False
    if forced := low.target.tuning.get("stem"):
        return forced == "always"
    tile = _chosen(low, filters, rows, columns)
    return tile.weights == "global" and not low.target.software


def lower(
    low: Lowering,
    node: Node,
    x: Shape,
    filters: Shape,
    axes: Sequence[Span],
    source: Source,
    distances: tuple[int, ...],
) -> None:
    """One launch. `source` holds single floats; `distances` are those of its batches, rows, pixels
    and channels."""
    rows, columns = axes
    tile = _tile(low, filters, rows, columns)
    blocks = Blocks(filters[0], filters[1] * filters[2], filters[3], 1, tile.slices)
    pixels = rows.positions * columns.positions
    threads = row_threads(pixels, tile.pixels, columns.positions)
    batch, row, pixel, channel = distances
    taps = _taps(columns)
    convolve(
        low,
        node,
        blocks,
        tile,
        kernel="stem",
        taps="stem",
        pixels=pixels,
        planes=x[0],
        x_slice=channel,
        parameters={
            "tap_vectors": blocks.tap_vectors,
            "items": threads,
            "row_items": threads // rows.positions,
            "x_batch": batch,
            "x_row": row,
            "x_pixel": pixel,
            **window.parameters(axes),
        },
        source=source,
        threads=threads,
        variant={
            "kernel": taps,
            "parts": taps < columns.kernel,
            "stride": columns.stride,
            "edges": _edges(columns, taps, tile.pixels),
            "run": None,
        },
    )


def _tile(low: Lowering, filters: Shape, rows: Span, columns: Span) -> Tile:
    """That of a convolution of so many outputs and positions, with as many pixels as it can load
    and multiply at once."""
    tile = _chosen(low, filters, rows, columns)
    reached = 1 + (REACH - _taps(columns)) // columns.stride
    multiplied = max(PRODUCTS // (_taps(columns) * tile.slices), 1)
    pixels = min(tile.pixels, columns.positions, reached, multiplied)
    return replace(tile, pixels=pixels, step=1, ahead=1, weights="global")


def _taps(columns: Span) -> int:
    """Of a row that are loaded at once: all, or the largest part of as many as the others."""
    return max(t for t in range(1, min(columns.kernel, REACH) + 1) if columns.kernel % t == 0)


def _edges(columns: Span, taps: int, pixels: int) -> tuple[bool, ...]:
    """Which of the elements that are loaded at once may lie outside, in any part of the row."""
    found = window.edges(columns, pixels, columns.positions - pixels)
    reach = taps + (pixels - 1) * columns.stride
    parts = range(0, columns.kernel, taps)
    return tuple(any(found[first + t] for first in parts) for t in range(reach))


def _chosen(low: Lowering, filters: Shape, rows: Span, columns: Span) -> Tile:
    return choose_tile(low.target, -(-filters[0] // 4), rows.positions * columns.positions)
