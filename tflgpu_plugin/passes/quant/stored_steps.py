"""Elementwise operators over 8-bit tensors in whole numbers, as hosts compute them: each gives the
step of kernels/math.wgsl that takes stored numbers through the host's fixed point, and its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.ir.quantization import Grid
from tflgpu_plugin.passes.quant import requantize
from tflgpu_plugin.passes.quant.requantize import FACTOR_UNIT, fixed_point

Numbers = tuple[float, ...]
Whole = tuple[str, Numbers]  # a step of `kernels.POSTS` and its parameters
DIFFERENCE_UNIT = 1 << 14  # of a square: both operands are shifted by 7 bits
SHORT_UNIT, SHORT_SHIFT = 1 << 15, 7  # 16-bit fixed point, and the shift of 8-bit numbers to it


def whole(graph: Graph, node: Node, grid: Grid) -> Whole | None:
    """The step of a node whose result has this grid; None where hosts do otherwise."""
    if node.op in ("add", "sub"):
        return requantize.total(graph, node, grid)
    scales = _scales(graph, node)
    if node.op not in STEPS or scales is None or quantization.even(graph.tensors[node.outputs[0]]):
        return None
    numbers = STEPS[node.op](node, scales, grid)
    return None if numbers is None else (f"quantized_{node.op}", numbers)


def _scales(graph: Graph, node: Node) -> list[np.float32] | None:
    """Of the inputs; None unless all are quantized as a whole."""
    found = []
    for tensor in node.inputs:
        given = None if tensor is None else graph.tensors[tensor].quantization
        if given is None or len(given.scale) != 1:
            return None
        found.append(np.float32(given.scale[0]))
    return found


def _factors(*factors: Any) -> list[float]:
    """(high part, low part, shift to the left) of each."""
    fractions, shifts = fixed_point(np.array(factors, np.float64))
    parts = [(*divmod(f, FACTOR_UNIT), s) for f, s in zip(fractions, shifts, strict=True)]
    return [float(number) for part in parts for number in part]


def _prelu(node: Node, scales: list[np.float32], grid: Grid) -> Numbers | None:
    """Each side of zero has a factor, worked out in float32."""
    x, alpha = scales
    unit = np.float32(grid.scale)
    return (float(x), float(alpha), *_factors(x / unit, x * alpha / unit), *grid)


def _leaky_relu(node: Node, scales: list[np.float32], grid: Grid) -> Numbers | None:
    (x,), unit = scales, np.float32(grid.scale)
    alpha = np.float32(node.attributes["alpha"])
    return (float(x), *_factors(x / unit, x * alpha / unit), *grid)


def _squared_difference(node: Node, scales: list[np.float32], grid: Grid) -> Numbers | None:
    """Laid out as the numbers of `quantized_sum`."""
    a, b = (float(scale) for scale in scales)
    common = 2 * max(a, b)
    factors = a / common, b / common, common * common / (DIFFERENCE_UNIT * grid.scale)
    if max(fixed_point(np.array(factors))[1]) > 0:
        return None
    found: list[float] = []
    for scale, factor in zip((a, b, grid.scale), factors, strict=True):
        high, low, shift = _factors(factor)
        found += [scale, high, low, -shift]
    return (*found, grid.least, grid.most)


def _hard_swish(node: Node, scales: list[np.float32], grid: Grid) -> Numbers | None:
    """Two factors of 16 bits: to the result before it is shifted, and to a 3 of 2^15."""
    (x,) = scales
    fine = np.float32(1 / (1 << SHORT_SHIFT)) * x
    factors = fine / np.float32(grid.scale), fine / (np.float32(3) / np.float32(SHORT_UNIT))
    fractions, shifts = fixed_point(np.array(factors, np.float64))
    if shifts[0] > 0:
        return None
    short = np.minimum((fractions + SHORT_UNIT) // (2 * SHORT_UNIT), SHORT_UNIT - 1)
    return (*map(float, (x, short[0], -shifts[0], short[1], shifts[1])), *grid)


STEPS: dict[str, Callable[[Node, list[np.float32], Grid], Numbers | None]] = {
    "prelu": _prelu, "leaky_relu": _leaky_relu, "squared_difference": _squared_difference,
    "hard_swish": _hard_swish,
}  # fmt: skip
