"""Builders for quantized operators: they dequantize inputs, apply the float32 operator, and
quantize the result; integer operators such as MatMulInteger compute with the stored integers.

Formulas are those of the ONNX operators and of onnxruntime's contrib operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import (
    BFLOAT16,
    FLOAT8,
    NARROW,
    NUMBERS,
    PACKED,
    WHOLE,
    Array,
    Condition,
    ShapeRefusal,
    asks,
)
from tflgpu_plugin.providers import COUNTED, Builder

from . import attention, narrow, narrow_integers
from .integer_sums import differences, factors
from .quantize import dequantized, dynamic_quantize, named, real, spread_over, stored

Row = Callable[[Builder], int]
OPERANDS, PARAMETERS = ("value", "weights"), ("scale", "zero_point")  # roles


# ---- operators over real values ------------------------------------------------------------------


def over(name: str, *axes: int) -> Row:
    """Returns a builder of the ONNX operator `name` over dequantized inputs: those that a scale
    follows. The result is quantized if the node gives it a scale, else float32. `axes` is the axis
    of per-axis scales of each quantized input (0 with transB). The scale of an int32 bias is the
    product of the input scales."""

    def row(e: Builder) -> int:
        roles = [operand.role for operand in e.row.operands]
        values: list[int | None] = []
        scaled: list[int] = []
        result = len(roles)
        for k, role in enumerate(roles):
            if role == "bias" and e.has(k):
                bias = _product_bias(e, k, *(position + 1 for position in scaled))
                values.append(e.times(bias, e.number("alpha", 1.0)))
            elif role in OPERANDS and roles[k + 1] == "scale":
                axis = axes[len(scaled)] if axes and not e.integer("transB") else 0
                values.append(real(e, k, max(axis + e.rank(e.x(k)), 0) if axis < 0 else axis))
                scaled.append(k)
            elif role == "scale" and roles[k - 1] not in OPERANDS:
                result = k
            elif role not in PARAMETERS:
                values.append(e.get(k))
        y = e.run(name, *values)
        if not e.has(result):
            return int(y)
        return stored(e, y, e.x(result), e.get(result + 1), e.dtype(e.x(scaled[0])))

    return row


def single(*several: int) -> Condition:
    """Returns the condition that scales and zero points are per tensor, except the inputs at the
    positions `several`."""

    @asks("quantization.unsupported", kind=ShapeRefusal)
    def holds(e: Builder) -> bool:
        """Requires per-tensor scales and zero points, except those of weights."""
        roles = enumerate(operand.role for operand in e.row.operands)
        asked = [k for k, role in roles if role in PARAMETERS and k not in several and e.has(k)]
        return all(e.shape(e.x(k)) in ((), (1,)) for k in asked)

    return holds


@asks("quantization.unsupported", kind=ShapeRefusal)
def by_column(e: Builder) -> bool:
    """Requires scales and zero points of the second matrix that are per tensor or per column."""
    held = e.shape(e.x(3))
    fitting = {(), (1,), (*held[:-2], 1, *held[-1:]), held[1:]}
    return all(e.shape(e.x(k)) in fitting for k in (4, 5) if e.has(k))


def _product_bias(e: Builder, position: int, *scales: int) -> int:
    """Returns the int32 input `position` times the product of the inputs at the positions `scales`,
    each a scalar or of the same length."""
    bias, factors = e.x(position), [e.x(k) for k in scales]
    if not e.known(bias, *factors):
        return _scaled(e, e.numbers(bias), factors)
    factor = np.ones((), np.float64)
    for one in map(e.value, scales):
        factor = np.asarray(factor * (one.reshape(-1) if one.size > 1 else one.reshape(())))
    return e.derived(bias, "bias", *factors, make=lambda data: (data * factor).astype(np.float32))


def _scaled(e: Builder, y: int, scales: Sequence[int]) -> int:
    """Returns `y` times each of `scales`, which are per tensor or per index of the last axis."""
    for scale in scales:
        y = e.add("mul", y, spread_over(e, scale, e.rank(y), e.rank(y) - 1))
    return y


def concat(e: Builder) -> int:
    """Builds QLinearConcat, whose inputs are scale and zero point of the result, then tensor, scale
    and zero point of each operand."""
    positions = range(2, len(e.inputs), 3)
    axis = e.axis(e.integer("axis"), e.rank(e.x(2)))
    values = [real(e, position) for position in positions]
    return stored(e, e.add("concat", *values, axis=axis), e.x(0), e.x(1))


# ---- moves of stored integers --------------------------------------------------------------------


def numbers_too(row: Row) -> Row:
    """Returns the builder `row`, which only moves elements of its first input, extended to inputs
    of 8 and 16 bits; the result has the quantization of the input."""

    def either(e: Builder) -> int:
        if e.dtype() not in COUNTED:
            return row(e)
        held = e.hold(e.x(), NUMBERS)
        rest = list(e.inputs[1:])
        if e.op.fills:  # the padding value is a stored integer
            given = e.value(2) if e.has(2) else np.zeros(1)
            value = (float(given.reshape(-1)[0]) - held.zero_point[0]) * held.scale[0]
            rest = [e.x(1), e.const(value), *e.inputs[3:]]
        y = row(replace(e, inputs=(e.add("dequantize", e.x(), dtype="f32"), *rest)))
        return e.add("quantize", y, dtype=e.dtype(), quantization=held)

    return either


# ---- integers ------------------------------------------------------------------------------------


def cast(e: Builder) -> int:
    """Builds Cast between float32, float16 (computed as float32), bfloat16, floats of 8 bits, bool
    (stored as 0.0 and 1.0), and integers of 2 to 64 bits."""
    x, held, wanted = e.x(), e.dtype(), named(e, "to")
    if wanted == held and held in NARROW:
        return x
    if held in NARROW:
        x, held = narrow.real(e, x), "f32"
    if wanted in FLOAT8:
        return narrow.stored_float(e, x, wanted, saturates=bool(e.integer("saturate", 1)))
    if wanted in PACKED:
        return narrow.low_bits(e, x, wanted)
    if wanted in COUNTED and wanted != held:
        return narrow_integers.stored(e, narrow_integers.int32(e, x), wanted)
    if held in COUNTED and wanted != held:
        x, held = e.numbers(x), "f32"
    if wanted in (held, "f32", "f16") and held not in (*WHOLE, BFLOAT16):
        return e.add("reshape", x, dtype=wanted, shape=e.shape(x))
    return narrow_integers.cast(e, x, wanted)


def matmul_to_float(e: Builder) -> int:
    """Builds MatMulIntegerToFloat."""
    return _real_product(e, scales=2, zeros=4, bias=6)


def _real_product(e: Builder, scales: int, zeros: int, bias: int) -> int:
    """Returns the product of two quantized inputs as float32, plus a bias. `scales` and `zeros` are
    positions of the first scale and zero point, which those of the second input follow."""
    y = e.run("MatMul", *factors(e, zeros))
    return e.plus(_scaled(e, y, (e.x(scales), e.x(scales + 1))), e.get(bias))


def q_attention(e: Builder) -> list[int | None]:
    """Builds QAttention: Attention whose projection multiplies quantized tensors."""
    made = _real_product(e, scales=3, zeros=6, bias=2)
    return attention.attended(e, made, attention.Q_MASK, attention.Q_PAST)


def q_embedding(e: Builder) -> list[int | None]:
    """Builds QEmbedLayerNormalization: embeddings, gamma and beta are quantized to 8 bits."""
    real = [
        dequantized(e, e.x(2 + k), e.x(8 + k), e.get(13 + k)) if e.has(2 + k) else None
        for k in range(5)
    ]
    return attention.embedding(replace(e, inputs=(*e.inputs[:2], *real, e.get(7))))[:2]


def dynamic_lstm(e: Builder) -> Any:
    """Builds DynamicQuantizeLSTM as LSTM with dequantized weights. onnxruntime quantizes the inputs
    of each step's matrix products to 8 bits; here they stay float32."""
    weights = [_gates(e, position, scale) for position, scale in ((1, 8), (2, 10))]
    return e.run("LSTM", e.x(0), *weights, *e.inputs[3:8])


def _gates(e: Builder, position: int, scale: int) -> int:
    """Returns the weights at `position` [directions, values, gates] dequantized to float32
    [directions, gates, values], with scales per direction or per gate."""
    held, zeros = (e.value(k).reshape(len(e.value(k)), 1, -1) for k in (scale, scale + 1))

    def real(data: Array) -> Array:
        return np.asarray(((data.astype(np.float32) - zeros) * held).transpose(0, 2, 1))

    return e.derived(e.x(position), "gates", make=real)


def dynamic_matmul(e: Builder) -> int:
    """Builds DynamicQuantizeMatMul; its first factor is quantized over the range of its values."""
    a, scale, zero = dynamic_quantize(e)
    left = e.add("sub", e.numbers(a), e.numbers(zero))
    y = e.run("MatMul", left, differences(e, 1, 3, e.rank(e.x(1)) - 1))
    return e.plus(_scaled(e, y, (scale, e.x(2))), e.get(4))
