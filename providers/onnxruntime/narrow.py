"""Converts types that numpy lacks: floats of 8 bits, whose bits the device holds as numbers, and
integers of 4 and 2 bits, which are numbers there."""

from __future__ import annotations

from tflgpu_plugin.ir import FLOAT8, PACKED, WHOLE, packed
from tflgpu_plugin.providers import COUNTED, Builder

from .narrow_integers import int32, stored


def real(e: Builder, tensor: int) -> int:
    """Returns the float32 values of `tensor`."""
    kind = e.dtype(tensor)
    if kind in PACKED:
        return e.add("reshape", tensor, dtype="f32", shape=e.shape(tensor))
    held = FLOAT8[kind]
    return e.add(
        "from_float8", tensor, dtype="f32", mantissa=held.mantissa, bias=held.bias,
        greatest=held.greatest, infinite=float(held.infinite),
        unsigned_zero=float(held.unsigned_zero),
    )  # fmt: skip


def stored_float(e: Builder, tensor: int, kind: str, saturates: bool = True) -> int:
    """Returns the numbers of `tensor` as floats of 8 bits of this kind. What is too large becomes
    the greatest number if this `saturates`, else infinity, or NaN where there is none."""
    if e.dtype(tensor) in (*WHOLE, *COUNTED):
        tensor = e.numbers(tensor)
    elif e.dtype(tensor) not in ("f32", "bool"):
        tensor = e.add("cast", tensor, dtype="f32")
    held = FLOAT8[kind]
    return e.add(
        "to_float8", tensor, dtype=kind, mantissa=held.mantissa, bias=held.bias,
        greatest=held.greatest, above=held.above(saturates), not_number=held.not_number,
    )  # fmt: skip


def low_bits(e: Builder, tensor: int, kind: str) -> int:
    """Returns the numbers of `tensor` in a few bits; higher bits are dropped, and floats rounded to
    the nearest, halves away from zero."""
    if e.dtype(tensor) not in (*WHOLE, *COUNTED, "bool"):
        x = tensor if e.dtype(tensor) == "f32" else e.add("cast", tensor, dtype="f32")
        size = e.add("abs", x)
        even = e.add("round", size)
        rest = e.add("sub", size, even)
        up = e.add("relu", e.add("floor", e.add("add", rest, rest)))  # 1 where that went down
        tensor = e.add("mul", e.add("add", even, up), e.add("sign", x))
    return stored(e, int32(e, tensor), kind)


def nearest(e: Builder, whole: int, kind: str) -> int:
    """Returns integers, which are float32, in a few bits; larger ones are clamped."""
    bits = PACKED[kind]
    least = -(1 << bits - 1) if packed.signed(kind) else 0
    kept = e.add("clip", whole, low=float(least), high=float(least + (1 << bits) - 1))
    return e.add("reshape", kept, dtype=kind, shape=e.shape(whole))
