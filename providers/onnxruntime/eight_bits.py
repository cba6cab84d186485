"""Converts floats of 8 bits, whose bits the device holds as numbers."""

from __future__ import annotations

from tflgpu_plugin.ir import FLOAT8, WHOLE
from tflgpu_plugin.providers import COUNTED, Builder


def real(e: Builder, tensor: int) -> int:
    """Returns the float32 values of `tensor`, which holds floats of 8 bits."""
    held = FLOAT8[e.dtype(tensor)]
    return e.add(
        "from_float8", tensor, dtype="f32", mantissa=held.mantissa, bias=held.bias,
        greatest=held.greatest, infinite=float(held.infinite),
        unsigned_zero=float(held.unsigned_zero),
    )  # fmt: skip


def stored(e: Builder, tensor: int, kind: str, saturates: bool = True) -> int:
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
