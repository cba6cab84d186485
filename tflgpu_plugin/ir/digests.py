"""Digests of arrays, which identify equal constants in plans and in the cache."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from tflgpu_plugin.ir.graph import Array

ORDERED_BYTES = 1 << 20  # bytes that are made contiguous at a time


def of_array(data: Array) -> bytes:
    """Returns the SHA-256 digest of an array's type, shape and bytes. The bytes are in memory
    order, which is part of the digest, so that a transposed view is not copied. Of the
    cryptographic digests SHA-256 is the fastest, since CPUs have instructions for it."""
    axes = tuple(range(data.ndim))
    straight = data.flags.c_contiguous
    order = axes if straight else tuple(sorted(axes, key=lambda axis: -abs(data.strides[axis])))
    ordered = data.transpose(order)
    digest = sha256(repr((data.dtype.str, data.shape, order)).encode())
    if ordered.flags.c_contiguous:
        digest.update(ordered.data)
        return digest.digest()
    rows = max(1, ORDERED_BYTES // max(1, ordered[:1].nbytes))
    for first in range(0, len(ordered), rows):
        digest.update(np.ascontiguousarray(ordered[first : first + rows]).data)
    return digest.digest()
