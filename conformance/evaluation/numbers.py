"""The values of a graph's tensors: floats and quantized tensors as float64, integers as int64, bool
as bool, bfloat16 as its bits. Quantized values are rounded only on request, so that an answer moves
as little as its inputs do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tflgpu_plugin.ir import BFLOAT16, COMPLEX, Array, Tensor, quantization

SMALL = ("i8", "u8", "i16", "u16")


@dataclass
class Rounding:
    """Whether steps of quantization round; see `rounding`."""

    on: bool = False


_rounding = Rounding()


@contextmanager
def rounding(on: bool) -> Iterator[None]:
    """Determines, while the context is entered, whether results are rounded to their levels or only
    clamped to the range of these."""
    before, _rounding.on = _rounding.on, on
    try:
        yield
    finally:
        _rounding.on = before


def away(x: Array) -> Array:
    """Rounds to the nearest integer, halves away from zero."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x) if _rounding.on else x


def up(x: Array) -> Array:
    """Rounds to the nearest integer, halves toward positive infinity."""
    return np.floor(x + 0.5) if _rounding.on else x


def even(x: Array) -> Array:
    """Rounds to the nearest integer, halves to even."""
    return np.rint(x) if _rounding.on else x


def is_real(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor are real numbers for the device: it is quantized, or holds
    small plain integers, which are floats there."""
    return quantization.real(tensor) or tensor.dtype in SMALL


def levels(tensor: Tensor) -> quantization.Levels | None:
    """Returns the quantization levels of a tensor that holds one of them in each element."""
    held = tensor.quantization
    if not quantization.real(tensor) or held is None or len(held.scale) != 1:
        return None
    return quantization.levels(tensor)


def on_levels(value: Array, tensor: Tensor) -> Array:
    """Returns the value rounded to the tensor's quantized levels, or to its type if it has none."""
    found = levels(tensor)
    if found is None:
        return typed(value, tensor)
    nearest = even if quantization.even(tensor) else away
    return np.clip(nearest(value / found.scale), found.least, found.most) * found.scale


def of_data(tensor: Tensor) -> Array:
    """Returns the value of a constant."""
    data = tensor.data
    assert data is not None
    if is_real(tensor) and tensor.quantization is not None and data.dtype.kind in "iu":
        return quantization.dequantize(data, tensor.quantization).astype(np.float64)
    if tensor.dtype == COMPLEX:
        return np.asarray(data, np.complex128)
    if data.dtype.kind in "iu" and tensor.dtype != "bool":  # whole weights are of floats, too
        return data.astype(np.int64)
    return typed(data, tensor)


def typed(value: Array, tensor: Tensor) -> Array:
    """Returns an array in the type that represents that of the tensor."""
    if np.iscomplexobj(value):
        return value
    if tensor.dtype == "bool":
        return np.not_equal(value, 0)
    if tensor.dtype == BFLOAT16 or (quantization.is_integer(tensor) and not is_real(tensor)):
        with np.errstate(invalid="ignore"):
            return np.asarray(value).astype(np.int64)
    return np.asarray(value, np.float64)
