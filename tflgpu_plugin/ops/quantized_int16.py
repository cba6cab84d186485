"""Elementwise ops on int16 tensors in integer arithmetic, as hosts compute them (see
`ops.quantized`)."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import numpy as np

from tflgpu_plugin.ir import Graph, Levels, Node, Refusal, is_int16
from tflgpu_plugin.ir.quantization import FACTOR_UNIT, levels as levels_of, scales
from tflgpu_plugin.ops import quantized
from tflgpu_plugin.ops.quantized import Numbers

MIN_INT16, MAX_INT16 = -(1 << 15), (1 << 15) - 1
SUM_SHIFT = 15  # by which hosts shift both operands of a sum to the left
NEAR = 1e-3  # hosts take a scale for a power of two if its exponent is so near to an integer
HALF, WHOLE = 1 << 30, (1 << 31) - 1  # fractions of 31 bits

Rule = Callable[[Graph, Node, Levels], Node | None]


def by_size(of_16_bits: Rule, of_8_bits: Rule | None = None) -> Rule:
    """Returns the rule of a row for results of 16 and of 8 bits."""

    def rule(graph: Graph, node: Node, levels: Levels) -> Node | None:
        if is_int16(graph.tensors[node.outputs[0]]):
            return of_16_bits(graph, node, levels)
        return of_8_bits(graph, node, levels) if of_8_bits else None

    return rule


def _total(graph: Graph, node: Node, levels: Levels) -> Node | None:
    """Returns the node of an add or sub of two int16 tensors, or None."""
    found = _of_powers(graph, node, levels)
    if found is None:
        summed = quantized.summed(graph, node, levels, 1 << SUM_SHIFT)
        found = None if summed is None else (*summed, float(SUM_SHIFT))
    return quantized.made(node, "int16_sum", found)


def _of_powers(graph: Graph, node: Node, levels: Levels) -> Numbers | None:
    """Returns the numbers of `int16_sum` where the host computes with scales that are powers of
    two (attribute `powers`): it shifts the operand of the smaller scale to the right, and adds.
    None where it does not."""
    exponents = exponents_of(graph, node)
    if not exponents:
        return None
    given = scales(graph.tensors[t] for t in node.inputs[:2] if t is not None)
    assert given is not None
    signs = (1, -1 if node.op == "sub" else 1)
    found: list[float] = []
    for scale, sign, exponent in zip(given, signs, exponents, strict=False):
        found += [sign * float(scale), *divmod(HALF, FACTOR_UNIT), exponents[2] - exponent]
    return (*map(float, (*found, levels.scale, *divmod(WHOLE, FACTOR_UNIT), 0.0)),
            levels.least, levels.most, 1.0)  # fmt: skip


def exponents_of(graph: Graph, node: Node) -> list[int]:
    """Returns the exponents of the scales of both operands and the result, if the host computes
    with them."""
    tensors = [graph.tensors[t] for t in (*node.inputs[:2], node.outputs[0]) if t is not None]
    found = [power_of_two(float(scale)) for scale in scales(tensors) or ()]
    whole = [exponent for exponent in found if exponent is not None]
    return whole if node.attributes.get("powers") and len(whole) == 3 else []


def power_of_two(scale: float) -> int | None:
    """Returns the exponent of a scale that hosts take for a power of two, None for others
    (`CheckedLog2` of tensorflow/lite/kernels/internal/quantization_util.cc)."""
    exponent = log2(scale)
    return round(exponent) if abs(exponent - round(exponent)) < NEAR else None


def _product(graph: Graph, node: Node, levels: Levels) -> Node | None:
    """Returns the node of a product of two int16 tensors, which hosts multiply in int32."""
    given = scales(graph.tensors[t] for t in node.inputs[:2] if t is not None)
    if given is None or len(given) != 2:
        return None
    factor = given[0] * given[1] / np.float32(levels.scale)
    numbers = (*map(float, given), *quantized.factors(factor), *levels)
    return quantized.made(node, "int16_product", numbers)


def refuse_sum(graph: Graph, node: Node) -> Refusal | None:
    """Refuses sums in int16 whose scales hosts cannot compute with."""
    exponents = exponents_of(graph, node)
    if exponents:
        shapes = [graph.shape(node.operand(k)) for k in (0, 1)]
        if (
            shapes[0] != shapes[1]
            or exponents[2] != max(exponents)
            or (exponents[2] not in exponents[:2])
        ):
            return Refusal(
                "quantization.unsupported",
                "A sum in int16 with powers of two as scales needs operands of one shape, one of "
                "them with the scale of the result and the other with no larger one.",
            )
    made = _total(graph, node, levels_of(graph.tensors[node.outputs[0]]))
    if made is not None:
        return None
    said = "The scale of a sum in int16 is too small beside those of its operands."
    return Refusal("quantization.unsupported", said)


def refuse_product(graph: Graph, node: Node) -> Refusal | None:
    """Refuses products in int16 that hosts do not compute with one factor."""
    if _product(graph, node, levels_of(graph.tensors[node.outputs[0]])) is not None:
        return None
    said = "A product in int16 needs operands with one scale each."
    return Refusal("quantization.unsupported", said)


total = by_size(_total, quantized.total)
product = by_size(_product)


ROWS = (  # of the family quantization
    quantized.row("int16_sum", "add", "sub", operands="xx"),
    quantized.row("int16_product", "mul", operands="xx"),
)
