"""Computes integers of 8 and 16 bits (without quantization) as int32; results wrap around when
they are stored, as in C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import BFLOAT16, NUMBERS, NUMPY_DTYPES, PACKED, SINGLE, WHOLE, asks
from tflgpu_plugin.providers import COUNTED, Builder, same_bits

from .host import DTYPES

TYPES = COUNTED
Row = Callable[[Builder], Any]


def also(row: Row) -> Row:
    """Returns the builder `row`, which supports int32, extended to integers of 8 and 16 bits."""

    def either(e: Builder) -> Any:
        held = {e.dtype(t) for t in e.inputs if t is not None} & {*COUNTED}
        if not held:
            return row(e)
        wide = [int32(e, t) if t is not None and e.dtype(t) in COUNTED else t for t in e.inputs]
        y = row(replace(e, inputs=wide))
        return stored(e, y, held.pop()) if e.dtype(y) == "i32" else y

    return either


def int32(e: Builder, tensor: int) -> int:
    """Returns the values of `tensor` as int32, truncated towards zero."""
    held = e.dtype(tensor)
    if held in COUNTED and e.constant(tensor) is not None:
        return e.derived(tensor, "int32", make=lambda data: data.astype(np.int32))
    return cast(e, e.numbers(tensor) if held in COUNTED else tensor, "i32")


def cast(e: Builder, tensor: int, dtype: str) -> int:
    """Returns the values of `tensor` as another type, integers exactly: a run is the host's where
    they are float64 beyond the integers of float32, in which they are computed."""
    if e.doubles and e.dtype(tensor) == SINGLE and dtype in WHOLE:
        return e.add("cast", tensor, dtype=dtype, exact=True)
    return e.add("cast", tensor, dtype=dtype)


def stored(e: Builder, y: int, dtype: str) -> int:
    """Returns the int32 tensor `y` as `dtype`, keeping its low bits."""
    if e.known(y) and dtype not in PACKED:
        kind = np.dtype(NUMPY_DTYPES[dtype])
        return e.derived(y, dtype, make=lambda data: data.astype(kind))
    bits = PACKED.get(dtype) or (8 if dtype.endswith("8") else 16)
    half, mask = (e.index([n]) for n in (1 << (bits - 1), (1 << bits) - 1))
    shifted = e.add("add", y, half) if dtype[0] == "i" else y
    kept = e.add("bitwise_and", shifted, mask)
    whole = e.add("sub", kept, half) if dtype[0] == "i" else kept
    shaped = e.reshape(whole, e.shape(y))
    numbers = e.add("cast", shaped, dtype="f32")
    if dtype in PACKED:
        return e.add("reshape", numbers, dtype=dtype, shape=e.shape(y))
    return e.add("quantize", numbers, dtype=dtype, quantization=NUMBERS)


def bit_cast(e: Builder) -> int:
    """Builds BitCast: reinterprets the bits of each number. bfloat16 is stored like uint16."""
    x, wanted = e.x(), DTYPES[e.integer("to")]
    if e.dtype(x) == BFLOAT16:
        x = _bits_as(e, x, "u16")
        e.hold(x, NUMBERS)
    if wanted == e.dtype(x):
        return x
    if wanted == BFLOAT16:
        return _bits_as(e, stored(e, int32(e, x), "u16"), BFLOAT16)
    return stored(e, int32(e, x), wanted)


def _bits_as(e: Builder, tensor: int, dtype: str) -> int:
    return e.add("reshape", tensor, dtype=dtype, shape=e.shape(tensor))


@asks("dtype.unsupported")
def as_wide(e: Builder) -> bool:
    """Requires a cast between int8 and uint8, among int16, uint16 and bfloat16, or from bool to 8
    bits."""
    dtypes = (e.dtype(), DTYPES.get(e.integer("to"), ""))
    held, wanted = ("u16" if dtype == BFLOAT16 else dtype for dtype in dtypes)
    return wanted in TYPES and same_bits(held, wanted)
