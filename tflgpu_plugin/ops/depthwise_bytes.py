"""Depthwise layers of 8 bits that read bytes, and whose sums are integers, which the epilogue
requantizes. float32 adds products of weights and numbers from 0 to 255, exactly. Or integer dot
products multiply a word of four channels by words with the weight of one channel each, for weights
v + shift of bytes v with a sign: sum(b v) + shift sum(b)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Array, Node
from tflgpu_plugin.ops import byte_products, integer_sums
from tflgpu_plugin.ops.levels import BYTE, level
from tflgpu_plugin.ops.lowering import Constant, Lowering, Source, Stores
from tflgpu_plugin.ops.packing import VECTOR_BYTES
from tflgpu_plugin.ops.tiles import multiplies_bytes

MAX_SUM = 1 << 22  # smaller sums can be read from the mantissa of a float32
ABOVE = 0x4B400000  # the bits of 3 * 2^22 as float32, which the sums are above zero
ROWS = TAPS = 3  # of windows whose products are dot products


def suits(low: Lowering, node: Node) -> bool:
    """Whether the layer multiplies integers of 8 bits, and its epilogue expects their sums."""
    if not node.epilogue or node.epilogue[0].op not in kernels.ROWS:
        return False
    data = low.graph.constant(node.operand(1))
    if data is None or data.dtype.kind != "i" or level(low, node.operand()) is None:
        return False
    most = np.abs(data.astype(np.int64)).reshape(-1, data.shape[-1]).sum(0).max() * 255
    return bool(most < MAX_SUM) and integer_sums.step(low, node) is not None


def multiplies(low: Lowering, node: Node) -> bool:
    """Whether the device prefers dot products, and words hold the weights."""
    data = low.graph.constant(node.operand(1))
    fits = data is not None and byte_products.shift(data) is not None
    return fits and multiplies_bytes(low.target)


class Taken(NamedTuple):
    """A layer that reads bytes: its input in bytes, its weights, the node with an epilogue for
    integers, and how it is stored. `shift` is that of words for dot products, None for floats."""

    source: int
    weights: Source
    node: Node
    stores: Stores
    shift: int | None


def taken(low: Lowering, node: Node, dots: bool) -> Taken:
    """Returns the layer, with dot products if `dots`."""
    source, x = byte_products.in_bytes(low, node), level(low, node.operand())
    made, data = integer_sums.step(low, node), low.graph.constant(node.operand(1))
    assert x is not None and made is not None and data is not None
    less = byte_products.shift(data) if dots else None

    def start(data: Array) -> Array:
        sums = data.astype(np.int64).reshape(-1, data.shape[-1]).sum(0)
        if less is None:
            return np.asarray((x.zero - BYTE.min) * -sums - ABOVE)
        padded = np.pad(sums, (0, -len(sums) % 4))
        return np.asarray(BYTE.min * ROWS * TAPS * less - x.zero * padded)

    table = integer_sums.table(low, node, start, "depthwise", x.zero, less)
    _, *rest = node.epilogue
    weights = low.stored(node.operand(1)) if less is None else _words(low, node, less)
    found = replace(node, epilogue=(made, *rest))
    return Taken(source, weights, found, Stores(table=table), less)


def _words(low: Lowering, node: Node, less: int) -> Constant:
    """Returns weights [1, 3, 3, channels] as [slice][row] of vec4 of words, of which a row has
    three, less a number."""

    def packed(data: Array) -> Array:
        channels = data.shape[-1]
        taps = np.zeros((ROWS, VECTOR_BYTES // 4, channels + -channels % 4), np.int64)
        taps[:, :TAPS, :channels] = data[0]
        slices = (taps - less).reshape(ROWS, VECTOR_BYTES // 4, -1, 4)
        return np.ascontiguousarray(slices.transpose(2, 0, 1, 3), np.int8).view(np.uint8)

    vectors = ROWS * -(-low.graph.shape(node.operand(1))[-1] // 4)
    return low.constant(node.operand(1), "dots", less, vectors=vectors, pack=packed, int32=True)
