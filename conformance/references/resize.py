"""Resizes images, in numpy."""

from __future__ import annotations

import numpy as np

from conformance.references.rounding import rounded
from tflgpu_plugin.ir import Array


def _place(o: int, n: int, out: int, kind: str, scale: float, roi: tuple[float, float]) -> float:
    """Returns the coordinate of output index o on an axis of n, by the formulas of the ONNX
    operator Resize."""
    start, end = roi
    return {
        "half_pixel": (o + 0.5) / scale - 0.5,
        "half_pixel_symmetric": n / 2 * (1 - out / (scale * n)) + (o + 0.5) / scale - 0.5,
        "pytorch_half_pixel": (o + 0.5) / scale - 0.5 if out > 1 else 0.0,
        "align_corners": o * (n - 1) / (out - 1) if out > 1 else 0.0,
        "asymmetric": o / scale,
        "tf_half_pixel_for_nn": o if scale == 1 else (o + 0.5) / scale,
        "tf_crop_and_resize": start * (n - 1) + o * (end - start) * (n - 1) / (out - 1)
        if out > 1 else 0.5 * (start + end) * (n - 1),
    }[kind]  # fmt: skip


def _taps(x: float, n: int, mode: str, nearest: str, a: float, exclude: bool,
          wide: float) -> Array:  # fmt: skip
    """Returns the weights of an axis of n at coordinate x, for a filter `wide` times as wide as
    usual (0: as usual, and not normalized to a sum of 1)."""
    weights = np.zeros(n)
    if mode == "nearest":
        whole = {"round_prefer_floor": np.ceil(x - 0.5), "round_prefer_ceil": np.floor(x + 0.5),
                 "floor": np.floor(x), "ceil": np.ceil(x)}[nearest]  # fmt: skip
        weights[int(np.clip(whole, 0, n - 1))] = 1
        return weights
    first, reach = int(np.floor(x)), int(np.ceil(2 * (wide or 1)))
    for t in range(first - reach + 1, first + reach + 1):
        d = float(rounded(abs(x - t) / (wide or 1)))
        if mode == "linear":
            w = max(0.0, 1 - d)
        elif d <= 1:
            w = float(rounded((a + 2) * d**3) - rounded((a + 3) * d**2) + 1)
        else:
            w = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0
        if not (exclude and not 0 <= t < n):
            weights[int(np.clip(t, 0, n - 1))] += w
    return np.asarray(weights / weights.sum() if exclude or wide else weights)


def resize(x: Array, size: Array, mode: str = "nearest", coordinates: str = "half_pixel",
           nearest: str = "round_prefer_floor", scales: tuple[float, ...] | None = None,
           roi: tuple[float, ...] = (), extrapolation: float = 0.0, cubic_a: float = -0.75,
           exclude_outside: bool = False, antialias: bool = False) -> Array:  # fmt: skip
    outside = np.zeros(tuple(int(e) for e in size), bool)
    for k, out in enumerate(int(e) for e in size):
        n = x.shape[k + 1]
        scale = out / n if scales is None else scales[k]
        ends = (roi[2 * k], roi[2 * k + 1]) if roi else (0.0, 1.0)
        at = [_place(o, n, out, coordinates, scale, ends) for o in range(out)]
        at = at if mode == "nearest" else [float(rounded(place)) for place in at]
        how = (nearest, cubic_a, exclude_outside, max(1 / scale, 1) if antialias else 0)
        matrix = np.stack([_taps(p, n, mode, *how) for p in at])
        if antialias and out == n:
            continue
        x = np.moveaxis(np.tensordot(matrix, x, (1, k + 1)), 0, k + 1)
        if coordinates == "tf_crop_and_resize":
            lost = np.array([not 0 <= p <= n - 1 for p in at])
            outside |= lost.reshape([-1 if j == k else 1 for j in range(len(size))])
    return np.where(outside[None, ..., None], extrapolation, x)
