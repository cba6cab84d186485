"""Affine quantization: the scales, levels and factors that passes, ops and the conversion of inputs
and outputs need.

On the device a quantized tensor holds float32 values, scale * (stored - zero point); integers of 8
and 16 bits exist only in inputs and outputs. Plain integers of these types have the quantization
`NUMBERS`; plain int32, int64, uint32 and uint64 tensors (`is_integer`) are int32 on the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Quantization, Shape, Tensor

STORED = ("i8", "u8")
INT16 = "i16"  # in TFLite a real number, with the zero point 0
WIDER = ("i16", "u16", "i32", "i64")  # real numbers with the rounding EVEN, else plain integers
EXACT_INTEGERS = 1 << 24  # float32 has every integer up to here
COUNTS = ("i32", "i64")  # plain integers, such as indices
UNSIGNED = ("u32", "u64")  # plain integers without a sign
WHOLE = (*COUNTS, *UNSIGNED)  # plain integers: int32 on the device
INT32 = np.iinfo(np.int32)  # the range of integers on the device
EVEN = "even"
NUMBERS = Quantization((1.0,), (0,), rounding=EVEN)
FACTOR_UNIT = 1 << 15  # splits a 31-bit fraction in two parts, which float32 holds exactly
ONE, MIN_SHIFT = 1 << 31, -31  # of factors in fixed point: the number 1, and the least exponent
# Scales with a smaller relative difference give the same levels: 255 steps differ by 0.03, and so
# do 65,535 steps of int16.
ALIKE, ALIKE_INT16 = 1e-4, 4e-7


class Levels(NamedTuple):
    """The quantization levels of a tensor: scale * n for integers n in [least, most]."""

    scale: float
    least: float
    most: float


def quantized(tensor: Tensor) -> bool:
    """Whether the host stores the tensor as integers of 8 or 16 bits that represent real numbers
    (of 16 bits, without the rounding EVEN)."""
    return tensor.quantization is not None and (tensor.dtype in STORED or is_int16(tensor))


def on_levels(tensor: Tensor) -> bool:
    """Whether the tensor is `quantized`, or is a constant that was so before it became float32."""
    held = tensor.quantization
    return quantized(tensor) or (
        tensor.data is not None and held is not None and len(held.scale) == 1
    )


def is_int16(tensor: Tensor) -> bool:
    """Whether the host stores quantized int16, with which it computes in fixed point."""
    return tensor.dtype == INT16 and tensor.quantization is not None and not even(tensor)


def real(tensor: Tensor) -> bool:
    """Whether the host stores integers, and the device the real numbers that they represent."""
    return quantized(tensor) or (tensor.dtype in WIDER and even(tensor))


def is_integer(tensor: Tensor) -> bool:
    """Whether the tensor holds plain integers, which are int32 on the device."""
    return tensor.dtype in WHOLE and not even(tensor)


def even(tensor: Tensor) -> bool:
    """Whether hosts round ties to even when they quantize values to this tensor's type."""
    return tensor.quantization is not None and tensor.quantization.rounding == EVEN


def parameters(tensor: Tensor) -> tuple[float, float]:
    """Returns (scale, zero point) of a tensor quantized per tensor; plain integers have (1, 0).
    Raises ValueError for one quantized per channel."""
    if tensor.quantization is None:
        return 1.0, 0.0
    scale, zero_point = tensor.quantization.scale, tensor.quantization.zero_point
    if len(scale) != 1:
        raise ValueError(f"tensor {tensor.name!r} is quantized per channel")
    return float(scale[0]), float(zero_point[0])


def scales(tensors: Iterable[Tensor | None]) -> list[np.float32] | None:
    """Returns the scales of all of these tensors; None unless each is quantized per tensor."""
    found = []
    for tensor in tensors:
        given = None if tensor is None else tensor.quantization
        if given is None or len(given.scale) != 1:
            return None
        found.append(np.float32(given.scale[0]))
    return found


def initial(tensor: Tensor, shape: Sequence[int]) -> Array:
    """Returns an array of `shape` in the host's dtype that holds what a variable of TFLite has
    before its first run: zeros, and the zero point where it is int8."""
    zero = parameters(tensor)[1] if tensor.dtype == "i8" else 0
    return np.full(shape, zero, NUMPY_DTYPES[tensor.dtype])


def levels(tensor: Tensor) -> Levels:
    """Returns the levels of a tensor of 8 or 16 bits that is quantized per tensor."""
    scale, zero = parameters(tensor)
    limits = np.iinfo(NUMPY_DTYPES[tensor.dtype])
    return Levels(scale, limits.min - zero, limits.max - zero)


def alike(a: Tensor, b: Tensor) -> bool:
    """Whether equal stored numbers of two tensors represent equal values. A constant that was
    dequantized to float32 has kept its quantization."""
    if a.quantization is None or b.quantization is None:
        return False
    if a.dtype != b.dtype and "f32" not in (a.dtype, b.dtype):
        return False
    if len(a.quantization.scale) != 1 or len(b.quantization.scale) != 1:
        return False
    (scale, zero), (other, other_zero) = parameters(a), parameters(b)
    limit = ALIKE_INT16 if is_int16(a) or is_int16(b) else ALIKE
    return zero == other_zero and abs(scale - other) <= limit * max(scale, other)


def nearest(value: float, scale: float) -> float:
    """Returns the integer nearest to value / scale, ties away from zero, divided in float32 as
    hosts do for the limits of fused activations."""
    if math.isinf(value):
        return value
    steps = float(np.float32(value) / np.float32(scale))
    return math.copysign(math.floor(abs(steps) + 0.5), steps)


def fraction(multiplier: float) -> float:
    """Returns 2 to the power of the right shift with which hosts multiply an integer by this factor
    in fixed point (`MultiplyByQuantizedMultiplier` of tensorflow/lite/kernels/internal/common.h):
    before the shift they round to multiples of 1 / this number."""
    mantissa, exponent = math.frexp(multiplier)
    if round(mantissa * 2**31) == 2**31:
        exponent += 1
    return 2.0 ** max(0, -exponent)


def dequantize(data: Array, quantization: Quantization) -> Array:
    """Returns the float32 values scale * (data - zero point) of a constant, with several scales
    one per index along the axis."""
    scale = along(quantization.scale, quantization.axis, data.ndim).astype(np.float32)
    zero = along(quantization.zero_point, quantization.axis, data.ndim).astype(np.float32)
    return np.asarray((data.astype(np.float32) - zero) * scale, np.float32)


def along(numbers: Sequence[float], axis: int, rank: int) -> Array:
    """Returns `numbers`, one or one per index along `axis`, as an array that broadcasts over a
    tensor of this rank."""
    if len(numbers) == 1:
        return np.asarray(numbers[0])
    shape = [1] * rank
    shape[axis] = len(numbers)
    return np.reshape(numbers, shape)


def moved(
    given: Quantization | None, shape: Shape, move: Callable[[Array], Array]
) -> Quantization | None:
    """Returns the quantization of a tensor of this shape after `move` has put its elements at other
    positions; None where no single axis separates their scales."""
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
    """Returns the 31-bit fractions and the exponents of two of all factors, as `QuantizeMultiplier`
    of tensorflow/lite/kernels/internal/quantization_util.cc computes them."""
    parts, shifts = np.frexp(np.asarray(factors, np.float64).reshape(-1))
    fractions = np.floor(parts * ONE + 0.5)
    full = fractions == ONE
    fractions, shifts = np.where(full, ONE / 2, fractions), shifts.astype(np.int64) + full
    tiny = shifts < MIN_SHIFT
    return np.where(tiny, 0, fractions), np.where(tiny, 0, shifts)
