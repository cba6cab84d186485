"""Meanings in numpy of ops from TFLite's operators that no other list has: their attributes are the
host's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.references.recurrent import logistic
from conformance.references.rounding import rounded
from tflgpu_plugin.ir import Array


def _fully_connected(x: Array, w: Array, bias: Array | None = None,
                     keep_num_dims: bool = False) -> Array:  # fmt: skip
    rows = x if keep_num_dims else x.reshape(-1, w.shape[1])
    y = rows @ w.T
    return np.asarray(y if bias is None else y + bias)


def _places(extent: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Returns the coordinate of each output position, in float32 as the host computes it."""
    one = np.float32(1)
    scale = np.float32(extent) / np.float32(out)
    if align_corners and out > 1:
        scale = np.float32(extent - 1) / np.float32(out - 1)
    index = np.arange(out, dtype=np.float32)
    half = one / 2 if half_pixel_centers else one * 0
    return np.asarray((index + half) * scale - half, np.float64)


def _true_places(extent: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Returns the coordinate of each output position, and by how much it changes where a quotient
    is rounded."""
    ratio = (extent - 1) / (out - 1) if align_corners and out > 1 else extent / out
    half = 0.5 if half_pixel_centers else 0.0
    return rounded((np.arange(out) + half) * ratio) - half


def _resize_bilinear(x: Array, size: Array, align_corners: bool, half_pixel_centers: bool,
                     as_counted: bool = True) -> Array:  # fmt: skip
    """Resizes bilinearly; `as_counted`: with TFLite's float32 coordinates, even where they are
    inexact."""
    places = _places if as_counted else _true_places
    for axis, out in enumerate(size.reshape(-1), start=1):
        last = x.shape[axis] - 1
        at = places(x.shape[axis], int(out), align_corners, half_pixel_centers)
        lower, upper = (np.clip(f(at), 0, last).astype(np.int64) for f in (np.floor, np.ceil))
        part = rounded(at - lower).reshape([-1 if k == axis else 1 for k in range(4)])
        x = np.take(x, lower, axis) * (1 - part) + np.take(x, upper, axis) * part
    return x


def _lstm_basic(x: Array, h: Array, w: Array, bias: Array, c: Array, activation: str = "tanh",
                cell_clip: float = 0.0, proj_clip: float = 0.0) -> tuple[Array, ...]:  # fmt: skip
    z = np.concatenate([x, h], axis=1) @ w.T + bias
    enter, new, keep, leave = np.split(z, 4, axis=1)
    state = rounded(logistic(enter) * np.tanh(new)) + rounded(logistic(keep) * c)
    return logistic(leave) * np.tanh(state), state, np.zeros(0), np.zeros(0)


REFERENCES: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "exp": np.exp, "logistic": logistic, "tanh": np.tanh,
    "relu": lambda v: np.maximum(v, 0), "relu6": lambda v: np.clip(v, 0, 6),
    "relu_n1_to_1": lambda v: np.clip(v, -1, 1),
    "prelu": lambda x, alpha: np.where(x < 0, x * alpha, x),
    "reshape": lambda x, *given, shape=None: x.reshape(given[0] if shape is None else shape),
    "fully_connected": _fully_connected, "resize_bilinear": _resize_bilinear,
    "lstm_basic": _lstm_basic,
}  # fmt: skip
