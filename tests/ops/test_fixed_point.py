"""Tests the quantization ops on the device, each alone, against exact integer arithmetic: halves
and numbers next to them, which networks with usual scales rarely reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from tests.support.harness import run_graph
from tests.support.net import Net
from tflgpu_plugin.ir import Array, EpilogueOp, Levels, fixed_point
from tflgpu_plugin.ops.quantized import times, times_once
from tflgpu_plugin.passes.quant.requantize import each, fixed_rows, in_fixed_point

pytestmark = pytest.mark.adapter

ONE = 1 << 31
RANDOM = np.random.default_rng(5)
WIDE = Levels(1.0, -(2.0**24), 2.0**24)


def stepped(values: Array, made: EpilogueOp, rows: Array | None = None) -> Array:
    """Returns `values` after one fused epilogue op, whose second operand is `rows`."""
    b = Net()
    x = b.input(values.shape)
    tensor = None if rows is None else b.constant(rows)
    y = b.op("neg", x)
    graph = b.graph(y)
    (node,) = graph.nodes
    graph = graph.with_nodes([replace(node, epilogue=(replace(made, tensor=tensor),))])
    return run_graph(graph, {x: -values})[y]


def away(x: Fraction) -> int:
    """Returns the nearest integer, halves away from zero."""
    return floor(x + Fraction(1, 2)) if x >= 0 else -floor(Fraction(1, 2) - x)


def up(x: Fraction) -> int:
    """Returns the nearest integer, halves toward positive infinity."""
    return floor(x + Fraction(1, 2))


def factors(numbers: Array) -> list[int]:
    """Returns for each number a 31-bit fraction whose product with it is a half, or the fraction
    next to that."""
    found = []
    for k, number in enumerate(numbers):
        odd = int(number) | 1
        for beside in range(3 * (k % 3), 99):
            near = (1 << 30) + (0, -1, 1)[k % 3] + (beside << 31)
            fraction = near * pow(odd, -1, ONE) % ONE
            if fraction >= ONE // 2:
                break
            odd += 2
        numbers[k] = odd
        found.append(fraction)
    return found


def test_sums_times_a_factor_in_fixed_point() -> None:
    """Products are halves of integers, or the nearest numbers to these; then shifts are tried."""
    numbers = RANDOM.integers(1, 1 << 20, 240)
    fractions = factors(numbers)
    numbers *= RANDOM.choice([-1, 1], numbers.size)
    for shift in (0, -1, -4, -17, 2):
        bias = RANDOM.integers(-(1 << 18), 1 << 18, numbers.size)
        wanted = multiplied(numbers, fractions, shift)
        assert_multiplied("requantize", numbers, bias, fractions, shift, WIDE, wanted)
        once = [
            away(Fraction(n * f * 2**31, ONE << (31 - shift)))
            for n, f in zip(map(int, numbers), fractions, strict=True)
        ]
        assert_multiplied("requantize_once", numbers, bias, fractions, shift, WIDE, once)
        if shift <= 0:  # the same numbers below 2^21
            assert_multiplied("requantize_small", numbers, bias, fractions, shift, WIDE, wanted)


@pytest.mark.parametrize("shift", [0, -1, -5, -9, -13])
def test_products_that_are_small_or_cut(shift: int) -> None:
    """Sums up to 2^24 are multiplied by any fraction: at midpoints of the last step, next to these,
    and anywhere up to far out of range; with biases that alone exceed the sums."""
    size, most = 4096, 254
    fractions = RANDOM.integers(ONE // 2, ONE, size)
    near = RANDOM.integers(-2 * most, 2 * most, size) * 2 + 1  # halves of a level
    exact = near.astype(object) * (ONE << -shift) // (2 * fractions)
    numbers = np.array([int(n) for n in exact]) + RANDOM.integers(-2, 3, size)
    numbers[size // 2 :] = RANDOM.integers(-(1 << 24), 1 << 24, size // 2)
    numbers = np.clip(numbers, 1 - (1 << 24), (1 << 24) - 1)
    bias = RANDOM.integers(-(1 << 12), 1 << 12, size) * 4096
    sums = np.clip(numbers - bias, 1 - (1 << 24), (1 << 24) - 1)
    bias = numbers - sums
    given = list(map(int, fractions))
    once = [away(Fraction(int(n) * f, ONE << -shift)) for n, f in zip(numbers, given, strict=True)]
    assert_multiplied(
        "requantize_once", numbers, bias, given, shift, Levels(1.0, -float(most), float(most)),
        np.clip(once, -most, most),
    )  # fmt: skip
    wanted = np.clip(multiplied(numbers, given, shift), -most, most)
    levels = Levels(1.0, -float(most), float(most))
    rows = fixed_rows(bias, fractions, np.full(size, float(shift)))
    assert in_fixed_point(rows, levels) == "requantize_small"
    for step in ("requantize", "requantize_small"):
        assert_multiplied(step, numbers, bias, given, shift, levels, wanted)


def multiplied(numbers: Array, fractions: list[int], shift: int) -> list[int]:
    """Returns the exact products, rounded twice."""
    found = []
    for number, fraction in zip(map(int, numbers), fractions, strict=True):
        product = up(Fraction((number << max(shift, 0)) * fraction, ONE))
        found.append(away(Fraction(product, 1 << max(-shift, 0))))
    return found


def assert_multiplied(
    step: str, numbers: Array, bias: Array, fractions: list[int], shift: int, levels: Levels,
    wanted: Sequence[int] | Array,
) -> None:  # fmt: skip
    rows = fixed_rows(bias, np.array(fractions), np.full(numbers.size, float(shift)))
    made = each(step, 0, 0.25, levels, numbers.size)
    got = stepped(((numbers - bias) * 0.25).astype(np.float32).reshape(1, 1, 1, -1), made, rows)
    np.testing.assert_array_equal(got.reshape(-1), wanted, f"{step} {shift}")


@pytest.mark.parametrize(
    ("fraction", "shift", "most", "step"),
    [(1 / 2, -13, 255, "requantize_small"), (1 / 2, -14, 255, "requantize"),
     (1 / 2, 0, 32767, "requantize_small"), (1 / 2, -7, 32767, "requantize"),
     (1 / 2, 1, 255, "requantize"), (1 / 4, -13, 255, "requantize"),
     (1 / 4, -12, 255, "requantize_small"), (0.0, -13, 255, "requantize_small")],
)  # fmt: skip
def test_which_step_multiplies(fraction: float, shift: int, most: int, step: str) -> None:
    """The factor of one of several channels."""
    fractions = np.array([0.75, fraction]) * ONE
    rows = fixed_rows(np.array([0.0, 5.0]), fractions, np.array([0.0, shift]))
    assert in_fixed_point(rows, Levels(0.5, -float(most), 0.0)) == step


def test_sums_times_a_factor_go_to_the_even_neighbour() -> None:
    numbers = np.arange(-120, 120)
    rows = np.array([numbers * 0, numbers * 0, np.full(240, 0.5)], np.float32)
    made = each("rescale", 0, 0.5, WIDE, numbers.size)
    got = stepped((numbers * 0.5).astype(np.float32).reshape(1, 1, 1, -1), made, rows)
    np.testing.assert_array_equal(got.reshape(-1), np.rint(numbers / 2))


@pytest.mark.parametrize("parts", [1.0, 2.0, 9.0, 4096.0])
@pytest.mark.parametrize("zero", [0.0, -3.0, 100.0])
def test_the_nearest_level(parts: float, zero: float) -> None:
    """It is rounded twice, with halves away from zero each time."""
    levels, scale = Levels(0.125, -128.0 - zero, 127.0 - zero), Fraction(1, 8)
    steps = np.concatenate([np.arange(-300, 300), RANDOM.integers(-(1 << 18), 1 << 18, 424)])
    steps[600:] = steps[600:] // 997
    unit = np.where(np.arange(steps.size) < 600, 0.5, 1 / 16384)
    values = (steps * unit * 0.125).astype(np.float32)
    numbers = (*levels, parts, zero)
    got = stepped(values.reshape(1, 8, 16, 8), EpilogueOp("fake_quant", None, numbers)).reshape(-1)
    wanted = []
    for value in map(Fraction, map(float, values)):
        fine = away((value / scale + int(zero)) * int(parts))
        n = away(Fraction(fine, int(parts))) - int(zero)
        wanted.append(float(min(max(n, int(levels.least)), int(levels.most)) * scale))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("parts", [1.0, 2.0, 16.0, 4096.0])
def test_the_nearest_level_of_a_product(parts: float) -> None:
    """It is rounded twice: halves go up the first time, away from zero the second."""
    levels, scale = Levels(0.125, -255.0, 255.0), Fraction(1, 8)
    steps = np.arange(-512, 512)
    values = (steps / (2 * parts) * 0.125).astype(np.float32)
    made = EpilogueOp("fake_quant_channels", 0, tuple(levels))
    got = stepped(values.reshape(1, 8, 16, 8), made, np.full(8, parts, np.float32)).reshape(-1)
    wanted = []
    for value in map(Fraction, map(float, values)):
        n = away(Fraction(up(value / scale * int(parts)), int(parts)))
        wanted.append(float(min(max(n, int(levels.least)), int(levels.most)) * scale))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("factor", [1 / 2, 3 / 256, 0.0014909245, 1.75, 5.5, 2.0**-20])
def test_whole_numbers_times_a_factor(factor: float) -> None:
    """Also where float32 cannot tell the product from a half."""
    levels, unit = Levels(0.125, -128.0, 127.0), 0.25
    numbers = np.concatenate([np.arange(-256, 256), RANDOM.integers(-100_000, 100_000, 512)])
    near = np.round((np.arange(-100, 100) + 0.5) / factor).astype(np.int64)
    numbers[512 : 512 + near.size] = np.clip(near, -(1 << 21), 1 << 21)
    (fraction,), (shift,) = fixed_point(np.array([factor]))
    wanted = []
    for number in map(int, numbers):
        product = up(Fraction((number << max(int(shift), 0)) * int(fraction), ONE))
        n = away(Fraction(product, 1 << max(-int(shift), 0)))
        wanted.append(min(max(n, -128), 127) * 0.125)
    values = (numbers * unit).astype(np.float32).reshape(1, 8, 16, 8)
    got = stepped(values, times(unit, factor, levels))
    np.testing.assert_array_equal(got.reshape(-1), wanted)
    exact = Fraction(int(fraction), ONE) * Fraction(2) ** int(shift)
    once = [min(max(away(number * exact), -128), 127) * 0.125 for number in map(int, numbers)]
    got = stepped(values, times_once(unit, factor, levels))
    np.testing.assert_array_equal(got.reshape(-1), once)
