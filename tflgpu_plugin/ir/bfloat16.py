"""Conversion of bfloat16, the upper half of a float32. numpy has no such type: arrays hold the 16
bits as uint16.

On the device, too, tensors hold the bits as numbers from 0 to 65535, which every device moves
unchanged. As floats they might change: subnormals may become zero, and a NaN another NaN."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BFLOAT16 = "bf16"  # the dtype of its bits
QUIET = 0x7FC0  # NaN, without the sign


def bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Returns the bits of the nearest bfloat16 numbers, ties to even. Every NaN becomes the quiet
    NaN of its sign, as in hosts."""
    wide = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    near = (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16
    nan = ((wide >> 16) & 0x8000) | QUIET
    return np.asarray(np.where(np.isnan(values), nan, near), np.uint16)


def values(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Returns the exact float32 values of bfloat16 bits."""
    return np.asarray(np.asarray(bits, np.uint32) << 16, np.uint32).view(np.float32)
