"""The values of tensors that are stored in bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ops.lowering import Lowering

BYTE = np.iinfo(np.int8)


class Level(NamedTuple):
    """The value of a byte b with a sign: scale * (b - zero)."""

    scale: float
    zero: int

    def parameters(self, name: str) -> dict[str, object]:
        """Returns the parameters with which a kernel converts an operand of this name."""
        return {f"scale_{name}": self.scale, f"zero_{name}": float(self.zero)}

    @property
    def padding(self) -> int:
        """Returns the word of four zeros."""
        return self.zero % 256 * 0x01010101


def level(low: Lowering, tensor: int) -> Level | None:
    """Returns what the bytes of a tensor stand for, None unless it has 8 bits and one scale that
    float32 and its inverse hold."""
    held = low.graph.tensors[tensor]
    if held.dtype not in quantization.STORED or held.data is not None:
        return None
    if held.quantization is not None and len(held.quantization.scale) != 1:
        return None
    scale, zero = quantization.parameters(held)
    if not 2.0**-100 < scale < 2.0**100:
        return None
    return Level(scale, int(zero) + (BYTE.min if held.dtype == "u8" else 0))
