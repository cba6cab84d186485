"""`lookup(x, table [65536]): scale, raises` returns the table's value for each int16 number, from
-32768 on; x holds multiples of `scale`. Negative numbers fail the run if `raises`. Hosts compute
some functions of int16 by interpolating between the entries of a small table. Passes replace such a
function by `lookup`, whose table holds the host's result for every number.

The functions below return these results as stored numbers.

A softmax of int16 uses two tables (`SoftmaxInt16` of
tensorflow/lite/kernels/internal/reference/softmax.h): one of exponentials, and one of reciprocals
of their sum. `softmax_place(sum)` returns the int16 number with which the int32 sum is looked up in
the second table; `softmax_share(exponential, reciprocal, sum): scale` returns the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import erfc, pi
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Target, quantization
from tflgpu_plugin.ir.quantization import fixed_point
from tflgpu_plugin.ops.elementwise import lower_pair, shapes
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering
from tflgpu_plugin.ops.quantized_int16 import MAX_INT16, MIN_INT16, power_of_two
from tflgpu_plugin.ops.table import GATE, Int16, Op, same_shape

COUNT = 1 << 16
STEPS = 512  # of the hosts' tables over the range of int16
FULL_RANGE = 255  # entries of the hosts' table of the logistic function
# Entries of the hosts' table that exceed the nearest multiple of 1 / 2^16 by one unit.
RAISED = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41,
    43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip
Single = np.float32


def tabled(table: Callable[[Graph, Node], Array]) -> Int16:
    """Returns the trait of a row whose results over int16 are in this table."""
    return Int16("table", table=table)


def numbers() -> Array:
    return np.arange(MIN_INT16, MAX_INT16 + 1, dtype=np.int64)


@cache
def _sigmoid() -> Array:
    """Returns the logistic function of multiples of 1 / 24, in units of 1 / 2^16."""
    entries = np.minimum(np.rint(65536 / (1 + np.exp(-np.arange(256) / 24))), 65535)
    entries[list(RAISED)] += 1
    return np.asarray(np.minimum(entries, 65535), np.int64)


def _units(scale: float, whole: tuple[int, ...]) -> Array:
    """Returns all numbers in units of 1 / (3 * 4096). A scale of 1 / 4096 times a power of two
    whose exponent is in `whole` takes no rounding; others are as in `TanhPrepare` and
    `SigmoidPrepare` of tensorflow/lite/kernels/activations.cc."""
    exponent = power_of_two(scale)
    left = None if exponent is None else 12 + exponent
    if left in whole:
        return numbers() * (3 << left)
    factor, shift = scale * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        factor, shift = factor * 2.0, shift + 1
    rounding = 1 << (shift - 1) if shift else 0
    return _in_32_bits(numbers() * int(factor) + rounding) >> shift


def _in_32_bits(values: Array) -> Array:
    """Returns the numbers as int32 holds them, which wraps around: so do products of hosts at
    large scales."""
    return np.asarray((values + (1 << 31)) % (1 << 32) - (1 << 31), np.int64)


def _between(units: Array, bits: int) -> tuple[Array, Array]:
    """Returns the logistic function of magnitudes in units of 1 / (24 * 2^bits), with `bits` more
    fractional bits than its table, and a mask of the magnitudes that are beyond the table."""
    size, table = np.abs(units), _sigmoid()
    place = np.minimum(size >> bits, FULL_RANGE - 1)
    low, part = table[place], size & ((1 << bits) - 1)
    return (low << bits) + part * (table[place + 1] - low), size >> bits >= FULL_RANGE


@tabled
def logistic(graph: Graph, node: Node) -> Array:
    """Returns the results of `Logistic` of
    tensorflow/lite/kernels/internal/reference/integer_ops/logistic.h."""
    units = _units(_scales(graph, node)[0], (0,))
    result, beyond = _between(units, 9)
    result = np.where(beyond, 0x7FFF << 10, result)
    below = (1 << 25) - result + (1 << 9) - 1
    return np.asarray(np.where(units >= 0, result + (1 << 9), below) >> 10)


@tabled
def tanh(graph: Graph, node: Node) -> Array:
    """Returns the results of `Tanh` of
    tensorflow/lite/kernels/internal/reference/integer_ops/tanh.h."""
    units = _units(_scales(graph, node)[0], (0, 1))
    result, beyond = _between(units, 8)
    result = np.where(beyond, 0xFFFF << 8, result)
    above, below = result - (1 << 23) + (1 << 7), (1 << 23) - result + (1 << 7) - 1
    return np.asarray(np.where(units >= 0, above, below) >> 8)


def _scales(graph: Graph, node: Node) -> tuple[float, float]:
    """Returns the scales of input and result."""
    x, y = (quantization.parameters(graph.tensors[t]) for t in (node.operand(), node.outputs[0]))
    return x[0], y[0]


def interpolated(
    function: Callable[[Array, np.float32], Array],
) -> Callable[[Graph, Node], Array]:
    """Returns a function that makes the table of a node by interpolating `function`, which takes
    float32 values and the scale of the result."""

    def made(graph: Graph, node: Node) -> Array:
        x, y = (Single(scale) for scale in _scales(graph, node))
        with np.errstate(over="ignore", invalid="ignore"):
            return populated(lambda values: function(values, y), x, 0, y)

    return made


@tabled
def gelu(graph: Graph, node: Node) -> Array:
    """Returns the interpolated results of `GeluTransform` or `GeluTransformApproximate` of
    tensorflow/lite/kernels/internal/reference/gelu.h."""
    approximate = bool(node.attributes.get("approximate"))
    return interpolated(_gelu_tanh if approximate else _gelu)(graph, node)


def _gelu(values: Array, unit: np.float32) -> Array:
    sides = [Single(erfc(side)) for side in (values * Single(-(0.5**0.5))).tolist()]
    return np.asarray(Single(0.5) * values * np.array(sides, Single))


def _gelu_tanh(values: Array, unit: np.float32) -> Array:
    inner = Single((2 / pi) ** 0.5) * (values + Single(0.044715) * values * values * values)
    return np.asarray(Single(0.5) * values * (Single(1) + _single_tanh(inner)))


def _single_tanh(values: Array) -> Array:
    """Returns the hyperbolic tangent as `tanhf` of C libraries computes it from `expm1f`. Some
    results are not the nearest float32."""
    size, two = np.abs(values), Single(2)
    more, less = (
        np.expm1((by * size).astype(np.float64)).astype(Single) for by in (two, Single(-2))
    )
    found = np.where(size < 1, -less / (less + two), Single(1) - two / (more + two))
    return np.copysign(found, values)


@tabled
def root(graph: Graph, node: Node) -> Array:
    """Returns square roots, which hosts truncate to stored numbers; those of negative numbers are
    0, for which hosts fail."""
    x, y = (Single(scale) for scale in _scales(graph, node))
    return np.asarray(np.trunc(np.sqrt(np.maximum(numbers(), 0).astype(Single) * x) / y))


def populated(function: Callable[[Array], Array], x: Any, zero: int, y: Any) -> Array:
    """Returns the results of `LUTPopulate` and `LUTLookup` of
    tensorflow/lite/kernels/internal/common.h, for inputs of scale `x` and this zero point and
    results of scale `y`, computed in the type of both scales."""
    kind = type(x)
    low, high = x * kind(MIN_INT16 - zero), x * kind(MAX_INT16 - zero)
    step = (high - low) / kind(STEPS)
    inverse = kind(COUNT) / (y * kind(MAX_INT16) - y * kind(MIN_INT16))
    start = low + np.arange(STEPS, dtype=kind) * step
    after = low + np.arange(1, STEPS + 1, dtype=kind) * step
    values, middle, later = (function(at) for at in (start, start + step / kind(2), after))
    sample = _away(values * inverse)
    bias = _away((_away((later * inverse + sample) / kind(2)) - _away(middle * inverse)) / 2)
    last = _away(function(np.array([high], kind)) * inverse)
    found = np.clip(np.concatenate([sample - bias, last]), MIN_INT16, MAX_INT16)
    return _looked_up(np.nan_to_num(found, nan=0).astype(np.int64))


def _looked_up(entries: Array) -> Array:
    place, part = 256 + (numbers() >> 7), numbers() & 127
    slope = (entries[place + 1] - entries[place] + COUNT // 2) % COUNT - COUNT // 2
    found = entries[place] + ((slope * part + 64) >> 7)
    return np.asarray((found + COUNT // 2) % COUNT - COUNT // 2)  # the host's int16 wraps around


def _away(values: Array) -> Array:
    """Returns the nearest integers as floats of the same type, halves away from zero."""
    whole = np.trunc(values)
    more = np.abs(values - whole) >= 0.5
    return np.asarray(whole + np.where(more, np.sign(values), 0), values.dtype)


def _exp(values: Array, unit: np.float32) -> Array:
    return np.exp(values.astype(np.float64)).astype(Single)


def _inverse_root(values: Array, unit: np.float32) -> Array:
    positive = values > 0
    roots = np.sqrt(np.where(positive, values, 1), dtype=Single)
    return np.where(positive, Single(1) / roots, Single(MAX_INT16) * unit).astype(Single)


def _log(values: Array, unit: np.float32) -> Array:
    positive = values > 0
    logs = np.log(np.where(positive, values, 1).astype(np.float64)).astype(Single)
    return np.where(positive, logs, Single(MIN_INT16) * unit).astype(Single)


exp, inverse_root, log = (tabled(interpolated(each)) for each in (_exp, _inverse_root, _log))


@cache
def reciprocals() -> Array:
    """Returns the table of 2^15 / (1 + x), in which the int16 numbers represent x from 0 to 1."""
    unit = np.float64(1.0 / (COUNT - 1))
    return populated(lambda x: np.asarray(1.0 / (1.0 + x)), unit, MIN_INT16, 2 * unit)


@lru_cache(8)  # 512 KB each
def exponentials(factor: float) -> Array:
    """Returns the table of 2^15 exp(-10 f d / 65535) for differences d from 65,535 down to 0, where
    f is `factor` in fixed point."""
    unit = np.float64(1.0 / (COUNT - 1))
    table = populated(np.exp, 10 * unit, MAX_INT16, 2 * unit)
    (fraction,), (shift,) = fixed_point(np.array([factor]))
    differences = numbers() - MAX_INT16
    # `MultiplyByQuantizedMultiplier` of numbers of 32 bits: rounds twice.
    left, right = max(int(shift), 0), max(-int(shift), 0)
    product = _in_32_bits(differences * (1 << left)) * int(fraction)
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.where(nudged >= 0, nudged >> 31, -(-nudged >> 31))
    scaled = np.sign(high) * ((np.abs(high) + (1 << right >> 1)) >> right)
    return np.asarray(table[np.clip(scaled + MAX_INT16, MIN_INT16, MAX_INT16) - MIN_INT16])


def lower_place(low: Lowering, node: Node) -> None:
    """Records the launch that computes the index in `reciprocals` for a sum of exponentials."""
    lower_pair(low, node, "softmax_place(v)")


def lower_share(low: Lowering, node: Node) -> None:
    """Records the launch that computes exponential * reciprocal / 2^floor(log2(sum))."""
    unit = {"unit": float(node.attributes["scale"])}
    lower_pair(low, node, "softmax_share(v, e, w) * p.unit", unit)


def accepted(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Accepts every node, since only passes make them."""
    return None


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires a constant with a value for each number of int16."""
    table = graph.constant(node.operand(1))
    if table is None or table.shape != (COUNT,):
        return Refusal("constant.required", f"lookup takes a constant of {COUNT} values.")
    return None


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with one thread per vec4."""
    raises = bool(node.attributes.get("raises"))
    low.each_vector(
        Kernel("lookup", {"scale": float(node.attributes["scale"])}, {"raises": raises}),
        node,
        {"x": low.stored(node.operand()), "table": Access(low.stored(node.operand(1)), 1)},
        checked=raises,
    )


ATTRIBUTES = {"lookup": "scale! raises", "softmax_share": "scale!"}
OPS = (
    Op("lookup", refuse, same_shape, lower, "exact", kind="elementwise", fuses=True,
       follows="elementwise", operands="xx", errors=GATE),
    Op("softmax_place", accepted, same_shape, lower_place, "exact", types=("f32", "i32"),
       kind="elementwise", follows="elementwise"),
    Op("softmax_share", accepted, shapes, lower_share, "exact", types=("f32", "i32"),
       kind="elementwise", follows="elementwise", operands="xxx"),
)  # fmt: skip
