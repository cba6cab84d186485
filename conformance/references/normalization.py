"""Normalizations in numpy: softmax, of rows, channels and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.references.rounding import rounded
from tflgpu_plugin.ir import Array


def _softmax(x: Array, beta: float = 1.0, axis: int = -1) -> Array:
    e = np.exp(rounded(beta * (x - x.max(axis, keepdims=True))))
    return np.asarray(e / rounded(e.sum(axis, keepdims=True), x.shape[axis]))


def _log_softmax(x: Array, axis: int = -1) -> Array:
    below = rounded(x - x.max(axis, keepdims=True))
    total = rounded(np.exp(below).sum(axis, keepdims=True), x.shape[axis])
    return np.asarray(below - rounded(np.log(total)))


def _normalized(x: Array, scale: Array | None, bias: Array | None, axes: tuple[int, ...],
                epsilon: float) -> Array:  # fmt: skip
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + epsilon)
    return np.asarray(y * (1 if scale is None else scale) + (0 if bias is None else bias))


def _instance(x: Array, scale: Array | None = None, bias: Array | None = None,
              epsilon: float = 1e-5) -> Array:  # fmt: skip
    return _normalized(x, scale, bias, tuple(range(1, x.ndim - 1)), epsilon)


def _layer(x: Array, scale: Array | None = None, bias: Array | None = None, axis: int = -1,
           epsilon: float = 1e-5) -> Array:  # fmt: skip
    return _normalized(x, scale, bias, tuple(range(axis % x.ndim, x.ndim)), epsilon)


def _standardize(x: Array, epsilon: float, centred: bool = True) -> Array:
    x = x - x.mean(-1, keepdims=True) if centred else x
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon))


def _standardize_groups(x: Array, epsilon: float, groups: int) -> Array:
    parts = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    d = parts - parts.mean((1, 3), keepdims=True)
    y = d / np.sqrt((d * d).mean((1, 3), keepdims=True) + epsilon)
    return np.asarray(y.reshape(x.shape))


def _lrn(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    count, y = x.shape[-1], np.empty_like(x)
    for c in range(count):
        near = x[..., max(0, c - (size - 1) // 2) : min(count, c + size // 2 + 1)]
        y[..., c] = x[..., c] / (bias + alpha / size * (near**2).sum(-1)) ** beta
    return y


def _lp_normalization(x: Array, axis: int = -1, p: int = 2, least: float = 1e-38) -> Array:
    norm = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return np.asarray(x / np.maximum(norm, least))


def _of_groups(x: Array, axes: None = None, centre: Array | float = 0, *, groups: int) -> Any:
    """Returns the mean of groups of channels or, with a centre, the mean of squared differences
    from it."""
    parted = x.reshape(*x.shape[:-1], groups, -1)
    if np.ndim(centre):
        parted = (parted - np.asarray(centre)[..., None]) ** 2
    return parted.mean((*range(1, x.ndim - 1), x.ndim)).reshape(
        x.shape[0], *(1,) * (x.ndim - 2), groups
    )


REFERENCES: dict[str, Callable[..., Any]] = {
    "softmax": _softmax, "log_softmax": _log_softmax,
    "lp_normalization": _lp_normalization,
    "instance_normalization": _instance, "layer_normalization": _layer,
    "standardize": _standardize, "standardize_groups": _standardize_groups,
    "lrn": _lrn, "mean_of_groups": _of_groups, "mean_square_of_groups": _of_groups,
}  # fmt: skip
