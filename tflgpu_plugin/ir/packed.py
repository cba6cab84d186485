"""Integers of 4 and 2 bits, of which a byte holds several, the first in the lowest bits. Arrays
hold each in a byte of its own; on the device they are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
PACKED = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}  # bits by dtype


def signed(dtype: str) -> bool:
    """Whether numbers of this dtype may be negative."""
    return dtype.startswith("int")


def pack(numbers: Array, bits: int) -> Array:
    """Packs the low bits of numbers of 8 bits along the last axis; the last byte may have room."""
    each = 8 // bits
    room = [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % each)]
    parts = np.pad(numbers, room).view(np.uint8) & ((1 << bits) - 1)
    parts = parts.reshape(*parts.shape[:-1], -1, each) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray(np.bitwise_or.reduce(parts, axis=-1), np.uint8)


def unpack(packed: Array, bits: int, signed: bool) -> Array:
    """Unpacks bytes to several numbers each along the last axis."""
    parts = packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)
    found = parts.reshape(*packed.shape[:-1], -1)
    half = 1 << (bits - 1)
    return np.asarray((found.astype(np.int8) ^ half) - np.int8(half), np.int8) if signed else found
