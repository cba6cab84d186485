"""Digests of arrays: what tells equal constants, in plans and in what is kept of them."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from tflgpu_plugin.ir.graph import Array

ORDERED_BYTES = 1 << 20  # bytes that are put in order at a time


def of_array(data: Array) -> bytes:
    """The digest of a value: of its bytes in the order of memory, and of that order where it is
    another than C's, so that a transposed view is not copied. sha256 has instructions of its own
    on today's CPUs, and there is the fastest of the cryptographic ones.
    """
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
