"""Builder of MaxPool with its second result: the places of the maxima in the input. Those of
windows in which no number is above -infinity have no meaning, as in onnxruntime."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from tflgpu_plugin.ir import Array, asks
from tflgpu_plugin.providers import Builder

from .rows import declared
from .windows import Window, pooling, window_of

LARGEST = 1 << 22  # limit of elements of the index table
_POOLED = declared(image=True, derived=pooling, ceil_mode=False)


def max_pool(e: Builder) -> list[int | None]:
    """Builds MaxPool."""
    return [_POOLED(e), _places(e, window_of(e)) if e.wants(1) else None]


def _places(e: Builder, window: Window) -> int:
    """Builds the places as int64: indices into the whole input, or with storage_order 1 into one
    whose images are stored column by column. The first of equal elements is taken."""
    shape, taps, size = e.shape(), prod(window.kernel), prod(window.spatial)
    planes, count = shape[0] * shape[1], prod(window.places)
    read, written = _tables(window, "F" if e.integer("storage_order") else "C")
    flat = e.reshape(e.x(), (planes, size))
    padded = e.add("pad", flat, e.index([(0, 0), (0, 1)]), e.const([-np.inf]), mode="constant")
    picked = e.add("gather", padded, e.index(read.reshape(-1)), axis=1)
    parts = e.reshape(picked, (planes, taps, count))
    tap = e.add("arg_max", parts, e.index([1]), dtype="i32", keep_dims=False, last=False)
    at = e.add("add", e.add("mul", tap, e.index([count])), e.index(np.arange(count)))
    inside = e.add("gather", e.index(written.reshape(-1)), at, axis=0)
    found = e.add("add", inside, e.index(size * np.arange(planes)[:, None]), dtype="i64")
    return e.reshape(found, (*shape[:2], *window.places))


def _tables(window: Window, order: Literal["C", "F"]) -> tuple[Array, Array]:
    """Returns the indices [tap, position] of the elements of one image: row by row, with one past
    the last in the padding, and in the `order` of the results."""
    axes = [
        np.arange(taps)[:, None] * apart + np.arange(places) * step - before
        for taps, step, apart, (before, _), places in zip(*window[1:], window.places, strict=True)
    ]
    count, taps = prod(window.places), prod(window.kernel)
    ranges = [n for axis in axes for n in axis.shape]
    rank, which = len(axes), np.indices(ranges).reshape(2 * len(axes), -1)
    at = np.stack([axis[which[2 * k], which[2 * k + 1]] for k, axis in enumerate(axes)])
    tap = np.ravel_multi_index(tuple(which[::2]), window.kernel)
    place = np.ravel_multi_index(tuple(which[1::2]), window.places)
    inside = np.all((at >= 0) & (at < np.array(window.spatial).reshape(rank, 1)), 0)
    found = []
    ways: tuple[Literal["C", "F"], ...] = ("C", order)
    for way in ways:
        table = np.full((taps, count), prod(window.spatial))
        held = tuple(at[:, inside])
        table[tap[inside], place[inside]] = np.ravel_multi_index(held, window.spatial, order=way)
        found.append(table)
    return found[0], found[1]


@asks("attribute.unsupported")
def counted(e: Builder) -> bool:
    """Requires float32 or float16, no ceil_mode, and at most 4,194,304 elements of all windows of
    an image, where a node reads the places of the maxima."""
    if not e.wants(1):
        return True
    window = window_of(e)
    small = prod(window.kernel) * prod(window.places) <= LARGEST and prod(e.shape()) < 1 << 31
    return e.dtype() in ("f32", "f16") and not e.integer("ceil_mode") and small
