"""Quantized ONNX tensors: from stored numbers to the real values that they stand for, and
back.

A scale that is known beforehand becomes a tensor's quantization, and nothing is computed to get at
its values. Scales of a run, and several along an axis, become arithmetic on the numbers. Formulas
are those of QuantizeLinear-23 and DynamicQuantizeLinear-11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Array, Quantization, Shape, Tensor
from tflgpu_plugin.ir.quantization import COUNTS, EVEN, NUMBERS

from . import blocks
from .expansion import COUNTED, Expansion
from .host import DTYPES

U8 = 2  # among DTYPES


def parameters(scale: Array | None, zero: Array | None, axis: int = 0) -> Quantization | None:
    """The quantization by constant parameters; None when one of them is not known."""
    if scale is None or zero is None:
        return None
    scales = tuple(float(s) for s in scale.reshape(-1))
    zeros = tuple(int(z) for z in zero.reshape(-1))
    return Quantization(scales, zeros * (len(scales) // len(zeros)), axis, EVEN)


def _known(e: Expansion, scale: int, zero: int | None, axis: int = 0) -> Quantization | None:
    """The same of tensors; no zero point is one of 0."""
    zeros = np.zeros(1, np.int32) if zero is None else e.constant(zero)
    return parameters(e.constant(scale), zeros, axis)


def numbers(e: Expansion, tensor: int) -> int:
    """The stored numbers of an integer tensor, as float32."""
    if e.constant(tensor) is not None:
        return e.derived(tensor, "numbers", make=lambda data: data.astype(np.float32))
    if e.dtype(tensor) in COUNTS:
        return e.add("cast", tensor, dtype="f32")
    e.hold(tensor, NUMBERS)
    values, held = e.add("dequantize", tensor, dtype="f32"), e.tensors.table[tensor].quantization
    assert held is not None
    if (held.scale, held.zero_point) == ((1.0,), (0,)):
        return values
    whole = e.add("round", e.add("mul", values, 1 / held.scale[0]))
    return e.add("add", whole, float(held.zero_point[0]))


def spread_over(e: Expansion, parameter: int, rank: int, axis: int) -> int:
    """A parameter, one per index along the axis, in a shape that broadcasts to this rank."""
    shape = e.shape(parameter)
    if len(shape) > 1:
        return parameter
    wanted = () if shape in ((), (1,)) else (*shape, *(1,) * (rank - 1 - axis))
    return parameter if shape == wanted else e.reshape(parameter, wanted)


def _along(e: Expansion, scale: int, axis: int | None, rank: int) -> int:
    """The axis that several scales go along."""
    return e.axis(axis or 0, rank) if prod(e.shape(scale)) > 1 else 0


def real(e: Expansion, place: int, axis: int | None = None) -> int:
    """float32 values of the input at `place`; its scale and zero point are the two after it."""
    return dequantized(e, e.x(place), e.x(place + 1), e.get(place + 2), axis)


def dequantized(
    e: Expansion, tensor: int, scale: int, zero: int | None, axis: int | None = None
) -> int:
    """float32 values scale * (stored - zero) of a tensor; several scales go along the axis."""
    rank = e.rank(tensor)
    place = _along(e, scale, axis, rank)
    known = _known(e, scale, zero, place)
    counted = e.dtype(tensor) in COUNTED
    single = counted and known is not None and len(known.scale) == 1
    if known is not None and e.constant(tensor) is not None and e.rank(scale) < 2:
        if _fits(known, e.shape(tensor)):
            return real_constant(e, tensor, known)
    if single:
        assert known is not None
        held = e.hold(tensor, known)
        if (held.scale, held.zero_point) == (known.scale, known.zero_point):
            return e.add("dequantize", tensor, dtype="f32")
    values = numbers(e, tensor)
    if zero is not None:
        values = e.add("sub", values, spread_over(e, numbers(e, zero), rank, place))
    return e.add("mul", values, spread_over(e, scale, rank, place))


def real_constant(e: Expansion, tensor: int, known: Quantization) -> int:
    """The values of a constant with known parameters."""
    data = e.constant(tensor)
    assert data is not None
    key = ("dequantized", tensor, known)
    name = e.tensors.table[tensor].name
    values = e.tensors.constant(key, name, lambda: quantization.dequantize(data, known))
    e.tensors.table[values] = replace(e.tensors.table[values], quantization=known)
    return values


def _fits(known: Quantization, shape: Shape) -> bool:
    """One scale, or one for each element along the axis."""
    return len(known.scale) == 1 or shape[known.axis : known.axis + 1] == (len(known.scale),)


def stored(
    e: Expansion, values: int, scale: int, zero: int | None, dtype: str = "u8", axis: int = 0
) -> int:
    """float32 values as stored numbers: round(values / scale) + zero, saturating."""
    dtype = dtype if zero is None else e.dtype(zero)
    rank = e.rank(values)
    known = _known(e, scale, zero)
    if known is not None and len(known.scale) == 1:
        return e.add("quantize", values, dtype=dtype, quantization=known)
    place = _along(e, scale, axis, rank)
    whole = e.add("round", e.add("div", values, spread_over(e, scale, rank, place)))
    if zero is not None:
        whole = e.add("add", whole, spread_over(e, numbers(e, zero), rank, place))
    return e.add("quantize", whole, dtype=dtype, quantization=NUMBERS)


# ---- between the types ---------------------------------------------------------------------------


def _in_blocks(e: Expansion, zero: int | None) -> tuple[int, int | None]:
    """Scale and zero point (both float32) as one per element of the input."""
    block, shape = e.integer("block_size"), e.shape()
    axis = e.axis(e.integer("axis", 1), len(shape))
    scale = blocks.spread(e, e.x(1), axis, block, shape)
    return scale, zero if zero is None else blocks.spread(e, numbers(e, zero), axis, block, shape)


def quantize_linear(e: Expansion) -> int:
    """To 8 or 16 bits, as a whole, along an axis or in blocks."""
    dtype = DTYPES.get(e.integer("output_dtype") or U8, "")
    zero = e.get(2)
    if e.integer("block_size"):
        scale, start = _in_blocks(e, zero)
        whole = e.add("round", e.add("div", e.x(), scale))
        kind = dtype if zero is None else e.dtype(zero)
        return e.add("quantize", e.plus(whole, start), dtype=kind, quantization=NUMBERS)
    return stored(e, e.x(), e.x(1), zero, dtype, e.integer("axis", 1))


def dequantize_linear(e: Expansion) -> int:
    """From 8 or 16 bits, as a whole, along an axis or in blocks; a constant also from 32."""
    if e.integer("block_size"):
        scale, zero = _in_blocks(e, e.get(2))
        values = numbers(e, e.x())
        values = values if zero is None else e.add("sub", values, zero)
        return e.add("mul", values, scale)
    return real(e, 0, e.integer("axis", 1))


def known_values(
    inputs: Sequence[Tensor | None], axis: int, name: str, block: int = 0
) -> Tensor | None:
    """The result of a DequantizeLinear of constants, which keeps its quantization unless that is of
    blocks; None when it is not known."""
    data, scale, zero = (*inputs, None, None)[:3]
    if data is None or scale is None or data.data is None or scale.dtype != "f32":
        return None
    zeros = np.zeros(1, np.int32) if zero is None else zero.data
    axis += data.data.ndim if axis < 0 else 0
    if block:
        return _known_blocks(data.data, scale.data, zeros, axis, block, name)
    found = parameters(scale.data, zeros, axis)
    if found is None or len(scale.shape) > 1 or not _fits(found, data.data.shape):
        return None
    values = quantization.dequantize(data.data, found)
    return Tensor(name, values.shape, "f32", values, found)


def _known_blocks(
    data: Array, scale: Array | None, zeros: Array | None, axis: int, block: int, name: str
) -> Tensor | None:
    if scale is None or zeros is None or not 0 <= axis < data.ndim or block < 1:
        return None
    wanted = blocks.counts(axis, block, data.shape)
    if scale.shape != wanted or (zeros.ndim == data.ndim and zeros.shape != wanted):
        return None
    shift = zeros if zeros.ndim < data.ndim else blocks.repeated(zeros, axis, block, data.shape)
    whole = data.astype(np.int64) - shift
    values = whole.astype(np.float32) * blocks.repeated(scale, axis, block, data.shape)
    return Tensor(name, values.shape, "f32", values)


def dynamic_quantize(e: Expansion) -> list[int]:
    """To uint8 by the range of the values themselves, zero among them."""
    x = e.x()
    axes = e.index(range(e.rank(x)))
    low = e.add("minimum", e.add("reduce_min", x, axes, keep_dims=False), 0.0)
    high = e.add("maximum", e.add("reduce_max", x, axes, keep_dims=False), 0.0)
    width = e.add("mul", e.add("sub", high, low), 1 / 255)
    flat = e.add("equal", width, 0.0, dtype="bool")
    scale = e.add("where", flat, 1.0, width, dtype="f32")
    zero = e.add("round", e.add("div", e.add("neg", low), scale))
    whole = e.add("add", e.add("round", e.add("div", x, scale)), zero)
    y, z = (e.add("quantize", value, dtype="u8", quantization=NUMBERS) for value in (whole, zero))
    return [y, scale, z]
