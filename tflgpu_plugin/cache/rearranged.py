"""Packed weights that consist of the words of another packed weight in another order. Plans for few
and for many rows pack a matrix differently, for example; then only the order is stored."""

from __future__ import annotations

import zlib

import numpy as np

from tflgpu_plugin.cache.codec import Damaged
from tflgpu_plugin.ir import Array

SMALLER = 8  # an order that is stored takes at most this part of the bytes
MAX_COMPARED_BYTES = 64 << 20  # of the weights of a segment, since comparing takes time


def order(wanted: Array, source: memoryview) -> bytes | None:
    """Returns, compressed, the position in `source` of each word of `wanted` (uint8); 0 stands for
    a zero word. Returns None if a word is not in `source`, or if the positions take not much less
    space than the words."""
    if len(wanted) % 4 or len(source) % 4:
        return None
    words, mine = _with_zero(source), wanted.view("<u4")
    ranks = np.argsort(words, kind="stable")
    found = np.minimum(np.searchsorted(words, mine, sorter=ranks), len(words) - 1)
    places = ranks[found]
    if not np.array_equal(words[places], mine):
        return None
    steps = np.diff(places, prepend=0).astype("<i4")
    text = zlib.compress(steps.tobytes())
    return text if len(text) * SMALLER <= len(wanted) else None


def arranged(text: memoryview, source: memoryview, size: int) -> Array:
    """Returns the `size` bytes (uint8) that consist of the words of the source in the stored order.
    Raises Damaged."""
    try:
        steps = np.frombuffer(zlib.decompressobj().decompress(text, size + 1), "<i4")
        words, places = _with_zero(source), np.cumsum(steps, dtype=np.int64)
    except (ValueError, zlib.error) as error:
        raise Damaged("the order of a weight is not valid") from error
    if steps.nbytes != size or not size or places.min() < 0 or places.max() >= len(words):
        raise Damaged("the order of a weight does not fit")
    made: Array = words[places].view(np.uint8)
    return made


def _with_zero(source: memoryview) -> Array:
    """Returns the words of a weight, preceded by a zero, since packed weights are padded with
    zeros."""
    return np.concatenate([np.zeros(1, "<u4"), np.frombuffer(source, "<u4")])
