"""Affine quantization: the numbers that I/O layout conversion, passes and ops need.

On the device a quantized tensor holds real values, scale * n with n = stored - zero
point, as float32; 8-bit integers exist only in inputs and outputs. Plain ones of 8 and 16 bits have
the quantization `NUMBERS`; plain int32 and int64 tensors (`whole`) hold int32 on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Quantization, Shape, Tensor

STORED = ("i8", "u8")
WIDER = ("i16", "u16", "i32", "i64")  # where the host says how it rounds
COUNTS = ("i32", "i64")  # plain whole numbers, such as indices
INT32 = np.iinfo(np.int32)  # what the device holds of them
EVEN = "even"
NUMBERS = Quantization((1.0,), (0,), rounding=EVEN)
FACTOR_UNIT = 1 << 15  # of the low part of a fraction, so that float32 holds both parts exactly
ONE, LEAST_SHIFT = 1 << 31, -31  # of factors in fixed point
ALIKE = 1e-4  # scales nearer than this (relative) number the same levels: 255 steps end within 0.03


class Levels(NamedTuple):
    """The quantization levels of a tensor: scale * n for whole n in [least, most]."""

    scale: float
    least: float
    most: float


def quantized(tensor: Tensor) -> bool:
    """The tensor is stored in 8 bits and stands for real numbers."""
    return tensor.dtype in STORED and tensor.quantization is not None


def real(tensor: Tensor) -> bool:
    """The tensor holds integers, and on the device the real numbers that they stand for."""
    return quantized(tensor) or (tensor.dtype in WIDER and even(tensor))


def whole(tensor: Tensor) -> bool:
    """The tensor holds whole numbers, on the device as int32."""
    return tensor.dtype in COUNTS and not even(tensor)


def even(tensor: Tensor) -> bool:
    """Hosts round to the even neighbour where they come to this tensor's levels."""
    return tensor.quantization is not None and tensor.quantization.rounding == EVEN


def parameters(tensor: Tensor) -> tuple[float, float]:
    """(scale, zero point) of a tensor quantized as a whole; plain integers have (1, 0). Raises
    ValueError for one quantized per channel.
    """
    if tensor.quantization is None:
        return 1.0, 0.0
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    if len(scale) != 1:
        raise ValueError(f"tensor {tensor.name!r} is quantized per channel")
    return float(scale[0]), float(zero_point[0])


def scales(tensors: Iterable[Tensor | None]) -> list[np.float32] | None:
    """Of all of these; None unless each is quantized as a whole."""
    found = []
    for tensor in tensors:
        given = None if tensor is None else tensor.quantization
        if given is None or len(given.scale) != 1:
            return None
        found.append(np.float32(given.scale[0]))
    return found


def levels(tensor: Tensor) -> Levels:
    """The levels of an 8-bit tensor that is quantized as a whole."""
    scale, zero = parameters(tensor)
    limits = np.iinfo(NUMPY_DTYPES[tensor.dtype])
    return Levels(scale, limits.min - zero, limits.max - zero)


def alike(a: Tensor, b: Tensor) -> bool:
    """Equal stored numbers of both stand for equal values (a constant in float32 keeps the
    quantization that it had).
    """
    if a.quantization is None or b.quantization is None:
        return False
    if a.dtype != b.dtype and "f32" not in (a.dtype, b.dtype):
        return False
    if len(a.quantization.scale) != 1 or len(b.quantization.scale) != 1:
        return False
    (scale, zero), (other, other_zero) = parameters(a), parameters(b)
    return zero == other_zero and abs(scale - other) <= ALIKE * max(scale, other)


def nearest(value: float, scale: float) -> float:
    """The level that is nearest to a value, halves away from zero, in float32 as hosts
    find the limits of fused activations.
    """
    if math.isinf(value):
        return value
    steps = float(np.float32(value) / np.float32(scale))
    return math.copysign(math.floor(abs(steps) + 0.5), steps)


def fraction(multiplier: float) -> float:
    """The number of parts of one step to which hosts round first when they multiply a whole number
    by this factor in fixed point (`MultiplyByQuantizedMultiplier` of tensorflow/lite/kernels/
    internal/common.h): 2 to the right shift that follows the multiplication.
    """
    mantissa, exponent = math.frexp(multiplier)
    if round(mantissa * 2**31) == 2**31:
        exponent += 1
    return 2.0 ** max(0, -exponent)


def dequantize(data: Array, quantization: Quantization) -> Array:
    """float32 values of a constant: scale * (data - zero point), by the index along the axis where
    there are several scales.
    """
    scale = along(quantization.scale, quantization.axis, data.ndim).astype(np.float32)
    zero = along(quantization.zero_point, quantization.axis, data.ndim).astype(np.float32)
    return np.asarray((data.astype(np.float32) - zero) * scale, np.float32)


def along(numbers: Sequence[float], axis: int, rank: int) -> Array:
    """One number, or one for each index along an axis, to be spread over a tensor of this rank."""
    if len(numbers) == 1:
        return np.asarray(numbers[0])
    shape = [1] * rank
    shape[axis] = len(numbers)
    return np.reshape(numbers, shape)


def moved(
    given: Quantization | None, shape: Shape, move: Callable[[Array], Array]
) -> Quantization | None:
    """What a tensor of this shape has as its quantization when its elements are at other places,
    where `move` puts them. None where no single axis tells their scales apart."""
    if given is None or len(given.scale) == 1:
        return given
    numbers = along(range(len(given.scale)), given.axis, len(shape)).astype(np.int32)
    found = move(np.broadcast_to(numbers, shape))
    for axis in range(found.ndim):
        first = np.moveaxis(found, axis, 0).reshape(found.shape[axis], -1)
        if found.size and np.all(first == first[:, :1]):
            listed = [int(n) for n in first[:, 0]]
            scale = tuple(given.scale[n] for n in listed)
            zero_point = tuple(given.zero_point[n] for n in listed)
            return replace(given, scale=scale, zero_point=zero_point, axis=axis)
    return None


def fixed_point(factors: Array) -> tuple[Array, Array]:
    """(31-bit fraction, power of two) of each factor, as `QuantizeMultiplier` of
    tensorflow/lite/kernels/internal/quantization_util.cc.
    """
    pairs = [math.frexp(factor) for factor in np.asarray(factors, np.float64).reshape(-1)]
    fractions = np.array([np.floor(fraction * ONE + 0.5) for fraction, _ in pairs])
    shifts = np.array([shift for _, shift in pairs])
    full = fractions == ONE
    fractions, shifts = np.where(full, ONE / 2, fractions), shifts + full
    tiny = shifts < LEAST_SHIFT
    return np.where(tiny, 0, fractions), np.where(tiny, 0, shifts)
