"""Converts sparse constants of a TFLite model to dense arrays.

Such a constant is a tree. Each level is one dimension, of the tensor or of the blocks into which it
is divided, and has all indices (dense) or a list of indices (CSR). The values are the leaves, in
order. The model file may be damaged: inconsistent data is refused with a sentence, and so are
arrays of more than 2^24 elements that have over 4,096 elements per stored value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Shape
from tflgpu_plugin.providers import Unsupported

DENSE, CSR = 0, 1
ALWAYS = 1 << 24  # elements that every sparse constant may have
MAX_EXPANSION = 4096  # more elements than that are allowed per stored value


@dataclass(frozen=True)
class Level:
    """One level of the tree, a dimension of size `extent`. A CSR level lists its indices: below the
    k-th index of the level above are indices[segments[k] : segments[k + 1]]. `stride` is the
    distance of adjacent indices in the dense array."""

    extent: int
    stride: int
    segments: Array | None = None
    indices: Array | None = None


def unreadable(why: str) -> Unsupported:
    """Returns the refusal of a sparse constant; `why` follows its name in the sentence."""
    return Unsupported.of("constant.unreadable", why)


def dense(ffi: Any, raw: Any, kind: str, shape: Shape) -> Array:
    """Returns the values of the sparse tgl_tensor `raw` as an array of the numpy dtype `kind` and
    this shape. Raises Unsupported with text that follows the constant's name in a sentence."""
    size = np.dtype(kind).itemsize
    stored = int(raw.bytes) // size
    if not raw.data or stored * size != raw.bytes:
        raise unreadable(
            "is sparse, and the size of its data is not a multiple of the size of its type"
        )
    if prod(shape) > max(ALWAYS, MAX_EXPANSION * stored):
        raise unreadable(f"is sparse: {stored} values are too few for the shape {list(shape)}")
    values = np.frombuffer(ffi.buffer(raw.data, raw.bytes), kind)
    found = np.zeros(prod(shape), kind)
    found[offsets(levels(ffi, raw.sparsity, shape), stored)] = values
    return found.reshape(shape)


def levels(ffi: Any, sparsity: Any, shape: Shape) -> list[Level]:
    """Returns the levels of a tgl_sparsity for a tensor of this shape. Raises Unsupported."""
    order = [int(k) for k in _numbers(ffi, sparsity.order)]
    blocked = [int(k) for k in _numbers(ffi, sparsity.blocked)]
    rank, count = len(shape), int(sparsity.level_count)
    # Levels of blocks come last, in the order of their dimensions, as hosts assume.
    wanted = list(range(rank, rank + len(blocked)))
    if sorted(order[:rank]) != list(range(rank)) or order[rank:] != wanted or count != len(order):
        raise unreadable("is sparse, with levels in an order that is not supported")
    if any(a >= b for a, b in pairwise(blocked)):
        raise unreadable("is sparse, with blocks in an order that is not supported")
    raw = [sparsity.levels[k] for k in range(count)]
    sizes = {}
    for dimension, level in zip(blocked, raw[rank:], strict=True):
        if not 0 <= dimension < rank or level.format != DENSE or level.size < 1:
            raise unreadable("is sparse, with blocks that are not supported")
        if shape[dimension] % level.size:
            raise unreadable("is sparse, with blocks that do not divide its shape")
        sizes[dimension] = int(level.size)
    found = []
    for at, level in zip(order, raw, strict=True):
        dimension = at if at < rank else blocked[at - rank]
        block, stride = sizes.get(dimension, 1), prod(shape[dimension + 1 :])
        extent, step = (shape[dimension] // block, stride * block) if at < rank else (block, stride)
        if level.format == DENSE and level.size == extent:
            found.append(Level(extent, step))
        elif level.format == CSR:
            listed = _numbers(ffi, level.segments), _numbers(ffi, level.indices)
            found.append(Level(extent, step, *listed))
        else:
            raise unreadable("is sparse, with a level that contradicts its shape")
    return found


def offsets(given: Sequence[Level], stored: int) -> Array:
    """Returns the offsets of the `stored` values of a constant with these levels in the dense
    array, row-major. Raises Unsupported when their number differs."""
    found: Array = np.zeros(1, np.int64)
    for level in given:
        if level.segments is None or level.indices is None:
            steps = np.arange(level.extent, dtype=np.int64)
            found = (found[:, None] + steps * level.stride).reshape(-1)
        else:
            above = np.repeat(found, _lengths(level, found.size))
            found = above + level.indices.astype(np.int64) * level.stride
    if found.size != stored:
        raise unreadable(f"is sparse, with {stored} values in {found.size} elements")
    return found


def _lengths(level: Level, above: int) -> Array:
    """Returns the number of indices that a CSR level lists below each index of the level above,
    which has `above` indices. Indices ascend within a segment, so that no level has more of them
    than the dense array has elements."""
    assert level.segments is not None and level.indices is not None
    segments, indices = level.segments.astype(np.int64), level.indices
    lengths = np.diff(segments)
    if segments.size != above + 1 or segments[0] != 0 or segments[-1] != indices.size:
        raise unreadable("is sparse, with segments that do not add up")
    if np.any(lengths < 0) or np.any(indices < 0) or np.any(indices >= level.extent):
        raise unreadable("is sparse, with indices beyond its shape")
    begins = np.zeros(indices.size, bool)
    begins[segments[:-1][lengths > 0]] = True
    if np.any((np.diff(indices) <= 0) & ~begins[1:]):
        raise unreadable("is sparse, with indices out of order")
    return np.asarray(lengths)


def _numbers(ffi: Any, array: Any) -> Array:
    """Returns the values of a tgl_ints, an empty array for NULL."""
    if not array or array.size <= 0:
        return np.zeros(0, np.int32)
    return np.frombuffer(ffi.buffer(array.data, 4 * array.size), np.int32)
