"""Computes 8-bit layers in integers, as hosts do. The device sums products of integer weights and
inputs (stored as multiples of their scale) in float32, divides the sum by the scale, and rounds it
to an integer; the fixed-point multiplication that follows is exact. Results equal the reference
kernels'; sums of millions may be off by one from rounding, and results then by one level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Array, EpilogueOp, Graph, Node, Tensor
from tflgpu_plugin.ir.quantization import FACTOR_UNIT, INT32, MIN_SHIFT, ONE, Levels, fixed_point

BIAS_UNIT = 1 << 12  # unit of a bias's high part: float32 holds both parts exactly
SMALL = 1 << 21  # float32 holds smaller products of a sum and a fraction to a quarter
MAX_BIAS = 1.001 * 2**31  # float32 holds those of int32 times a scale only to 24 bits
MAX_WEIGHT = 255  # largest magnitude of 8-bit weights minus a zero point


def integer_layer(graph: Graph, node: Node) -> tuple[Array, Array] | None:
    """Returns the constants of a layer in integers: its weights in the layout of the op, and the
    rows [5 or 3, channels] that `requantized` or `rescaled` of kernels/numbers.wgsl reads. These
    are the bias (a multiple of `BIAS_UNIT` and the remainder), and the factor as fraction (high and
    low part) and power of two, or as one float32 number.

    Returns None unless input and result have one scale each, weights and bias are constants, and
    the epilogue is empty or only the bias, which int32 holds."""
    x, weights = (graph.tensors[t] for t in node.inputs[:2] if t is not None)
    result, channels = graph.tensors[node.outputs[0]], graph.shape(node.outputs[0])[-1]
    if not quantization.quantized(x) or weights.data is None or weights.quantization is None:
        return None
    if ops.bias(node) is not None:  # the bias is not in the epilogue
        return None
    scale = np.asarray(weights.quantization.scale, np.float64)
    if scale.size not in (1, channels) or weights.data.dtype != np.float32:
        return None
    numbers = stored_integers(weights)
    if np.abs(numbers).max(initial=0) > MAX_WEIGHT:
        return None  # sums could exceed 32 bits
    sums = scale * quantization.parameters(x)[0]  # the real value of 1 in a sum
    bias = np.zeros(channels)
    if node.epilogue:
        given = graph.constant(node.epilogue[0].tensor)
        if len(node.epilogue) > 1 or node.epilogue[0].op != "add" or given is None:
            return None
        if given.size not in (1, channels):
            return None
        bias = bias + np.round(given.reshape(-1).astype(np.float64) / sums)
        if not (np.abs(bias) < MAX_BIAS).all():  # real numbers, or of another scale than sums
            return None
        bias = np.clip(bias, INT32.min, INT32.max)
    ones = np.ones(channels)
    if quantization.even(result):
        sums = sums.astype(np.float32).astype(np.float64)
        factors = sums / quantization.parameters(result)[0]
        rows = np.array([*parted(bias), factors * ones], np.float32)
    else:
        rounding = ops.rows()[node.op].rounding
        found = rounding.factor(graph, node) if rounding and rounding.factor else None
        factors = sums / quantization.parameters(result)[0] if found is None else found[1] * ones
        fraction, shift = fixed_point(factors)
        rows = fixed_rows(bias, fraction * ones, shift * ones)
    return numbers.astype(np.int16), rows


def parted(bias: Array) -> tuple[Array, Array]:
    """Splits a bias into a multiple of `BIAS_UNIT` and a remainder, so that float32 holds both
    exactly."""
    return bias // BIAS_UNIT * BIAS_UNIT, bias % BIAS_UNIT


def fixed_rows(bias: Array, fraction: Array, shift: Array) -> Array:
    """Returns the rows of `requantized` for factors fraction * 2^(shift - 31)."""
    high, low = fraction // FACTOR_UNIT * FACTOR_UNIT, fraction % FACTOR_UNIT
    return np.array([*parted(bias), high / ONE, low / ONE, np.exp2(shift)], np.float32)


def factor_rows(factor: float, count: int, channels: int) -> Array:
    """Returns the rows of `rescaled` for means of `count` numbers, times a factor."""
    return np.repeat(np.array([[0.0], [0.0], [factor / count]], np.float32), channels, 1)


def mean_factor(factor: float, count: int) -> tuple[int, int]:
    """Returns fraction and exponent of a mean's factor. The fraction is divided by the count after
    a shift that keeps its bits, as in `QuantizedMeanOrSum` of
    tensorflow/lite/kernels/internal/reference/reduce.h."""
    fractions, shifts = fixed_point(np.array([factor]))
    fraction, shift = int(fractions[0]), int(shifts[0])
    more = min(count.bit_length() - 1, -MIN_SHIFT + shift)
    return (fraction << more) // count, shift - more


def mean_rows(factor: float, count: int, channels: int) -> Array:
    """Returns the rows of `requantized` for means."""
    fraction, shift = mean_factor(factor, count)
    rows = fixed_rows(*(np.array([n], np.float64) for n in (0, fraction, shift)))
    return np.repeat(rows, channels, 1)


def each(step: str, rows: int, scale: float, levels: Levels, channels: int) -> EpilogueOp:
    """Returns the epilogue op that requantizes the sums. `scale` is that of the layer's input,
    `rows` the tensor of the rows from `integer_layer`."""
    return EpilogueOp(step, rows, (scale, *levels, float(-(-channels // 4))))


def in_fixed_point(rows: Array, levels: Levels, once: bool = False) -> str:
    """Returns the name of the epilogue op that multiplies by these rows in fixed point. With `once`
    it is one that rounds once, as some hosts do. Otherwise it is the faster variant if no unclamped
    result exceeds `SMALL`, no sum exceeds twice that, and no sum is shifted left."""
    if once:
        return "requantize_once"
    _, _, high, low, power = rows
    most, fraction = max(abs(levels.least), abs(levels.most)) + 1, high + low
    sums = (most <= 2 * SMALL * power * fraction) | (fraction == 0)
    small = (power <= 1) & (most <= SMALL * power) & sums
    return "requantize_small" if small.all() else "requantize"


def stored_integers(weights: Tensor) -> Array:
    """Returns the stored integers of dequantized weights, minus their zero point."""
    assert weights.data is not None and weights.quantization is not None
    scale = np.asarray(weights.quantization.scale, np.float32)
    if scale.size > 1:
        shape = [1] * weights.data.ndim
        shape[weights.quantization.axis] = scale.size
        scale = scale.reshape(shape)
    return np.asarray(np.round(weights.data / scale), np.int32)


def retyped(weights: Tensor, data: Array) -> Tensor:
    """Returns the weights' tensor with integers as its data."""
    return replace(weights, name=f"{weights.name}, whole", data=data, quantization=None)
