"""Digests of arrays, which identify equal constants in plans and in the cache."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from tflgpu_plugin.ir.graph import Array

ORDERED_BYTES = 1 << 20  # bytes that are made contiguous at a time


def of_array(data: Array) -> bytes:
    """Returns the SHA-256 digest of an array's bytes in memory order, so that a transposed view is
    not copied. Unless that is C order, shape and order are part of the digest. Of the cryptographic
    digests SHA-256 is the fastest, since CPUs have instructions for it."""
    if data.flags.c_contiguous:
        return sha256(data.data).digest()
    order = tuple(sorted(range(data.ndim), key=lambda axis: -abs(data.strides[axis])))
    ordered = data.transpose(order)
    digest = sha256(repr((data.shape, order)).encode())
    if ordered.flags.c_contiguous:
        digest.update(ordered.data)
        return digest.digest()
    rows = max(1, ORDERED_BYTES // max(1, ordered[:1].nbytes))
    for first in range(0, len(ordered), rows):
        digest.update(np.ascontiguousarray(ordered[first : first + rows]).data)
    return digest.digest()
