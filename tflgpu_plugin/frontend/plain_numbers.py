"""Plain integers of 8 and 16 bits, which float32 holds exactly: on the device they are floats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tflgpu_plugin.ir.graph import Tensor
from tflgpu_plugin.ir.quantization import NUMBERS

SMALL = ("i8", "u8", "i16", "u16")


def annotate(read: Iterable[int], tensors: dict[int, Tensor]) -> None:
    """Give those that nodes read and that have no quantization one that stands for the numbers
    themselves; `tensors` is changed."""
    for index in read:
        tensor = tensors[index]
        if tensor.dtype in SMALL and tensor.quantization is None and tensor.data is None:
            tensors[index] = replace(tensor, quantization=NUMBERS)
