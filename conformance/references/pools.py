"""Pooling in numpy: windows of [B, *pixels, C], as the ONNX operators MaxPool,
AveragePool and LpPool have them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array


def pool(x: Array, window: tuple[int, ...], strides: tuple[int, ...], padding: tuple[int, ...],
         dilations: tuple[int, ...] | None = None, ceil_mode: bool = False, counted: bool = False,
         p: float = 2, kind: str = "max") -> Array:  # fmt: skip
    """Pools with the input indices [positions, window] of all taps, axis by axis."""
    steps = dilations or (1,) * len(window)
    before, after, extents = padding[::2], padding[1::2], x.shape[1:-1]
    taps, inside, padded = x, np.ones(1, bool), np.ones(1, bool)
    for k in reversed(range(len(window))):
        free = extents[k] + before[k] + after[k] - (window[k] - 1) * steps[k] - 1
        count = (-(-free // strides[k]) if ceil_mode else free // strides[k]) + 1
        count -= ceil_mode and (count - 1) * strides[k] >= extents[k] + before[k]
        at = np.arange(count)[:, None] * strides[k] - before[k] + np.arange(window[k]) * steps[k]
        taps = np.take(taps, np.clip(at, 0, extents[k] - 1), k + 1)
        sides = at.shape + (1,) * inside.ndim
        inside = ((at >= 0) & (at < extents[k])).reshape(sides) & inside
        padded = (at < extents[k] + after[k]).reshape(sides) & padded
    over = tuple(range(2, taps.ndim - 1, 2))
    if kind == "max":
        return np.asarray(np.where(inside, taps, -inf).max(over))
    if kind == "norm":
        return np.asarray(np.where(inside, np.abs(taps) ** p, 0.0).sum(over) ** (1 / p))
    there = np.where(padded if counted else inside, 1.0, 0.0)
    return np.asarray(np.where(inside, taps, 0.0).sum(over) / there.sum(tuple(o - 1 for o in over)))


REFERENCES: dict[str, Callable[..., Any]] = {
    "max_pool_2d": pool,
    "average_pool_2d": lambda x, **a: pool(x, kind="average", **a),
    "root_mean_square_pool_2d": lambda x, **a: np.sqrt(pool(x * x, kind="average", **a)),
    "lp_pool": lambda x, **a: pool(x, kind="norm", **a),
}
