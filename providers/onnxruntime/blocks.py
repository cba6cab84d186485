"""Scales and zero points of blocks along an axis (block_size of QuantizeLinear-23), and weights
that are stored so (MatMulNBits of com.microsoft).
"""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.graph import Array, Shape

from . import matrices
from .expansion import Expansion
from .host import nibbles


def repeated(values: Array, axis: int, block: int, shape: Shape) -> Array:
    """One value per block as one per element. Raises Unsupported when they do not fit."""
    blocks = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
    if values.shape != blocks:
        raise Unsupported(
            f"Scales and zero points of shape {list(values.shape)} are not those of blocks of "
            f"{block} along axis {axis} of {list(shape)}."
        )
    return np.repeat(values, block, axis).take(range(shape[axis]), axis)


def spread(e: Expansion, values: int, axis: int, block: int, shape: Shape) -> int:
    """The same of a float32 tensor, which only a run may tell; then all blocks must be full."""
    if e.constant(values) is not None:
        return e.derived(
            values, "blocks", axis, block, shape,
            make=lambda data: repeated(data, axis, block, shape),
        )  # fmt: skip
    count, rest = divmod(shape[axis], block)
    given = e.shape(values)
    if rest or given != (*shape[:axis], count, *shape[axis + 1 :]):
        raise Unsupported(f"{e.host.title} needs constant scales where a block is not full.")
    parted = e.reshape(values, (*given[: axis + 1], 1, *given[axis + 1 :]))
    wide = e.add("expand", parted, e.index((*given[: axis + 1], block, *given[axis + 1 :])))
    return e.reshape(wide, shape)


def matmul_n_bits(e: Expansion) -> int:
    """A product with weights [outputs, blocks, bytes] in 4 or 8 bits, which become float32 once."""
    bits, block = e.integer("bits", 4), e.integer("block_size")
    inputs, outputs = e.integer("K"), e.integer("N")
    count = -(-inputs // block)
    packed, scales = e.value(1), e.value(2)
    zeros = _zeros(e.optional(3), bits, (outputs, count))
    numbers = nibbles(packed) if bits == 4 else packed
    if numbers.size != outputs * count * block or scales.size != outputs * count:
        raise Unsupported("The weights of MatMulNBits have shapes that do not fit.")

    def wide(data: Array) -> Array:
        whole = numbers.reshape(outputs, count, block).astype(np.float32) - zeros[..., None]
        values = whole * scales.astype(np.float32).reshape(outputs, count, 1)
        return np.asarray(values.reshape(outputs, -1)[:, :inputs].T, np.float32)

    weights = e.derived(e.x(1), "n bits", e.x(2), make=wide)
    y = matrices.matmul(e.seen(e.x(0), weights))
    return e.add("add", y, e.x(5)) if e.has(5) else y


def _zeros(given: Array | None, bits: int, shape: tuple[int, int]) -> Array:
    """Zero points by output and block; the middle when there are none."""
    if given is None:
        return np.full(shape, 2 ** (bits - 1), np.float32)
    if given.dtype == np.uint8 and bits == 4:
        given = nibbles(given.reshape(shape[0], -1))[:, : shape[1]]
    return given.reshape(shape).astype(np.float32)
