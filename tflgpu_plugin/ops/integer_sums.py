"""Requantization of sums that kernels have as integers: the step that takes the place of a node's
first one, which expects float32, and its table. `bytes.wgsl` has the formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tflgpu_plugin import kernels, ops
from tflgpu_plugin.ir import Array, EpilogueOp, Node
from tflgpu_plugin.ir.quantization import EXACT_INTEGERS, INT32, ONE
from tflgpu_plugin.ops.levels import BYTE, level
from tflgpu_plugin.ops.lowering import Constant, Lowering

MOST = 1 << 20  # below it a product is known to less than a half
MOST_SHIFT = MOST.bit_length() + 1  # by which results below that are 0, as by larger ones
MOST_FIXED = 1 << 12  # of sums beside a bias that alone decides


class Channels(NamedTuple):
    """The numbers of a layer's channels: the rows of its first step, what no sum without bias
    exceeds, and the least and the most level."""

    rows: Array
    reach: Array
    least: float
    most: float

    @classmethod
    def of(cls, low: Lowering, node: Node) -> Channels:
        """Returns the channels of a layer of 8 bits with constant weights."""
        first, weights = node.epilogue[0], ops.weights(node)
        rows, data = low.graph.constant(first.tensor), low.graph.constant(node.operand(1))
        x = level(low, node.operand())
        assert rows is not None and data is not None and x is not None and weights is not None
        sizes = np.moveaxis(np.abs(data.astype(np.int64)), weights.axis, 0)
        farthest = max(BYTE.max - x.zero, x.zero - BYTE.min)
        reach = sizes.reshape(rows.shape[1], -1).sum(1) * farthest
        return cls(rows, reach, *first.parameters[2:4])

    @property
    def bias(self) -> Array:
        return np.asarray(self.rows[:2].astype(np.int64).sum(0))

    @property
    def fraction(self) -> Array:
        """Returns the factors of `requantize` as fractions of 31 bits."""
        return np.asarray((self.rows[2].astype(np.float64) + self.rows[3]) * ONE, np.int64)

    @property
    def shift(self) -> Array:
        """Returns the places by which results of `requantize` are shifted right."""
        return np.asarray(np.round(-np.log2(self.rows[4].astype(np.float64))), np.int64)

    @property
    def fixed(self) -> Array:
        """Returns which channels have the same result for all inputs, as those of which no weight
        matters beside the bias."""
        least, most = self.bias - self.reach, self.bias + self.reach
        within = (least >= INT32.min) & (most <= INT32.max)  # hosts' sums do not wrap around
        small = (self.reach < MOST_FIXED) & (self.shift >= 0)
        return np.asarray((self.results(least) == self.results(most)) & within & small)

    def results(self, sums: Array) -> Array:
        """Returns the levels of sums, by `requantize`."""
        shift = np.maximum(self.shift, 0)
        product = (sums * self.fraction + ONE // 2) >> 31
        near = (product + ((1 << shift) >> 1) - ((product < 0) & (shift > 0))) >> shift
        return np.asarray(np.clip(near, int(self.least), int(self.most)))


def step(low: Lowering, node: Node) -> EpilogueOp | None:
    """Returns the step for integer sums that computes what a node's first one computes, None where
    there is none for its numbers."""
    first, *rest = node.epilogue
    if first.op not in _FOUND or low.graph.constant(first.tensor) is None:
        return None
    _, scale, least, most, slices = first.parameters
    held = None if rest else level(low, node.outputs[0])
    if held is not None and held.scale != scale:
        return None
    zero = held.zero if held is not None else 0
    inside = held is None or BYTE.min <= least + zero <= most + zero <= BYTE.max
    if not (inside and least <= 0 <= most and most - least <= BYTE.max - BYTE.min):
        return None
    name, suits, _ = _FOUND[first.op]
    numbers = (float(zero), least + zero, most + zero, scale, slices)
    return EpilogueOp(name, first.tensor, numbers) if suits(Channels.of(low, node)) else None


def table(low: Lowering, node: Node, start: Callable[[Array], Array], *key: object) -> Constant:
    """Returns the operand of a step of `step`. `start` returns what is added to each channel's sum,
    from the weights; `key` has all that it depends on besides."""
    first, channels = node.epilogue[0], Channels.of(low, node)
    name, _, made = _FOUND[first.op]
    slices = int(first.parameters[-1])

    def packed(data: Array) -> Array:
        found = np.zeros((kernels.ROWS[name], 4 * slices), np.int64)
        sums = start(data).reshape(-1)
        found[0, : sums.size] = sums
        for row, numbers in zip(found, made(channels), strict=True):
            row[: numbers.size] += numbers
        return found.astype(np.int32).view(np.uint8)

    how = "sums", first.op, *first.parameters[2:4], low.digest(first.tensor), *key
    vectors = kernels.ROWS[name] * slices
    return low.constant(node.operand(1), *how, vectors=vectors, pack=packed, whole=True)


def _is_shifted(c: Channels) -> bool:
    """Whether all results are shifted right, and the products of sums up to the last level, or of
    all sums, are so small that float32 knows them well enough."""
    power, most = 0.5**c.shift, max(-c.least, c.most) + 1
    small = (most <= MOST * power) & (most * ONE <= EXACT_INTEGERS * power * c.fraction)
    sums = c.reach + np.abs(c.bias)
    small |= (sums < EXACT_INTEGERS) & (sums * c.fraction < MOST * ONE)
    return bool((((c.shift > 0) & small) | c.fixed).all())


def _of_fixed_point(c: Channels) -> tuple[Array, ...]:
    """Returns the rows of `requantize_sums`. A result that does not change is that of a sum which
    is so large that those of the weights do not matter."""
    fixed = c.fixed
    bias = np.where(fixed, 2 * c.results(c.bias) * MOST_FIXED * 4, c.bias)
    fraction = np.where(fixed, ONE // (MOST_FIXED * 4), c.fraction)
    factor = (fraction / ONE).astype(np.float32).view(np.int32)
    return bias, fraction, factor, np.where(fixed, 1, np.minimum(c.shift, MOST_SHIFT))


def _is_finite(c: Channels) -> bool:
    return bool(np.isfinite(c.rows).all())


def _of_factors(c: Channels) -> tuple[Array, ...]:
    return c.bias, c.rows[2].astype(np.float32).view(np.int32)


# For each first step: the step for integers, whether it suits the channels, and the rows of its
# table; the sum's start is added to the first row.
_FOUND: dict[str, tuple[str, Callable[[Channels], bool], Callable[[Channels], tuple[Array, ...]]]]
_FOUND = {
    "requantize": ("requantize_sums", _is_shifted, _of_fixed_point),
    "requantize_small": ("requantize_sums", _is_shifted, _of_fixed_point),
    "rescale": ("rescale_sums", _is_finite, _of_factors),
}
