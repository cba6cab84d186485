"""Builds QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: conversions between stored
integers and the real values that they represent.

A constant scale becomes the quantization of the tensor, without any computation. Scales that are
not constant, and scales per axis, become arithmetic on the stored integers. Formulas are those of
QuantizeLinear-23 and DynamicQuantizeLinear-11."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin.ir import (
    DOUBLE,
    EVEN,
    FLOAT8,
    NARROW,
    NUMBERS,
    PACKED,
    SINGLE,
    Array,
    Quantization,
    Shape,
    quantization,
)
from tflgpu_plugin.providers import COUNTED, Builder

from . import blockwise, narrow
from .host import DTYPES

U8 = 2  # the number of uint8 in DTYPES


def _known(e: Builder, scale: int, zero: int | None, axis: int = 0) -> Quantization | None:
    """Returns the quantization with these parameters; None if one is not constant or has a rank
    above 1. `axis` is that of several scales. An absent zero point is 0."""
    factors, shifts = e.constant(scale), np.zeros(1) if zero is None else e.constant(zero)
    if e.rank(scale) > 1 or factors is None or shifts is None:
        return None
    scales = tuple(float(s) for s in factors.reshape(-1))
    zeros = tuple(int(z) for z in shifts.reshape(-1))
    return Quantization(scales, zeros * (len(scales) // len(zeros)), axis, EVEN)


def spread_over(e: Builder, parameter: int, rank: int, axis: int) -> int:
    """Returns `parameter`, a scale or zero point per tensor or per index of `axis`, in a shape that
    broadcasts to tensors of `rank`."""
    shape = e.shape(parameter)
    if len(shape) > 1:
        return parameter
    wanted = () if shape in ((), (1,)) else (*shape, *(1,) * (rank - 1 - axis))
    return parameter if shape == wanted else e.reshape(parameter, wanted)


def _along(e: Builder, scale: int, axis: int | None, rank: int) -> int:
    """Returns `axis` as a number from 0 on if there are several scales, else 0."""
    return e.axis(axis or 0, rank) if prod(e.shape(scale)) != 1 else 0


def real(e: Builder, position: int, axis: int | None = None) -> int:
    """Returns input `position` dequantized to float32; the next inputs are scale and zero point."""
    return dequantized(e, e.x(position), e.x(position + 1), e.get(position + 2), axis)


def dequantized(
    e: Builder, tensor: int, scale: int, zero: int | None, axis: int | None = None
) -> int:
    """Returns scale * (tensor - zero) in float32, with scales per tensor or along `axis`."""
    rank = e.rank(tensor)
    along = _along(e, scale, axis, rank)
    known = _known(e, scale, zero, along)
    if known is not None and e.constant(tensor) is not None and _fits(known, e.shape(tensor)):
        return real_constant(e, tensor, known)
    if known is not None and len(known.scale) == 1 and e.dtype(tensor) in COUNTED:
        held = e.hold(tensor, known)
        if (held.scale, held.zero_point) == (known.scale, known.zero_point):
            return e.add("dequantize", tensor, dtype="f32")
    values = e.numbers(tensor)
    if zero is not None:
        values = e.add("sub", values, spread_over(e, e.numbers(zero), rank, along))
    return e.add("mul", values, spread_over(e, scale, rank, along))


def real_constant(e: Builder, tensor: int, known: Quantization) -> int:
    """Returns the dequantized values of the constant `tensor`, as a constant with quantization."""
    data = e.constant(tensor)
    assert data is not None
    key = ("dequantized", tensor, known)
    name = e.tensors.table[tensor].name
    values = e.tensors.constant(key, name, lambda: quantization.dequantize(data, known))
    e.tensors.table[values] = replace(e.tensors.table[values], quantization=known)
    return values


def _fits(known: Quantization, shape: Shape) -> bool:
    """Whether the quantization has one scale, or one for each index along its axis in `shape`."""
    return len(known.scale) == 1 or shape[known.axis : known.axis + 1] == (len(known.scale),)


def stored(
    e: Builder, values: int, scale: int, zero: int | None, dtype: str = "u8", axis: int = 0
) -> int:
    """Returns float32 `values` quantized to `dtype` (to that of the zero point, if there is one):
    round(values / scale) + zero, saturated."""
    dtype = dtype if zero is None or e.dtype(zero) == "f32" else e.dtype(zero)
    known = _known(e, scale, zero)
    if known is not None and len(known.scale) == 1:
        return e.add("quantize", values, dtype=dtype, quantization=known)
    return e.add(
        "quantize", quantized(e, values, scale, zero, axis), dtype=dtype, quantization=NUMBERS
    )


def quantized(e: Builder, values: int, scale: int, zero: int | None, axis: int) -> int:
    """Returns float32 `values` as round(values / scale) + zero, which stay float32."""
    rank = e.rank(values)
    along = _along(e, scale, axis, rank)
    whole = e.add("round", e.add("div", values, spread_over(e, scale, rank, along)))
    if zero is None:
        return whole
    return e.add("add", whole, spread_over(e, e.numbers(zero), rank, along))


# ---- between the types ---------------------------------------------------------------------------


def named(e: Builder, attribute: str) -> str:
    """Returns the type whose number is an attribute of the node, as kernels compute it."""
    number = e.integer(attribute)
    found = DTYPES.get(number, f"element type {number}")
    return SINGLE if e.doubles and found == DOUBLE else found


def made_type(e: Builder) -> str:
    """Returns the type of the result of QuantizeLinear. Constant zero points of 4 and 2 bits have 8
    bits here."""
    if e.results[0].dtype in PACKED:
        return e.results[0].dtype
    return e.dtype(e.x(2)) if e.has(2) else DTYPES.get(e.integer("output_dtype") or U8, "")


def _parameters(e: Builder) -> tuple[int, int | None]:
    """Returns (scale, zero point); with block_size repeated to one per element of the input. Floats
    of 8 bits are quantized without a zero point, whatever it is."""
    scale, zero, block, shape = e.x(1), e.get(2), e.integer("block_size"), e.shape()
    if zero is not None and e.dtype(zero) in NARROW:
        unused = e.dtype(zero) in FLOAT8 and e.dtype() not in FLOAT8
        zero = None if unused else narrow.real(e, zero)
    if not block:
        return scale, zero
    axis = e.axis(e.integer("axis", 1), len(shape))
    scale = blockwise.spread(e, scale, axis, block, shape)
    return scale, zero if zero is None else blockwise.spread(e, e.numbers(zero), axis, block, shape)


def quantize_linear(e: Builder) -> int:
    """Builds QuantizeLinear to 8 or 16 bits, per tensor, per axis or in blocks."""
    scale, zero = _parameters(e)
    dtype = made_type(e)
    if dtype in PACKED:
        return narrow.nearest(e, quantized(e, e.x(), scale, zero, e.integer("axis", 1)), dtype)
    if dtype in FLOAT8:
        along = _along(e, scale, e.integer("axis", 1), e.rank())
        units = e.add("div", e.x(), spread_over(e, scale, e.rank(), along))
        return narrow.stored_float(e, units, dtype, saturates=bool(e.integer("saturate", 1)))
    return stored(e, e.x(), scale, zero, dtype, e.integer("axis", 1))


def _real_numbers(e: Builder, scale: int, zero: int | None) -> int:
    """Returns scale * (input - zero point) of types that numpy lacks."""
    along = _along(e, scale, e.integer("axis", 1), e.rank())
    values = narrow.real(e, e.x())
    if zero is not None:
        values = e.add("sub", values, spread_over(e, e.numbers(zero), e.rank(), along))
    return e.add("mul", values, spread_over(e, scale, e.rank(), along))


def dequantize_linear(e: Builder) -> int:
    """Builds DequantizeLinear from 8 or 16 bits, per tensor, per axis or in blocks. Constants may
    also have 32 bits, and become constants."""
    scale, zero = _parameters(e)
    if e.dtype() in NARROW:
        return _real_numbers(e, scale, zero)
    if not e.integer("block_size") or not e.known(e.x(), scale, zero):
        return dequantized(e, e.x(), scale, zero, e.integer("axis", 1))
    factors, shift = e.constant(scale), np.zeros(1) if zero is None else e.constant(zero)
    assert factors is not None and shift is not None

    def values(data: Array) -> Array:
        return np.asarray((data - shift.astype(np.int64)).astype(np.float32) * factors)

    return e.derived(e.x(), scale, zero, make=values)


def dynamic_quantize(e: Builder) -> list[int]:
    """Builds DynamicQuantizeLinear: quantizes to uint8 over the range of the values, extended to
    include 0. Returns [quantized values, scale, zero point]."""
    x = e.x()
    axes = e.index(range(e.rank(x)))
    low = e.add("minimum", e.add("reduce_min", x, axes, keep_dims=False), 0.0)
    high = e.add("maximum", e.add("reduce_max", x, axes, keep_dims=False), 0.0)
    width = e.add("div", e.add("sub", high, low), 255.0)
    flat = e.add("equal", width, 0.0, dtype="bool")
    scale = e.add("where", flat, 1.0, width, dtype="f32")
    zero = e.add("round", e.add("div", e.add("neg", low), scale))
    whole = e.add("add", e.add("round", e.add("div", x, scale)), zero)
    y, z = (e.add("quantize", value, dtype="u8", quantization=NUMBERS) for value in (whole, zero))
    return [y, scale, z]
