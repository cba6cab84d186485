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

# float32 has an error of less than 1/2 in products below this. Shifted right by MAX_SHIFT, or by
# more, they are 0.
MAX_PRODUCT = 1 << 20
MAX_SHIFT = MAX_PRODUCT.bit_length() + 1
HALF = 4  # the row of `half` in the table of `requantized_sums`
NEAR = 0x12900000  # what `requantized_sums` has for a product of 0
MAX_SMALL_SUM = 1 << 22  # smaller sums become float32 without a conversion instruction
MAX_FIXED_SUM = 1 << 12  # with smaller sums, the bias alone may determine the result
FIXED = 2 * MAX_FIXED_SUM


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
    def most_sum(self) -> int:
        """Returns what no sum exceeds, with the bias or what takes its place (`sure`)."""
        bias = np.where(self.fixed, self.sure, self.bias)
        return int((self.reach + np.abs(bias)).max())

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
        small = (self.reach < MAX_FIXED_SUM) & (self.shift >= 0)
        return np.asarray((self.results(least) == self.results(most)) & within & small)

    @property
    def sure(self) -> Array:
        """Returns a bias for each channel that is so large, beside a factor of 1 / FIXED, that sums
        without bias do not matter."""
        return np.asarray(2 * self.results(self.bias) * FIXED)

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
    _, scale, least, most, _ = first.parameters
    held = None if rest else level(low, node.outputs[0])
    if held is not None and held.scale != scale:
        return None
    zero = _zero(low, node)
    inside = held is None or BYTE.min <= least + zero <= most + zero <= BYTE.max
    if not (inside and least <= 0 <= most and most - least <= BYTE.max - BYTE.min):
        return None
    (name, suits, _), channels = _FOUND[first.op], Channels.of(low, node)
    if name == "requantize_sums" and channels.most_sum < MAX_SMALL_SUM:
        name = "requantize_small_sums"
    numbers = (float(zero), least + zero, most + zero, scale)
    return EpilogueOp(name, first.tensor, numbers) if suits(channels) else None


def table(low: Lowering, node: Node, start: Callable[[Array], Array], *key: object) -> Constant:
    """Returns the operand of a step of `step`. `start` returns what is added to each channel's sum,
    from the weights; `key` has all that it depends on besides."""
    first, channels = node.epilogue[0], Channels.of(low, node)
    made = _FOUND[first.op][2]
    slices, zero = int(first.parameters[-1]), _zero(low, node)

    def packed(data: Array) -> Array:
        found = np.zeros((kernels.EIGHT, 4 * slices), np.int64)
        found[HALF] = zero - NEAR  # padding channels become zeros
        for row, numbers in zip(found, made(channels, zero), strict=False):
            row[: numbers.size] = numbers
        sums = start(data).reshape(-1)
        found[0, : sums.size] += sums
        ordered = found.astype(np.int32).reshape(-1, slices, 4).swapaxes(0, 1)
        return np.ascontiguousarray(ordered).view(np.uint8)

    how = "sums", first.op, *first.parameters[2:4], low.digest(first.tensor), zero, *key
    vectors = kernels.EIGHT * slices
    return low.constant(node.operand(1), *how, vectors=vectors, pack=packed, int32=True)


def _zero(low: Lowering, node: Node) -> int:
    """Returns the byte of 0 in a layer's result; 0 where other steps follow the first one."""
    held = None if node.epilogue[1:] else level(low, node.outputs[0])
    return held.zero if held is not None else 0


def _is_shifted(c: Channels) -> bool:
    """Whether all results are shifted right, and the products of sums up to the last level, or of
    all sums, are so small that float32 knows them well enough."""
    power, most = 0.5**c.shift, max(-c.least, c.most) + 1
    small = (most <= MAX_PRODUCT * power) & (most * ONE <= EXACT_INTEGERS * power * c.fraction)
    sums = c.reach + np.abs(c.bias)
    small |= (sums < EXACT_INTEGERS) & (sums * c.fraction < MAX_PRODUCT * ONE)
    return bool((((c.shift > 0) & small) | c.fixed).all())


def _of_fixed_point(c: Channels, zero: int) -> tuple[Array, ...]:
    """Returns the rows of `requantize_sums` for this zero point. A result that does not change is
    that of a bias which is so large that products do not matter."""
    fixed = c.fixed
    bias = np.where(fixed, c.sure, c.bias)
    fraction = np.where(fixed, ONE // FIXED, c.fraction)
    factor = (fraction / ONE).astype(np.float32).view(np.int32)
    shift = np.where(fixed, 1, np.minimum(c.shift, MAX_SHIFT))
    return bias, fraction, factor, shift, (((2 * zero + 1) << shift) >> 1) - NEAR


def _is_finite(c: Channels) -> bool:
    return bool(np.isfinite(c.rows).all())


def _of_factors(c: Channels, zero: int) -> tuple[Array, ...]:
    return c.bias, c.rows[2].astype(np.float32).view(np.int32)


# For each first step: the step for integers, whether it suits the channels, and the rows of its
# table; the sum's start is added to the first row.
_Rows = Callable[[Channels, int], tuple[Array, ...]]
_FOUND: dict[str, tuple[str, Callable[[Channels], bool], _Rows]]
_FOUND = {
    "requantize": ("requantize_sums", _is_shifted, _of_fixed_point),
    "requantize_small": ("requantize_sums", _is_shifted, _of_fixed_point),
    "rescale": ("rescale_sums", _is_finite, _of_factors),
}
