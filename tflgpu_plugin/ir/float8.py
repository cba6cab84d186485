"""Floats of 8 bits, which numpy lacks: arrays hold the bits as uint8. On the device, too, tensors
hold the bits, as numbers from 0 to 255."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SIGN, MAGNITUDE = 0x80, 0x7F


class Float8(NamedTuple):
    """A type: the bits of the mantissa, the bias of the exponent, and the greatest finite magnitude
    (as bits). With `infinite` the next one is infinity, and others are NaN. `unsigned_zero`: there
    is no negative zero, whose bits are the only NaN."""

    mantissa: int
    bias: int
    greatest: int
    infinite: bool = False
    unsigned_zero: bool = False

    @property
    def not_number(self) -> int:
        """Returns the bits of the NaN that conversions write."""
        return SIGN if self.unsigned_zero else MAGNITUDE

    def above(self, saturates: bool) -> int:
        """Returns the magnitude that stands for greater numbers."""
        beyond = self.greatest + 1 if self.infinite else self.not_number
        return self.greatest if saturates else beyond


FLOAT8: dict[str, Float8] = {
    "f8e4m3fn": Float8(3, 7, 0x7E),
    "f8e4m3fnuz": Float8(3, 8, 0x7F, unsigned_zero=True),
    "f8e5m2": Float8(2, 15, 0x7B, infinite=True),
    "f8e5m2fnuz": Float8(2, 16, 0x7F, unsigned_zero=True),
}


def bits(numbers: npt.NDArray[np.float32], kind: str, saturates: bool) -> npt.NDArray[np.uint8]:
    """Returns the bits of the nearest numbers of the type `kind`, ties to even. Larger numbers
    become the greatest finite one if this `saturates`, else infinity, or NaN where there is
    none."""
    held = FLOAT8[kind]
    mantissa, bias, nan = held.mantissa, held.bias, held.not_number
    wide = np.asarray(numbers, np.float32).view(np.uint32).astype(np.int64)
    sign, wide = (wide >> 24) & SIGN, wide & 0x7FFFFFFF
    exponent = wide >> 23
    # Below the least normal number the mantissa loses a bit for each step of the exponent.
    least = 128 - bias
    lost = 23 - mantissa + np.clip(least - exponent, 0, 24)
    whole = np.where(exponent < least, (wide & 0x7FFFFF) | 0x800000, wide)
    near = (whole + (np.int64(1) << (lost - 1)) - 1 + ((whole >> lost) & 1)) >> lost
    near = np.where(exponent < least, near, near - ((least - 1) << mantissa))
    near = np.where(near > held.greatest, held.above(saturates), near)
    found = np.where(wide > 0x7F800000, nan, near).astype(np.int64)
    bare = (found == 0) | (found == SIGN)
    return np.asarray(np.where(bare & held.unsigned_zero, found, found | sign), np.uint8)


def values(bits: npt.NDArray[np.uint8], kind: str) -> npt.NDArray[np.float32]:
    """Returns the exact float32 values of bits of the type `kind`."""
    return _table(kind)[bits]


@cache
def _table(kind: str) -> npt.NDArray[np.float32]:
    held = FLOAT8[kind]
    each = np.arange(256)
    magnitude, negative = each & MAGNITUDE, each >= SIGN
    exponent, fraction = magnitude >> held.mantissa, magnitude & ((1 << held.mantissa) - 1)
    whole = np.where(exponent > 0, fraction + (1 << held.mantissa), fraction)
    found = np.ldexp(whole.astype(np.float32), np.maximum(exponent, 1) - held.bias - held.mantissa)
    if held.infinite:
        found = np.where(magnitude == held.greatest + 1, np.inf, found)
    beyond = held.greatest + held.infinite
    nan = (each == SIGN) if held.unsigned_zero else magnitude > beyond
    found = np.where(negative, -found, found)
    return np.asarray(np.where(nan, np.nan, found), np.float32)
