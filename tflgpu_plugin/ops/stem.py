"""Convolution of an input of few channels, the first of most networks, on GPUs: a thread computes
neighbours in a row, whose windows share loads, and loads a row of the windows at once."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin.ops import window
from tflgpu_plugin.ops.convolution import Convolution
from tflgpu_plugin.ops.product import Addressing, Product, multiply
from tflgpu_plugin.ops.tiles import Tile, choose_tile, row_threads
from tflgpu_plugin.ops.window import Span

REACH = 16  # elements that are loaded at once; more exceed a thread's registers
MIN_TAPS = 4  # least taps in a part of a row
PRODUCTS = 64  # products of vec4 without a loop; more take long to compile


def suits(c: Convolution) -> bool:
    """Whether the input has few channels and windows are more than one element wide, and a row of a
    window, or a large part of it, can be loaded at once."""
    columns = c.columns
    short = columns.kernel <= REACH or _taps(columns) >= MIN_TAPS
    return c.few and columns.dilation == 1 and columns.kernel > 1 and short


def pays(c: Convolution) -> bool:
    """Whether lanes read weights from global memory at an address that all lanes share."""
    return _chosen(c).weights == "global" and not c.low.target.software


def lower(c: Convolution) -> None:
    """Records one launch."""
    rows, columns = c.axes
    tile, taps = _tile(c), _taps(c.columns)
    blocks = c.blocks(tile)
    threads = row_threads(c.pixels, tile.pixels, columns.positions)
    source, (batch, row, pixel, channel) = c.singles
    parameters: dict[str, object] = {
        "tap_vectors": blocks.tap_vectors,
        "items": threads,
        "row_items": threads // rows.positions,
        "x_batch": batch,
        "x_row": row,
        "x_pixel": pixel,
        **window.parameters(c.axes),
    }
    variant = {
        "kernel": taps,
        "parts": taps < columns.kernel,
        "stride": columns.stride,
        "edges": _edges(columns, taps, tile.pixels),
        "run": None,
    }
    address = Addressing("stem", c.pixels, c.x[0], channel, parameters, threads=threads)
    product = Product(blocks, tile, address, kernel="stem", source=source, variant=variant)
    multiply(c.low, c.node, product)


def _tile(c: Convolution) -> Tile:
    """Returns the tile for this convolution, with as many pixels per thread as it can load and
    multiply at once."""
    tile, columns = _chosen(c), c.columns
    reached = 1 + (REACH - _taps(columns)) // columns.stride
    multiplied = max(PRODUCTS // (_taps(columns) * tile.slices), 1)
    pixels = min(tile.pixels, columns.positions, reached, multiplied)
    return replace(tile, pixels=pixels, step=1, ahead=1, weights="global")


def _taps(columns: Span) -> int:
    """Returns how many taps of a row are loaded at once: all of them, or the largest divisor of
    their number that fits."""
    return max(t for t in range(1, min(columns.kernel, REACH) + 1) if columns.kernel % t == 0)


def _edges(columns: Span, taps: int, pixels: int) -> tuple[bool, ...]:
    """Returns, for each element that is loaded at once, whether it may be outside the input,
    whichever part of the row is loaded."""
    found = window.edges(columns, pixels, columns.positions - pixels)
    reach = taps + (pixels - 1) * columns.stride
    parts = range(0, columns.kernel, taps)
    return tuple(any(found[first + t] for first in parts) for t in range(reach))


def _chosen(c: Convolution) -> Tile:
    return choose_tile(c.low.target, c.slices, c.pixels)
