"""Depthwise layers of 8 bits that read bytes, and whose sums are integers: float32 adds products of
weights and numbers from 0 to 255, exactly, and the epilogue requantizes integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Array, Node
from tflgpu_plugin.ops import byte_products, integer_sums
from tflgpu_plugin.ops.levels import BYTE, level
from tflgpu_plugin.ops.lowering import Lowering, Stores

MOST = 1 << 22  # of a sum whose integer the last bits of a float32 are
ABOVE = 0x4B400000  # the bits of 3 * 2^22 as float32, which the sums are above zero


def suits(low: Lowering, node: Node) -> bool:
    """Whether the layer multiplies integers of 8 bits, and its epilogue expects their sums."""
    if not node.epilogue or node.epilogue[0].op not in kernels.ROWS:
        return False
    data = low.graph.constant(node.operand(1))
    if data is None or data.dtype.kind != "i" or level(low, node.operand()) is None:
        return False
    most = np.abs(data.astype(np.int64)).reshape(-1, data.shape[-1]).sum(0).max() * 255
    return bool(most < MOST) and integer_sums.step(low, node) is not None


def taken(low: Lowering, node: Node) -> tuple[int, Node, Stores]:
    """Returns the input in bytes, the node with an epilogue for integers, and how it is stored."""
    source, x = byte_products.in_bytes(low, node), level(low, node.operand())
    made = integer_sums.step(low, node)
    assert x is not None and made is not None

    def start(data: Array) -> Array:
        sums = data.astype(np.int64).reshape(-1, data.shape[-1]).sum(0)
        return np.asarray((x.zero - BYTE.min) * -sums - ABOVE)

    table = integer_sums.table(low, node, start, "depthwise", x.zero)
    _, *rest = node.epilogue
    return source, replace(node, epilogue=(made, *rest)), Stores(table=table)
