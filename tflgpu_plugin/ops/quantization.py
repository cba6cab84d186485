"""`dequantize(x)` and `quantize(x)`, between float32 and 8 bits or between two 8-bit quantizations.

On the device a quantized tensor holds real values, so dequantizing needs no computation, and
quantizing rounds values to the result's levels: ties away from zero, as in
tensorflow/lite/kernels/internal/reference/quantize.h, or to even multiples of the scale, as
QuantizeLinear (the result's quantization says which). From 8 bits hosts multiply in fixed point
(requantize.h), which rounds ties up; so they do between int32 and smaller integers.

`cast(x)` converts between floats, bool and integers; fractions are truncated. Values beyond int32
are clamped (hosts leave them, and NaN, undefined). Integers of 8 and 16 bits are their stored
numbers (see `ops.stored_numbers`). bfloat16 is converted from and to float32,
whatever the other type, as in hosts. A complex number becomes its real part, as float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin.ir import bfloat16, quantization
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import COMPLEX, NUMPY_DTYPES, Array, EpilogueOp, Graph, Node, Tensor
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.symbolic import symbolic
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ir.types import type_name
from tflgpu_plugin.ops import quantized, quantized_int16
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.elementwise import lower_pair, lower_step
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.spectrum import decompose_side
from tflgpu_plugin.ops.stored_numbers import COUNTED, as_float32, as_int32, keep
from tflgpu_plugin.ops.table import Op, same_shape

# Steps by their number of parameters.
STEPS = {3: "fake_quant_even", 5: "fake_quant", 7: "quantized_factor"}


def step(graph: Graph, node: Node) -> EpilogueOp:
    """Returns the fused step of a quantize node. The attribute `parameters` holds its numbers if
    other steps may have been fused after it (the output then has another quantization)."""
    if "parameters" in node.attributes:
        numbers = node.attributes["parameters"]
        return EpilogueOp(STEPS[len(numbers)], None, numbers)
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    if quantization.even(result):
        return to_even(quantization.levels(result))
    if quantization.on_levels(source):
        scale, levels = quantization.parameters(source)[0], quantization.levels(result)
        return quantized.times(scale, scale / levels.scale, levels)
    return EpilogueOp("fake_quant", None, (*quantization.levels(result), 1.0, 0.0))


def to_even(levels: quantization.Levels) -> EpilogueOp:
    """Returns the step that rounds values to levels, ties to even multiples of the scale."""
    return EpilogueOp("fake_quant_even", None, tuple(levels))


def refuse_dequantize(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires int8 or uint8 quantized per tensor; of constants, also float16, int32, and scales
    per channel."""
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    if result.dtype != "f32":
        said = f"Dequantizing gives float32, not {type_name(result.dtype)}."
        return Refusal("dtype.unsupported", said)
    if result.data is None and source.data is None and not quantization.real(source):
        held = type_name(source.dtype)
        said = f"Tensor {source.name!r} holds {held} values computed at run time."
        return Refusal("dynamic.value", said)
    return None


def refuse_quantize(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires a result of int8, uint8 or int16, quantized per tensor, or int32 from int16."""
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    wide = [t for t in (source, result) if quantization.is_integer(t)]
    if any(t.quantization is None or len(t.quantization.scale) != 1 for t in wide):
        held = type_name(wide[0].dtype)
        said = f"Tensor {wide[0].name!r} holds {held} values without a scale for all."
        return Refusal("quantization.missing", said)
    if not (quantization.real(result) or (result in wide and quantization.is_int16(source))):
        types = f"{type_name(source.dtype)} to {type_name(result.dtype)}"
        said = f"Quantizing {types} is not supported; use int8 or uint8."
        return Refusal("dtype.unsupported", said)
    if source.dtype != "f32" and not (quantization.real(source) or source in wide):
        said = f"Quantizing {type_name(source.dtype)} is not supported; use float32, int8 or uint8."
        return Refusal("dtype.unsupported", said)
    return None


def decompose_quantize(steps: Decomposition, node: Node) -> bool:
    """Multiplies stored numbers in fixed point where one of the types is int32."""
    x, y = node.operand(), node.outputs[0]
    source, result = steps.editor.tensors[x], steps.editor.tensors[y]
    wide, whole = quantization.is_integer(source), quantization.is_integer(result)
    if not wide and not whole:
        return False
    (scale, zero), (unit, other) = map(quantization.parameters, (source, result))
    if wide and zero:
        x = steps.add("sub", x, steps.indices(int(zero)), activation="none")
    numbers = quantized.factor_numbers(1.0 if wide else scale, scale / unit, unit)
    if not whole:
        made = steps.typed("f32", "times_factor", x, numbers=numbers)
        steps.editor.tensors[made] = replace(steps.editor.tensors[made], keep_f32=True)
        steps.last("quantize", made)
    elif other:
        made = steps.typed("i32", "times_factor", x, numbers=numbers)
        steps.last("add", made, steps.indices(int(other)), activation="none")
    else:
        steps.last("times_factor", x, numbers=numbers)
    return True


def lower_dequantize(low: Lowering, node: Node) -> None:
    if low.graph.constant(node.outputs[0]) is None:
        low.alias(node.outputs[0], node.operand())


def lower_quantize(low: Lowering, node: Node) -> None:
    lower_step(low, node, step(low.graph, node))


def refuse_cast(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires types among floats, bool and integers, or complex numbers that become float32."""
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    if COMPLEX in (source.dtype, result.dtype) and result.dtype != "f32":
        said = f"Casting {type_name(source.dtype)} to {type_name(result.dtype)} is not supported."
        return Refusal("dtype.unsupported", said)
    return None


def decompose_cast(steps: Decomposition, node: Node) -> bool:
    """Makes casts between types with the same device type a reshape or dequantize."""
    x = node.operand()
    source, result = steps.editor.tensors[x], steps.editor.tensors[node.outputs[0]]
    if source.dtype == COMPLEX or len(source.shape) > len(result.shape):  # made pairs already
        return decompose_side(steps, node, side=0)
    if BFLOAT16 in (source.dtype, result.dtype):
        return _decompose_bfloat16(steps, x, source.dtype, result.dtype)
    if result.dtype in COUNTED or source.dtype in COUNTED:
        return _decompose_stored(steps, node)
    if quantization.is_integer(source) != quantization.is_integer(result):
        return False
    if result.dtype in quantization.UNSIGNED and source.dtype in quantization.COUNTS:
        return False  # negative numbers have no place there
    if result.dtype == "bool" and source.dtype != "bool":
        return False
    steps.last("reshape", x, None, shape=source.shape)
    return True


def _decompose_stored(steps: Decomposition, node: Node) -> bool:
    """Makes a cast from or to integers of 8 and 16 bits one of their stored numbers."""
    x = node.operand()
    source, result = steps.editor.tensors[x], steps.editor.tensors[node.outputs[0]]
    if result.dtype in COUNTED:
        keep(steps, as_int32(steps, x) if source.dtype in COUNTED else x)
    elif result.dtype in FLOATS:
        steps.last("reshape", as_float32(steps, x), None, shape=source.shape)
    elif quantization.parameters(source) == (1.0, 0.0):
        return False
    else:
        steps.last("cast", as_float32(steps, x))
    return True


def _decompose_bfloat16(steps: Decomposition, x: int, source: str, result: str) -> bool:
    if source == result:
        steps.last("reshape", x, None, shape=steps.shape(x))
    elif result == "bool":
        return False
    elif source == BFLOAT16 and result in FLOATS:
        steps.last("from_bfloat16", x)
    elif source in (*FLOATS, "bool"):
        steps.last("to_bfloat16", x)
    else:
        real = steps.typed("f32", "cast", x)  # unrounded: it is not a value of the model
        steps.editor.tensors[real] = replace(steps.editor.tensors[real], keep_f32=True)
        steps.last("cast", real)
    return True


def lower_cast(low: Lowering, node: Node) -> None:
    """Records one launch, by the device types of source and result."""
    source, result = low.graph.tensors[node.operand()], low.graph.tensors[node.outputs[0]]
    zero = "vec4i()" if quantization.is_integer(source) else "vec4f()"
    if source.dtype == BFLOAT16:  # by bits: devices may flush subnormal floats to zero
        lower_pair(low, node, "bool_as_f32((vec4u(v) & vec4u(0x7fffu)) != vec4u())")
    elif result.dtype == "bool":
        lower_pair(low, node, f"bool_as_f32(!(v == {zero}))")
    elif quantization.is_integer(result):
        number, beyond = _to_integer(source, result.dtype, bool(node.attributes.get("exact")))
        lower_pair(low, node, number, checked=beyond)
    else:
        lower_pair(low, node, "vec4f(v)")


def _to_integer(source: Tensor, result: str, exact: bool) -> tuple[str, str]:
    """Returns WGSL for a cast to an integer type, and for where the device has no such number.
    `exact`: float32 stands for a type that has more integers."""
    if quantization.is_integer(source):
        return "v", "v < vec4i()"
    least = "v > vec4f(-1.0)" if result in quantization.UNSIGNED else "v >= vec4f(-2147483648.0)"
    beyond = "" if result == "i32" else f"!(({least}) & (v < vec4f(2147483648.0)))"
    if exact:  # float32 has no number for each of these integers
        rounded = f"abs(v) >= vec4f({float(quantization.EXACT_INTEGERS)})"
        beyond = f"({beyond}) | ({rounded})" if beyond else rounded
    return "whole_part(v)", beyond


def same_bits(held: str, wanted: str) -> bool:
    """Whether values of the dtype `held` may be reinterpreted bit by bit as `wanted`: both are
    integers of one size, or bool for 8 bits. Floats may not: devices may flush subnormal numbers to
    zero and change NaN."""
    return wanted != "bool" and held in BITS and BITS[held] == BITS.get(wanted)


TYPES = ("f32", "i8", "u8")
FLOATS = ("f32", "f16")
BITS = {"bool": 8, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "i64": 64}


def converted(data: Array, dtype: str) -> Array:
    """Returns the numbers in another type. Raises ValueError for values that an integer type cannot
    hold, whose conversion depends on the CPU."""
    if dtype == BFLOAT16:
        return bfloat16.bits(data.astype(np.float32))
    kind = np.dtype(NUMPY_DTYPES[dtype])
    if symbolic(data) and kind.kind in "iu":
        return data
    if kind.kind in "iu" and data.dtype.kind == "f":
        limits, cut = np.iinfo(kind), np.trunc(data.astype(np.float64))
        if not np.all((cut >= limits.min) & (cut <= limits.max)):
            raise ValueError("a number that the type cannot hold")
    return np.asarray(data != 0) if kind.kind == "b" else data.astype(kind)


ATTRIBUTES = {"quantize": "whole", "cast": "exact"}
OPS = (
    Op("dequantize", refuse_dequantize, same_shape, lower_dequantize, "exact",
       types=(*TYPES, "f16"), kind="elementwise", follows="elementwise", quantizes="from"),
    Op("quantize", refuse_quantize, same_shape, lower_quantize, "elementwise",
       types=(*TYPES, "i32"), decompose=decompose_quantize, fuses=True, kind="elementwise",
       follows="elementwise", quantizes="to",
       as_epilogue=lambda graph, node, position: step(graph, node)),
    Op("cast", refuse_cast, same_shape, lower_cast, "exact",
       types=("f32", "bool", "i32", BFLOAT16, COMPLEX), kind="elementwise", follows="elementwise",
       decompose=decompose_cast, converts=True, stored=True, meaning=converted),
    *quantized.ROWS,
    *quantized_int16.ROWS,
)  # fmt: skip
