"""An LSTM over int8 in numpy, in the integers of `EvalInteger8x8_16` of
tensorflow/lite/kernels/lstm_eval.cc, with the functions of int16 of gemmlowp's fixedpoint.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array
from tflgpu_plugin.ir.quantization import FACTOR_UNIT

MIN_INT16, MAX_INT16 = -(1 << 15), (1 << 15) - 1
DECAYS = (25520, 19875, 12055, 4435, 600, 11, 0)  # exp(-1/4), exp(-1/2), exp(-1), ...


def divided(x: Array, bits: Any) -> Array:
    """Returns x / 2^bits, rounded to nearest, halves away from zero."""
    half = (1 << bits) >> 1
    return np.asarray(np.sign(x) * ((np.abs(x) + half) >> bits))


def high(a: Array, b: Any, bits: int = 15) -> Array:
    """Returns the product over 2^bits, rounded to nearest, halves up."""
    return np.asarray((a * b + (1 << (bits - 1))) >> bits)


def cut(x: Array) -> Array:
    return np.asarray(np.clip(x, MIN_INT16, MAX_INT16))


def multiplied(x: Array, by: Any) -> Array:
    """Returns x times a factor of 31 bits (high part, low part, shift to the left)."""
    upper, lower, shift = (np.asarray(part, np.int64) for part in by)
    product = high(x << np.maximum(shift, 0), upper * int(FACTOR_UNIT) + lower, 31)
    return divided(product, np.broadcast_to(np.maximum(-shift, 0), product.shape))


def exponential(a: Array, bits: int) -> Array:
    quarter = 1 << (13 - bits)
    rest = (a & (quarter - 1)) - quarter
    x = (rest << bits) + (1 << 12)
    square = high(x, x)
    third = high(divided(high(square, square), 2) + high(square, x), 10923)
    found = cut(28918 + high(x + divided(third + square, 1), 28918))
    for k, decay in enumerate(DECAYS):
        found = np.where((rest - a) & (quarter << k), high(found, decay), found)
    found = np.where(a < -(32 << (15 - bits)), 0, found)
    return np.where(a == 0, MAX_INT16, found)


def inverse(x: Array) -> Array:
    """Returns 2 / (1 + x) with 13 fractional bits."""
    half = (x + MAX_INT16 + 1) >> 1
    found = 23130 + high(half, -15420)
    for _ in range(3):
        found = found + cut(high(found, 8192 - high(half, found)) << 2)
    return np.asarray(found)


def logistic(a: Array, bits: int = 3) -> Array:
    found = cut(inverse(exponential(-np.abs(a), bits)) << 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, found, MAX_INT16 - found))


def tanh(a: Array, bits: int = 3) -> Array:
    found = cut((inverse(exponential(-np.abs(a), bits + 1)) - (1 << 13)) << 2)
    return np.asarray(np.sign(a) * found)


def step(z: Array, r: Array, h: Array, c: Array, numbers: Array, stored: Sequence[float]) -> Any:
    """Returns the next h and c, stored numbers as h and c are: h relative to its zero point."""
    z, r, numbers = (np.rint(v).astype(np.int64) for v in (z, r, numbers))
    _, least, most, offset, *factor, _, bits, limit = stored
    bias = numbers[:, 3] * (1 << 16) + numbers[:, 7]
    gates = cut(multiplied(z + bias, numbers[:, :3].T))
    gates = cut(gates + multiplied(h @ r.T, numbers[:, 4:7].T))
    enter, forget, content, leave = np.split(gates, 4, axis=1)
    kept = divided(logistic(forget) * c, 15)
    c = cut(kept + divided(logistic(enter) * tanh(content), 15 + int(bits)))
    c = np.clip(c, -int(limit), int(limit)) if limit else c
    product = logistic(leave) * tanh(c, int(bits))
    return np.clip(multiplied(product, factor) + int(offset), int(least), int(most)), c
