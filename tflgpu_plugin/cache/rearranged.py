"""Packed weights that hold the words of another one in another order. Plans for few and for many
rows pack a matrix differently, for example; only the order is stored then."""

from __future__ import annotations

import zlib

import numpy as np

from tflgpu_plugin.cache.codec import Damaged
from tflgpu_plugin.ir import Array

SMALLER = 8  # an order that is stored takes at most this part of the bytes
MOST = 64 << 20  # bytes of the weights in a segment that are compared, since this takes time


def order(wanted: Array, source: memoryview) -> bytes | None:
    """Returns the order in which these bytes (uint8) have the words of the source, and zeros; None
    if they have others, or if the order is not much smaller."""
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
    """Returns `size` bytes (uint8) with the words of the source in a stored order. Raises
    Damaged."""
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
    """Returns the words of a weight after a zero, with which layouts are padded."""
    return np.concatenate([np.zeros(1, "<u4"), np.frombuffer(source, "<u4")])
