"""`wide_total(rows [5, channels], sums...): bits, numbers, away, places` computes a layer of int16
values and int8 weights, or a product of int16 matrices, from the sums of its parts, as hosts do in
64 bits.

Part k has the sums of products with digit k of the values, as integers, or with digits whose
numbers add up to `places[k]`; digits have `bits` bits.
Their total and a bias are multiplied by an integer, divided by a power of two and rounded: halves
up (`MultiplyByQuantizedMultiplier` of tensorflow/lite/kernels/internal/common.cc, which has 15 bits
of the factor), or `away` from zero (as products in float64 of
tensorflow/lite/kernels/internal/reference/integer_ops/fully_connected.h). Results beyond int32 wrap
around, or are its least number where they are float64. `rows` has for each channel the lower and
the upper half of the bias, those of the factor, and the power of two. `numbers`: scale, least and
most of the result.

`digit(x): numbers` is the digit of an int16 number at a place, from -2^(bits - 1) to 2^(bits - 1).
`numbers`: the scale, the bits before and in the digit, and 1 for the last one, which is what the
others leave."""

from __future__ import annotations

from functools import partial
from math import frexp
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Shape, Target, is_int16
from tflgpu_plugin.ir.quantization import (
    EXACT_INTEGERS,
    along,
    fixed_point,
    parameters,
    quantized,
    scales,
)
from tflgpu_plugin.ops.lowering import Kernel, Lowering
from tflgpu_plugin.ops.quantized import row
from tflgpu_plugin.ops.table import Int16, Op

SIZE = 16  # bits of a number
DIGITS = (8, 4)  # bits that a digit may have, fewest digits first
FRACTION = 53  # bits of float64
LAST_SHIFT = 46  # largest power of two for a factor of 15 bits
DEEPEST = EXACT_INTEGERS >> 14  # products of two digits of 8 bits


class Layer(NamedTuple):
    """The weights of a layer as integers, the bits of a digit that keep all sums exact, and
    the rows of `wide_total`."""

    weights: Array
    bits: int
    rows: Array
    away: bool


def digit_bits(weights: Array, axis: int) -> int | None:
    """Returns the most bits of a digit with which no sum of products exceeds what float32 holds
    exactly; None where it always may."""
    others = tuple(k for k in range(weights.ndim) if k != axis % weights.ndim)
    largest = int(np.abs(weights.astype(np.int64)).sum(axis=others).max(initial=0))
    return next((bits for bits in DIGITS if largest << (bits - 1) <= EXACT_INTEGERS), None)


def reduced(factors: Array) -> tuple[Array, Array]:
    """Returns factors as numbers of 15 bits over powers of two, as hosts reduce them."""
    fraction, shift = fixed_point(factors)
    number = np.minimum((fraction.astype(np.int64) + (1 << 15)) >> 16, 0x7FFF)
    return number, 15 - shift


def in_float64(factor: float) -> tuple[int, int]:
    """Returns a float64 factor as an integer over a power of two, and half a unit more, so that
    products that float64 rounds to a half are one."""
    mantissa, exponent = frexp(factor)
    return 2 * int(mantissa * 2**FRACTION) + 1, FRACTION + 1 - exponent


def layer(graph: Graph, node: Node, weights: Array, bias: Array | None, axis: int) -> Layer | None:
    """Returns a layer's constants, given its stored weights and bias; None where the device cannot
    compute it exactly."""
    x, held, result = (graph.tensors[t] for t in (node.operand(), node.operand(1), node.outputs[0]))
    bits, channels = digit_bits(weights, axis), result.shape[-1]
    assert held.quantization is not None
    scale = np.asarray(held.quantization.scale, np.float32).astype(np.float64)
    if bits is None or scale.size not in (1, channels):
        return None
    factors = scale * np.float64(np.float32(parameters(x)[0])) / parameters(result)[0]
    away = bool(node.attributes.get("rounds_once"))
    if away:
        pairs = [in_float64(float(factor)) for factor in factors]
        number, power = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    else:
        number, power = reduced(factors)
    if power.min() < 1 or power.max() > (96 if away else LAST_SHIFT):
        return None
    total = np.zeros(channels, np.int64)
    total += 0 if bias is None else bias.reshape(-1).astype(np.int64)
    rows = np.stack([half for n in (total, number) for half in _halves(n, channels)]
                    + [np.broadcast_to(power, channels).astype(np.int32)])  # fmt: skip
    return Layer(weights, bits, rows, away)


def _halves(numbers: Array, channels: int) -> tuple[Array, Array]:
    """Returns the lower and the upper 32 bits of a number for each channel."""
    wide = np.broadcast_to(numbers, channels).astype(np.int64)
    return (wide & 0xFFFFFFFF).astype(np.uint32).view(np.int32), (wide >> 32).astype(np.int32)


def refuse_layer(graph: Graph, node: Node, axis: int) -> Refusal | None:
    """Layers over int16 with constant weights of int8 and, if any, a constant bias, whose sums can
    be computed exactly."""
    held = graph.tensors[node.operand(1)]
    if held.data is None or not quantized(held) or is_int16(held):
        said = f"A layer over int16 needs constant weights of int8: {held.name!r} are others."
        return Refusal("constant.required", said)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    data = None if bias is None else graph.constant(bias)
    assert held.quantization is not None
    zero = along(held.quantization.zero_point, held.quantization.axis, held.data.ndim)
    weights = np.asarray(held.data, np.int64) - zero.astype(np.int64)
    if layer(graph, node, weights, data, axis) is None:
        said = "The sums of this layer over int16 are too large to be exact, or its scales apart."
        return Refusal("quantization.unsupported", said)
    return None


def product_rows(graph: Graph, node: Node) -> Array | None:
    """Returns the rows of a product of int16 matrices; None where hosts compute with several scales
    or factors that the device cannot."""
    given = scales(graph.tensors[node.operand(k)] for k in (0, 1))
    if given is None or len(given) != 2:
        return None
    factor = np.float64(given[0] * given[1]) / parameters(graph.tensors[node.outputs[0]])[0]
    number, power = reduced(np.array([factor]))
    if not 1 <= power[0] <= LAST_SHIFT:
        return None
    columns = graph.shape(node.outputs[0])[-1]
    rows = [half for n in (np.zeros(1), number) for half in _halves(n.astype(np.int64), columns)]
    return np.asarray(np.stack([*rows, np.broadcast_to(power, columns).astype(np.int32)]))


def refuse_product(graph: Graph, node: Node) -> Refusal | None:
    """Products of two int16 matrices, whose sums can be computed exactly."""
    operands = [graph.tensors[node.operand(k)] for k in (0, 1)]
    if not all(map(is_int16, operands)):
        said = "A product of int16 needs two matrices of int16."
        return Refusal("dtype.mismatch", said)
    depth = operands[0].shape[-2 if node.attributes.get("transpose_a") else -1]
    if depth > DEEPEST or product_rows(graph, node) is None:
        said = f"Products of int16 need one scale each, and sums of up to {DEEPEST:,} products."
        return Refusal("quantization.unsupported", said)
    return None


def layers(axis: int) -> Int16:
    """Returns the trait of a row for its layers over int16; `axis` is that of the outputs in the
    weights."""
    return Int16("layer", partial(refuse_layer, axis=axis))


def shapes(graph: Graph, node: Node) -> list[Shape]:
    return [graph.shape(node.operand(1))]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires digits of 4 or 8 bits, at places within 32 bits."""
    bits = node.attributes["bits"]
    if bits in DIGITS and all(0 <= place * bits < 32 for place in _places(node)):
        return None
    said = f"Digits of {bits} bits at {list(_places(node))} are not supported."
    return Refusal("attribute.unsupported", said)


def _places(node: Node) -> tuple[int, ...]:
    return tuple(node.attributes.get("places", range(len(node.inputs) - 1)))


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with one thread per vec4."""
    rows, *parts = (t for t in node.inputs if t is not None)
    unit, least, most = node.attributes["numbers"]
    bits, away = int(node.attributes["bits"]), bool(node.attributes.get("away"))
    low.each_vector(
        Kernel(
            "wide_total",
            {"bits": bits, "unit": float(unit), "least": float(least), "most": float(most),
             "row": low.geometry(node.outputs[0]).slices},
            {"places": _places(node), "away": away, "limbs": 4 if away else 1},
        ),
        node,
        {"rows": low.stored(rows)} | {f"x{k}": low.stored(part) for k, part in enumerate(parts)},
    )  # fmt: skip


OPS = (
    Op("wide_total", refuse, shapes, lower, "exact", types=("f32", "i32"), kind="reduction",
       accumulates=False, operands="x*"),
    row("digit"),
)  # fmt: skip
