"""Convolutions and transposed convolutions in up to three dimensions, and operators that exist in
two only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array


def _grouped(x: Array, w: Array, groups: int) -> Array:
    """Multiplies x [..., C] by one tap w [O, C / groups], group by group."""
    pairs = zip(np.split(x, groups, axis=-1), np.split(w, groups), strict=True)
    return np.concatenate([part @ own.T for part, own in pairs], axis=-1)


def _conv_3d(x: Array, w: Array, bias: Array | None, strides: tuple[int, ...],
             padding: tuple[int, ...], dilations: tuple[int, ...] = (1, 1, 1),
             activation: str = "none", filters_last: bool = False) -> Array:  # fmt: skip
    w = np.moveaxis(w, 4, 0) if filters_last else w
    sides = [(0, 0), *zip(padding[::2], padding[1::2], strict=True), (0, 0)]
    x = np.pad(x, sides)
    kernel, depth, filters = w.shape[1:4], w.shape[4], w.shape[0]
    counts = [(x.shape[k + 1] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1
              for k in range(3)]  # fmt: skip
    y = np.zeros((x.shape[0], *counts, filters))
    groups = x.shape[4] // depth
    for tap in np.ndindex(*kernel):
        at = tuple(slice(tap[k] * dilations[k], tap[k] * dilations[k] + (counts[k] - 1)
                         * strides[k] + 1, strides[k]) for k in range(3))  # fmt: skip
        taps: Any = (slice(None), *at)
        own: Any = (slice(None), *tap)
        y += _grouped(x[taps], w[own], groups)
    return y if bias is None else y + bias


def _transpose_conv_3d(x: Array, w: Array, bias: Array | None, size: Array,
                       strides: tuple[int, ...], padding: Any,
                       dilations: tuple[int, ...] = (1, 1, 1), activation: str = "none",
                       filters_last: bool = False) -> Array:  # fmt: skip
    """Computes the full result, to which every element adds its products with the filters, and
    returns the wanted part."""
    w = w.transpose(3, 0, 1, 2, 4) if filters_last else w
    full = [(x.shape[k + 1] - 1) * strides[k] + (w.shape[k + 1] - 1) * dilations[k] + 1
            for k in range(3)]  # fmt: skip
    groups = x.shape[4] // w.shape[4]
    y = np.zeros((x.shape[0], *np.maximum(full, size[1:4]), w.shape[0]))
    for tap in np.ndindex(*w.shape[1:4]):
        at: Any = tuple(
            slice(tap[k] * dilations[k], tap[k] * dilations[k] + full[k] - (w.shape[k + 1] - 1)
                  * dilations[k], strides[k])
            for k in range(3)
        )  # fmt: skip
        own: Any = (slice(None), *tap)
        y[(slice(None), *at)] += _grouped(x, w[own], groups)
    for k in range(3):
        cut = (
            max(full[k] - int(size[k + 1]), 0) // 2 if isinstance(padding, str) else padding[2 * k]
        )
        y = np.take(y, np.arange(cut, cut + int(size[k + 1])), axis=k + 1)
    return y if bias is None else y + bias


def _conv_2d(x: Array, w: Array, bias: Array | None, gates: Array | None = None, *,
             strides: tuple[int, int], padding: tuple[int, ...],
             dilations: tuple[int, int] = (1, 1), activation: str = "none") -> Array:  # fmt: skip
    """Convolves a volume of one layer, whose channels are multiplied by their gates."""
    x = x if gates is None else x * gates
    y = _conv_3d(x[:, None], w[:, None], bias, (1, *strides), (0, 0, *padding), (1, *dilations))
    return np.asarray(y[:, 0])


def _depthwise(x: Array, w: Array, bias: Array | None, multiplier: int = 1,
               **more: Any) -> Array:  # fmt: skip
    """Convolves with a group for each channel; weights are [1, KH, KW, channels * multiplier]."""
    return _conv_2d(x, np.moveaxis(w, 3, 0).swapaxes(1, 3).swapaxes(1, 2), bias, **more)


def _transpose_conv(x: Array, w: Array, bias: Array | None, shape: Array, strides: tuple[int, int],
                    padding: tuple[int, ...], dilations: tuple[int, int] = (1, 1),
                    activation: str = "none") -> Array:  # fmt: skip
    """Computes the full result, to which every input element adds its filter, and returns the part
    that is kept."""
    b, h, wide, c = x.shape
    kept = np.zeros((b, int(shape[1]), int(shape[2]), w.shape[0]))
    for ky, kx in np.ndindex(*w.shape[1:3]):
        rows = np.arange(h) * strides[0] + ky * dilations[0] - padding[0]
        columns = np.arange(wide) * strides[1] + kx * dilations[1] - padding[2]
        part = _grouped(x, w[:, ky, kx], c // w.shape[3])
        near, beside = (
            np.flatnonzero((at >= 0) & (at < n))
            for at, n in zip((rows, columns), kept.shape[1:], strict=False)
        )
        here = np.ix_(np.arange(b), rows[near], columns[beside])
        kept[here] += part[np.ix_(np.arange(b), near, beside)]
    return kept if bias is None else kept + bias


STEPS: dict[str, Callable[..., Array]] = {
    "relu": lambda v: np.maximum(v, 0),
    "tanh": np.tanh,
    "clip": np.clip,
    "hard_swish": lambda v: v * np.clip(v + 3, 0, 6) / 6,
}


def _squeeze_excite(
    x: Array, w: Array, bias: Array | None, v: Array, inner: Sequence[tuple[str, Sequence[float]]]
) -> tuple[Array, Array]:
    hidden = x.mean((1, 2), keepdims=True) @ w[:, 0, 0].T + (0 if bias is None else bias)
    for name, numbers in inner:
        hidden = STEPS[name](hidden, *numbers)
    return hidden @ v[:, 0, 0].T, hidden


REFERENCES: dict[str, Callable[..., Any]] = {
    "conv_2d": _conv_2d, "conv_3d": _conv_3d, "depthwise_conv_2d": _depthwise,
    "transpose_conv": _transpose_conv, "transpose_conv_3d": _transpose_conv_3d,
    "squeeze_excite": _squeeze_excite,
}  # fmt: skip
