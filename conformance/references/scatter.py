"""Scatter ops in numpy, one update after the other, and reductions of ranges of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array

REDUCED: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": min,
    "max": max,
}
MAX_FLOAT32 = float(np.finfo(np.float32).max)
FIRST: dict[str, float] = {"add": 0, "mul": 1, "min": MAX_FLOAT32, "max": -MAX_FLOAT32}


def _elements(x: Array, indices: Array, updates: Array, axis: int, reduction: str,
              wraps: bool = False) -> Array:  # fmt: skip
    y = x.copy()
    for at in np.ndindex(indices.shape):
        k = int(indices[at])
        there = (*at[:axis], k + x.shape[axis] * (k < 0 and wraps), *at[axis + 1 :])
        if 0 <= there[axis] < x.shape[axis]:
            y[there] = REDUCED[reduction](y[there], updates[at])
    return y


def _nd(x: Array, indices: Array, updates: Array, count: Array | None = None, *,
        reduction: str, wraps: bool = False) -> Array:  # fmt: skip
    y, places = x.copy(), [*np.ndindex(indices.shape[:-1])]
    for at in places if count is None else places[: max(int(np.ravel(count)[0]), 0)]:
        pairs = list(zip(indices[at], x.shape, strict=False))
        there = tuple(int(k) + n * bool(k < 0 and wraps) for k, n in pairs)
        if all(0 <= k < n for k, n in zip(there, x.shape, strict=False)):
            for rest in np.ndindex(x.shape[len(there) :]):
                whole = (*there, *rest)
                y[whole] = REDUCED[reduction](y[whole], updates[(*at, *rest)])
    return y


def _new(indices: Array, updates: Array, shape: Array, reduction: str) -> Array:
    return _nd(np.zeros(tuple(shape), updates.dtype), indices, updates, reduction=reduction)


def _segments(x: Array, ids: Array, count: Array | None = None, *, reduction: str) -> Array:
    number = int(ids.max()) + 1 if count is None else int(np.ravel(count)[0])
    first = FIRST[reduction]
    if x.dtype.kind == "i":
        first = max(min(first, 2**31 - 1), -(2**31))
    start = np.full((number, *x.shape[ids.ndim :]), first, x.dtype)
    return _nd(start, ids[..., None], x, reduction=reduction)


def _update_slice(x: Array, updates: Array, starts: Array, axis: int | None = None,
                  circular: bool = False, ends: bool = False, heads: int = 0) -> Array:  # fmt: skip
    y = x.copy()
    if heads and updates.ndim == 3:
        updates = updates.reshape(*updates.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    room = [n - k for n, k in zip(x.shape, updates.shape, strict=True)]
    for batch, start in zip(y, starts, strict=True) if ends else ():
        after = np.moveaxis(batch, (axis or 1) - 1, 0)
        after[int(np.clip(start, 0, room[axis or 1])) :] = 0
    for at in np.ndindex(updates.shape):
        begin = list(starts) if axis is None else [0] * x.ndim
        if axis is not None:
            begin[axis] = starts[at[0]]
        if not circular:
            begin = list(np.clip(begin, 0, room))
        there = [int(k + s) % n for k, s, n in zip(at, begin, x.shape, strict=True)]
        y[tuple(there)] = updates[at]
    return y


def _ranges(reduced: Callable[..., Array], empty: float) -> Callable[..., Array]:
    def reference(x: Array, starts: Array, ends: Array) -> Array:
        bounds = zip(np.ravel(starts).tolist(), np.ravel(ends).tolist(), strict=True)
        rows = [x[int(start) : int(end)] for start, end in bounds]
        nothing = np.full(x.shape[1:], empty)
        return np.stack([reduced(part, axis=0) if len(part) else nothing for part in rows])

    return reference


REFERENCES: dict[str, Callable[..., Any]] = {
    "scatter_elements": _elements, "scatter_nd": _nd, "scatter_new": _new, "segments": _segments,
    "update_slice": _update_slice,
    "range_sum": _ranges(np.sum, 0), "range_mean": _ranges(np.mean, 0),
    "range_max": _ranges(np.max, -np.inf), "range_min": _ranges(np.min, np.inf),
}  # fmt: skip
