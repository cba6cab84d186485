"""Elementwise ops on 8-bit tensors in integer arithmetic, as hosts compute them: the fused step of
the op's name computes stored numbers in the host's fixed point. Passes make these ops; their
attribute `numbers` holds the step's parameters.

`times_factor(x)` multiplies integers by a factor as `MultiplyByQuantizedMultiplier`
(tensorflow/lite/kernels/internal/common.h), then by the unit of the result. x is int32, or float32
multiples of another unit; `factor_numbers` makes its `numbers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isfinite
from typing import Any

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import EpilogueOp, Graph, Node
from tflgpu_plugin.ir.quantization import FACTOR_UNIT, ONE, Levels, fixed_point
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.elementwise import lower_pair, lower_step, shapes
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.table import GATE, Op

Numbers = tuple[float, ...]
SUM_UNIT = 1 << 20  # unit of a sum: hosts shift both operands by 20 bits
DIFFERENCE_UNIT = 1 << 14  # unit of a square: both operands are shifted by 7 bits
ROOT_UNIT = 1 << 20  # unit of an inverse root
MAX_MULTIPLICAND = 1 << 30  # largest integer that is multiplied
INT16_UNIT, INT16_SHIFT = 1 << 15, 7  # 16-bit fixed point, and the shift of 8-bit numbers to it


def made(node: Node, op: str, numbers: Numbers | None) -> Node | None:
    return None if numbers is None else replace(node, op=op, attributes={"numbers": numbers})


def total(graph: Graph, node: Node, levels: Levels) -> Node | None:
    """Returns the node that computes an add or sub of two quantized tensors as hosts do, or
    None."""
    if quantization.even(graph.tensors[node.outputs[0]]):
        return made(node, "even_sum", _even(graph, node, levels))
    return made(node, "quantized_sum", summed(graph, node, levels))


def _even(graph: Graph, node: Node, levels: Levels) -> Numbers | None:
    """Returns the numbers of `even_sum`, computed in float32 as by hosts."""
    tensors = [graph.tensors[t] for t in node.inputs[:2] if t is not None]
    if node.op != "add" or not all(map(quantization.on_levels, tensors)):
        return None
    scale, zero = (np.float32(n) for n in quantization.parameters(graph.tensors[node.outputs[0]]))
    found: list[np.float32] = []
    for tensor in tensors:
        own, point = (np.float32(n) for n in quantization.parameters(tensor))
        found += [own, point, own / scale]
    second = found[5] * found[4]  # then a fused multiply-add
    start = zero - np.float32(np.float64(found[2]) * found[1] + second)
    return (*map(float, (*found, start, scale, zero)), levels.least, levels.most, 0.0)


def summed(graph: Graph, node: Node, levels: Levels, unit: int = SUM_UNIT) -> Numbers | None:
    """Returns the numbers of `quantized_sum` for an add or sub (the second scale is negative for a
    sub), or None if a tensor is not quantized per tensor. `unit` is that of the sum."""
    given = [graph.tensors[t].quantization for t in node.inputs[:2] if t is not None]
    scales = [q.scale[0] for q in given if q is not None and len(q.scale) == 1]
    if len(scales) != 2:
        return None
    common = 2 * max(scales)
    factors = [scales[0] / common, scales[1] / common, common / (unit * levels.scale)]
    fractions, shifts = fixed_point(np.array(factors))
    if np.any(shifts > 0):
        return None
    scales[1] *= -1 if node.op == "sub" else 1
    found: list[float] = []
    for scale, fraction, shift in zip((*scales, levels.scale), fractions, shifts, strict=True):
        found += [scale, *divmod(fraction, FACTOR_UNIT), -shift]
    return (*map(float, found), levels.least, levels.most)


def by_scales(
    numbers: Callable[[Node, list[np.float32], Levels], Numbers | None], op: str
) -> Callable[[Graph, Node, Levels], Node | None]:
    """Returns a row's rule: the op, with numbers computed from the inputs' scales, or None where
    `_scales` returns None."""

    def rule(graph: Graph, node: Node, levels: Levels) -> Node | None:
        scales = _scales(graph, node)
        return None if scales is None else made(node, op, numbers(node, scales, levels))

    return rule


def _scales(graph: Graph, node: Node) -> list[np.float32] | None:
    """Returns the inputs' scales; None unless all are quantized per tensor, or where the result
    rounds half to even."""
    if quantization.even(graph.tensors[node.outputs[0]]):
        return None
    return quantization.scales(None if t is None else graph.tensors[t] for t in node.inputs)


def factors(*factors: Any) -> list[float]:
    """Returns (high part, low part, left shift) of each factor; factors must not be negative."""
    fractions, shifts = fixed_point(np.array(factors, np.float64))
    parts = [(*divmod(f, FACTOR_UNIT), s) for f, s in zip(fractions, shifts, strict=True)]
    return [float(number) for part in parts for number in part]


def _prelu(node: Node, scales: list[np.float32], levels: Levels) -> Numbers | None:
    """Returns the parameters: a factor for each side of zero, computed in float32."""
    x, alpha = scales
    unit = np.float32(levels.scale)
    return (float(x), float(alpha), *factors(x / unit, x * alpha / unit), *levels)


def _leaky_relu(node: Node, scales: list[np.float32], levels: Levels) -> Numbers | None:
    """Returns the parameters of the step. The last two are factors of negative numbers, before and
    after the multiplication in fixed point, whose factors are unsigned: one of them is the sign of
    alpha. Hosts round halves of negative products up, and some negate the rounded product."""
    (x,), unit = scales, np.float32(levels.scale)
    alpha = np.float32(node.attributes["alpha"])
    sign = -1.0 if alpha < 0 else 1.0
    signs = (1.0, sign) if node.attributes.get("negates") else (sign, 1.0)
    return (float(x), *factors(x / unit, x * abs(alpha) / unit), *levels, *signs)


def quotient(graph: Graph, node: Node, levels: Levels) -> Node | None:
    """Returns the node that computes a quotient as hosts do: their factor is a float32 number."""
    given = _scales(graph, node)
    if given is None:
        return None
    factor = given[0] / (given[1] * np.float32(levels.scale))
    _, zero = quantization.parameters(graph.tensors[node.outputs[0]])
    numbers = (*map(float, given), *factors(factor), *levels, float(zero))
    return made(node, "quantized_quotient", numbers)


def squared_difference_numbers(
    node: Node, scales: list[np.float32], levels: Levels
) -> Numbers | None:
    """Returns the parameters of a squared difference, in the layout of those of `quantized_sum`."""
    a, b = (float(scale) for scale in scales)
    common = 2 * max(a, b)
    ratios = a / common, b / common, common * common / (DIFFERENCE_UNIT * levels.scale)
    if max(fixed_point(np.array(ratios))[1]) > 0:
        return None
    found: list[float] = []
    for scale, factor in zip((a, b, levels.scale), ratios, strict=True):
        high, low, shift = factors(factor)
        found += [scale, high, low, -shift]
    return (*found, levels.least, levels.most)


def magnitude(graph: Graph, node: Node, levels: Levels) -> Node | None:
    """Returns the node that computes an abs as hosts do: it multiplies stored numbers by one factor
    in fixed point."""
    scales = _other_scales(graph, node, levels)
    if scales is None:
        return None
    return replace(node, epilogue=(times(float(scales[0]), float(scales[0] / scales[1]), levels),))


def limited(low: float, high: float) -> Callable[[Graph, Node, Levels], Node | None]:
    """Returns the rule for an activation that only clamps. Hosts do not clamp the input but the
    stored result, to levels that are computed in float32."""

    def rule(graph: Graph, node: Node, levels: Levels) -> Node | None:
        least, most = (quantization.nearest(limit, levels.scale) for limit in (low, high))
        cut = levels._replace(least=max(levels.least, least), most=min(levels.most, most))
        return made(node, "quantized_leaky_relu", _by_ratio(graph, node, cut))

    return rule


def clipped(graph: Graph, node: Node, levels: Levels) -> Node | None:
    """Returns the same for the limits of a clip, None where it has no two."""
    low, high = (float(node.attributes.get(name, inf)) for name in ("low", "high"))
    return limited(low, high)(graph, node, levels) if isfinite(low) and isfinite(high) else None


def inverse_root(graph: Graph, node: Node, levels: Levels) -> Node | None:
    """Returns the node that computes an rsqrt as hosts do: they compute 20 fractional bits of the
    inverse root, and return the largest result for 0."""
    scales = _scales(graph, node)
    if scales is None:
        return None
    (x,), unit = scales, 1 / (float(scales[0]) ** 0.5 * ROOT_UNIT)
    factor = 1 / float(np.sqrt(x) * np.float32(levels.scale)) / ROOT_UNIT
    (_, (shift,)) = fixed_point(np.array([factor]))
    # No product overflows.
    most = min(MAX_MULTIPLICAND, max(2 * ROOT_UNIT, MAX_MULTIPLICAND >> max(int(shift), 0)))
    finite = EpilogueOp("clip", None, (0.0, unit * most))
    return replace(node, epilogue=(finite, times(unit, factor, levels)))


def _by_ratio(graph: Graph, node: Node, levels: Levels) -> Numbers | None:
    """Returns the numbers of a multiplication by the ratio of both scales; None if they are equal
    and nothing is rounded."""
    if (scales := _other_scales(graph, node, levels)) is None:
        return None
    x, unit = scales
    return (float(x), *factors(x / unit, x / unit), *levels, 1.0, 1.0)


def _other_scales(graph: Graph, node: Node, levels: Levels) -> tuple[np.float32, np.float32] | None:
    """Returns the scales of input and result; None if they are equal, or the result rounds to
    even."""
    scales, unit = _scales(graph, node), np.float32(levels.scale)
    return None if scales is None or scales[0] == unit else (scales[0], unit)


def times(unit: float, factor: float, levels: Levels) -> EpilogueOp:
    """Returns the fused step that requantizes multiples of `unit`: multiply by `factor` in fixed
    point as `MultiplyByQuantizedMultiplier`, which rounds twice, and clamp to the output levels."""
    return EpilogueOp("quantized_factor", None, (unit, *factors(factor), *levels))


def times_once(unit: float, factor: float, levels: Levels) -> EpilogueOp:
    """Returns a step like that of `times` which rounds once; its parameters hold the factor as a
    fraction in two parts and a power of two."""
    (fraction,), (shift,) = fixed_point(np.array([factor]))
    parts = (part / ONE for part in (fraction - fraction % FACTOR_UNIT, fraction % FACTOR_UNIT))
    numbers = (unit, *levels, *map(float, parts), 2.0 ** float(shift))
    return EpilogueOp("quantized_factor_once", None, numbers)


def _hard_swish(node: Node, scales: list[np.float32], levels: Levels) -> Numbers | None:
    """Returns two 16-bit factors: one converts to the result before it is shifted, one to units of
    3 / 2^15."""
    (x,) = scales
    fine = np.float32(1 / (1 << INT16_SHIFT)) * x
    factors = fine / np.float32(levels.scale), fine / (np.float32(3) / np.float32(INT16_UNIT))
    fractions, shifts = fixed_point(np.array(factors, np.float64))
    if shifts[0] > 0:
        return None
    rounded = np.minimum((fractions + INT16_UNIT) // (2 * INT16_UNIT), INT16_UNIT - 1)
    left = min(shifts[1], 2 * INT16_SHIFT + 2)  # a larger shift saturates all numbers alike
    return (*map(float, (x, rounded[0], -shifts[0], rounded[1], left)), *levels)


def factor_numbers(unit: float, factor: float, result: float) -> Numbers:
    """Returns the numbers of `times_factor`: the unit of its input (1 for int32), the factor
    between integers as (high part, low part, shift to the left), and the unit of its result, if
    that is not int32."""
    return (unit, *factors(factor), result)


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Accepts every node, since only passes make them."""
    return None


def lower(low: Lowering, node: Node) -> None:
    if len(node.inputs) == 1:
        lower_step(low, node, EpilogueOp(node.op, None, node.attributes["numbers"]))
        return
    numbers = {f"number{k}": float(v) for k, v in enumerate(node.attributes["numbers"])}
    lower_pair(low, node, kernels.expression(node.op, list(numbers)), numbers)


def lower_factor(low: Lowering, node: Node) -> None:
    numbers = {f"number{k}": float(v) for k, v in enumerate(node.attributes["numbers"])}
    whole = quantization.is_integer(low.graph.tensors[node.operand()])
    n = "v" if whole else "vec4i(units_in(v, p.number0))"
    factor = "vec3f(p.number1, p.number2, p.number3)"
    made = f"multiplied({n}, {factor})"
    stored = quantization.is_integer(low.graph.tensors[node.outputs[0]])
    lower_pair(low, node, made if stored else f"vec4f({made}) * p.number4", numbers)


def step_of_quantized(graph: Graph, node: Node, position: int) -> EpilogueOp | None:
    numbers = node.attributes["numbers"]
    if len(node.inputs) == 1:
        return EpilogueOp(node.op, None, numbers)
    if node.op == "quantized_quotient" and position == 1:
        return None
    other = node.inputs[1 - position]
    if other is None or spread(graph, other, node.outputs[0]) is None:
        return None
    return EpilogueOp(node.op, other, swapped(node.op, numbers) if position == 1 else numbers)


def swapped(op: str, numbers: Numbers) -> Numbers:
    """Returns the parameters of a sum or product whose operands are swapped."""
    if op == "even_sum":
        return (*numbers[:-1], 1.0)  # yes
    if op == "int16_product":
        return (numbers[1], numbers[0], *numbers[2:])
    return (*numbers[4:8], *numbers[:4], *numbers[8:])


def row(name: str, *stands_for: str, **traits: Any) -> Op:
    return Op(
        name, refuse, shapes, lower, "exact", kind="elementwise", fuses=True,
        follows="elementwise", as_epilogue=step_of_quantized, stands_for=stands_for, **traits,
    )  # fmt: skip


prelu = by_scales(_prelu, "quantized_prelu")
leaky_relu = by_scales(_leaky_relu, "quantized_leaky_relu")
squared_difference = by_scales(squared_difference_numbers, "quantized_squared_difference")
hard_swish = by_scales(_hard_swish, "quantized_hard_swish")
ROWS = (  # of the family quantization
    row("quantized_sum", "add", "sub", operands="xx"),
    row("even_sum", "add", operands="xx"),
    row("quantized_prelu", "prelu", operands="xx", errors=GATE),
    row("quantized_leaky_relu", "leaky_relu", "relu", "relu6", "relu_n1_to_1", errors=GATE),
    row("quantized_squared_difference", "squared_difference", operands="xx"),
    row("quantized_hard_swish", "hard_swish", errors=GATE),
    row("quantized_quotient", "div", operands="xx"),
    Op("times_factor", refuse, shapes, lower_factor, "exact", types=("f32", "i32"),
       kind="elementwise", fuses=True, follows="elementwise"),
)  # fmt: skip
