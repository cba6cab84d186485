"""Builders for ConvInteger and MatMulInteger, whose sums are int32.

Products are summed in float32, which has every integer up to 2^24. Where a partial sum could exceed
that, the products are summed in parts, and the parts are added in int32, which wraps around as the
hosts' sums do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import prod

import numpy as np

from tflgpu_plugin.ir import EXACT_INTEGERS, NUMBERS, NUMPY_DTYPES, Array, ShapeRefusal
from tflgpu_plugin.providers import Builder, Unsupported

from .quantize import real_constant, spread_over
from .rearranging import part

STEPS = 255  # the largest difference of two 8-bit integers
TOO_LARGE = ShapeRefusal("result.inexact", "The sums of one channel may exceed 2^24.")
Range = tuple[int, int]


def differences(e: Builder, position: int, zero: int, axis: int) -> int:
    """Returns input `position` minus its zero point, input `zero`, as float32. Constants stay in
    their stored type if the zero points are constant and per tensor or along `axis`."""
    tensor = e.x(position)
    known = e.constant(e.x(zero)) if e.has(zero) else np.zeros(1, np.int32)
    if known is not None and e.constant(tensor) is not None:
        points = tuple(map(int, known.reshape(-1)))
        if known.size == 1 or known.shape == e.shape(tensor)[axis : axis + 1]:
            scale, along = (1.0,) * len(points), axis if len(points) > 1 else 0
            return real_constant(e, tensor, replace(NUMBERS, scale=scale, zero_point=points,
                                                    axis=along))  # fmt: skip
    values = e.numbers(tensor)
    if not e.has(zero):
        return values
    return e.add("sub", values, spread_over(e, e.numbers(e.x(zero)), e.rank(tensor), axis))


def factors(e: Builder, zeros: int) -> tuple[int, int]:
    """Returns inputs 0 and 1 minus their zero points (inputs `zeros` and `zeros + 1`), which are
    per tensor, per row of input 0, or per column of input 1."""
    a = differences(e, 0, zeros, max(e.rank(e.x(0)) - 2, 0))
    return a, differences(e, 1, zeros + 1, max(e.rank(e.x(1)) - 1, 0))


def conv_integer(e: Builder) -> int:
    """Builds ConvInteger."""
    x, weights, groups = differences(e, 0, 2, 0), differences(e, 1, 3, 0), e.integer("group", 1)
    ranges = _parts(e, weights, 1, tuple(range(2, e.rank(weights))))
    values = (_channels(e, x, groups, *each) for each in ranges)
    return _total(e, "Conv", values, (_weights(e, weights, 1, *each) for each in ranges))


def matmul_integer(e: Builder) -> int:
    """Builds MatMulInteger."""
    a, b = factors(e, 2)
    axis, ranges = max(e.rank(b) - 2, 0), _parts(e, b, max(e.rank(b) - 2, 0), ())
    values = (part(e, a, *each) if len(ranges) > 1 else a for each in ranges)
    return _total(e, "MatMul", values, (_weights(e, b, axis, *each) for each in ranges))


def _total(e: Builder, op: str, values: Iterable[int], weights: Iterable[int]) -> int:
    """Returns the sum in int32 of the products of corresponding values and weights."""
    made = []
    for x, w in zip(values, weights, strict=True):
        held = e.add("quantize", e.run(op, x, w), dtype="i32", quantization=NUMBERS, whole=True)
        made.append(e.add("cast", held, dtype="i32"))
    return reduce(lambda total, one: e.add("add", total, one), made)


def _weights(e: Builder, weights: int, axis: int, start: int, stop: int) -> int:
    """Returns a part of the axis of the weights; that of constant weights keeps their scales."""
    if (start, stop) == (0, e.shape(weights)[axis]):
        return weights
    if e.constant(weights) is None:
        return part(e, weights, start, stop, axis)
    ranges = (slice(None),) * axis + (slice(start, stop),)
    return e.derived(weights, "part", axis, start, stop, make=lambda data: data[ranges],
                     axis=e.scales_axis(weights))  # fmt: skip


def _channels(e: Builder, x: int, groups: int, start: int, stop: int) -> int:
    """Returns channels `start` to `stop` (exclusive) of each group of an image."""
    images, channels, *places = e.shape(x)
    if (start, stop) == (0, channels // groups):
        return x
    apart = e.reshape(x, (images, groups, channels // groups, *places))
    return e.reshape(part(e, apart, start, stop, 2), (images, groups * (stop - start), *places))


# ---- where sums are cut --------------------------------------------------------------------------


def _parts(e: Builder, weights: int, axis: int, window: Sequence[int]) -> list[Range]:
    """Returns the ranges of `axis` of the weights over which float32 holds all partial sums of
    products with input 0 exactly. A sum is also over the axes `window`."""
    values, known, count = _ranges(e, 0), e.constant(weights), e.shape(weights)[axis]
    if known is None:
        largest = prod(max(-each[0][0], each[0][1]) for each in (values, _ranges(e, 1)))
        length = EXACT_INTEGERS // (largest * prod(e.shape(weights)[k] for k in window))
    else:
        length = _length(values, np.moveaxis(known, axis, 0), window)
    if not length and count:
        raise Unsupported(TOO_LARGE)
    edges = [0]
    while edges[-1] + length < count:  # which says little of a count that is not fixed
        edges.append(edges[-1] + length)
    return list(pairwise([*edges, count]))


def _ranges(e: Builder, position: int) -> Sequence[Range]:
    """Returns ranges, one of which contains all values of this input minus a zero point: the input
    two positions later, which is any number of the type unless it is constant."""
    held = np.iinfo(NUMPY_DTYPES[e.dtype(e.x(position))])
    zero = e.constant(e.x(position + 2)) if e.has(position + 2) else np.zeros(1, np.int32)
    if zero is None:
        return (-STEPS, 0), (0, STEPS)
    return ((int(held.min) - int(zero.max(initial=0)), int(held.max) - int(zero.min(initial=0))),)


def _length(values: Sequence[Range], weights: Array, window: Sequence[int]) -> int:
    """Returns the length of the parts into which the first axis of constant weights is cut, as few
    as suffice; 0 if a single index is too much."""
    count = len(weights)
    up, down = (
        np.maximum(sign * weights, 0).sum(axis=tuple(window), dtype=np.float64) for sign in (1, -1)
    )

    def fits(length: int) -> bool:
        starts = range(0, count, length)
        above, below = (np.add.reduceat(each, starts, axis=0) for each in (up, down))
        return all(
            np.max(most * one - least * other, initial=0) <= EXACT_INTEGERS
            for least, most in values
            for one, other in ((above, below), (below, above))
        )

    if not count or not fits(1):
        return 0
    return next(-(-count // parts) for parts in range(1, count + 1) if fits(-(-count // parts)))
