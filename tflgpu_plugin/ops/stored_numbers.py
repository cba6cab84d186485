"""Ops that hosts compute with the stored numbers of integers of 8 and 16 bits, whatever their scale
(trait `stored`): as int32, of which results keep the low bits. Floats saturate, and NaN becomes the
largest number, as LiteRT's CAST defines it (older hosts leave these undefined)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Node, Tensor
from tflgpu_plugin.ops.decompose import Decomposition

COUNTED = ("i8", "u8", "i16", "u16")
WORD, HALF = 32, 16  # bits of the device's integers, and most of a stored number

Rule = Callable[[Decomposition, Node], bool]


def over_numbers(rule: Rule, shifts: bool = False) -> Rule:
    """Returns the decomposition of an op on int32, `rule`, extended to stored numbers. If it
    `shifts`, hosts shift by one bit less than numbers have at most."""

    def decompose(steps: Decomposition, node: Node) -> bool:
        operands = (steps.editor.tensors[t] for t in node.reads)
        real = any(t.dtype == "f32" and t.quantization is None for t in operands)
        if real or steps.editor.tensors[node.outputs[0]].dtype not in COUNTED:
            return rule(steps, node)
        given = [as_int32(steps, t) for t in node.reads]
        if shifts:
            bits = np.iinfo(NUMPY_DTYPES[steps.editor.tensors[node.outputs[0]].dtype]).bits
            given[1] = steps.add("minimum", given[1], steps.indices(bits - 1))
        keep(steps, steps.add(node.op, *given, **node.attributes))
        return True

    return decompose


def as_int32(steps: Decomposition, tensor: int) -> int:
    """Returns the stored numbers of a tensor as int32."""
    data = _known(steps.editor.tensors[tensor])
    if data is not None:
        return steps.indices(data)
    return steps.typed("i32", "cast", as_float32(steps, tensor))


def _known(tensor: Tensor) -> Array | None:
    """Returns the stored numbers of a constant, which may have been dequantized."""
    data, held = tensor.data, tensor.quantization
    if data is None or data.dtype.kind != "f" or held is None:
        return data
    scale, zero = (
        quantization.along(numbers, held.axis, data.ndim)
        for numbers in (held.scale, held.zero_point)
    )
    return np.asarray(np.rint(data / scale) + zero)


def as_float32(steps: Decomposition, tensor: int) -> int:
    """Returns the stored numbers of a tensor as float32."""
    scale, zero = quantization.parameters(steps.editor.tensors[tensor])
    if (scale, zero) == (1.0, 0.0):
        return _exact(steps, "dequantize", tensor)
    found = steps.add("digit", tensor, numbers=(scale, 0.0, float(HALF), 1.0))
    return steps.add("add", found, steps.number(zero)) if zero else found


def keep(steps: Decomposition, made: int) -> None:
    """Adds the nodes that store numbers, int32 or float32, as the result of the replaced node."""
    result = steps.editor.tensors[steps.node.outputs[0]]
    scale, zero = quantization.parameters(result)
    numbers = _low_bits(steps, made, result.dtype)
    numbers = steps.add("add", numbers, steps.number(-zero)) if zero else numbers
    numbers = steps.add("mul", numbers, steps.number(scale)) if scale != 1 else numbers
    steps.last("quantize", numbers)


def _low_bits(steps: Decomposition, made: int, dtype: str) -> int:
    """Returns numbers as float32 that this type holds."""
    kind, held = np.iinfo(NUMPY_DTYPES[dtype]), steps.editor.tensors[made].dtype
    if held == "bool":
        return _exact(steps, "cast", made)
    if not quantization.is_integer(steps.editor.tensors[made]):
        known = steps.typed("bool", "equal", made, made)
        made = _exact(steps, "where", known, made, steps.number(kind.max))
        made = _exact(steps, "maximum", made, steps.number(kind.min))
        made = _exact(steps, "minimum", made, steps.number(kind.max))
        return _exact(steps, "cast", steps.typed("i32", "cast", made))
    if held in quantization.UNSIGNED:
        made = steps.typed("i32", "cast", made)
    if kind.min:
        most = steps.indices(WORD - kind.bits)
        made = steps.add("right_shift", steps.add("left_shift", made, most), most)
    else:
        made = steps.add("bitwise_and", made, steps.indices(kind.max))
    return _exact(steps, "cast", made)


def _exact(steps: Decomposition, op: str, *inputs: int) -> int:
    """Returns the result of a node as float32 that is never stored as float16."""
    made = steps.typed("f32", op, *inputs)
    steps.editor.tensors[made] = replace(steps.editor.tensors[made], keep_f32=True)
    return made
