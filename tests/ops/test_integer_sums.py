"""Tests the requantization of integer sums on the device, against exact integer arithmetic: at
halves of a level, next to these, and far out of range."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.ops.test_byte_products import BYTES, results
from tests.ops.test_fixed_point import multiplied
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, Graph, Quantization, Tensor
from tflgpu_plugin.runtime import adapter

ONE, SIZE, ZERO = 1 << 31, 2048, -5
INPUT = (1, 2, 4, 4)
SUMS = "requantized_(?:small_)?sums"
RANDOM = np.random.default_rng(8)


def layer(
    bias: Array, factors: Array, channels: int, rounding: str = "fixed_point", most: int = 127
) -> Graph:
    """Returns a point of 8 bits with one factor for each output, and weights up to `most`. Its sums
    for an input of ones are `bias`."""
    b = Net()
    x = b.input((*INPUT[:3], channels), "i8", Quantization((1.0,), (7,)))
    scale = tuple(map(float, factors))
    data = np.arange(bias.size * channels).reshape(bias.size, 1, 1, channels) % (2 * most) - most
    weights = b.constant(data.astype(np.int8), "i8", Quantization(scale, (0,) * bias.size, 0))
    sums = Quantization(scale, (0,) * bias.size, 0)
    added = b.constant((bias - data.sum((1, 2, 3))).astype(np.int32), "i32", sums)
    held = Quantization((1.0,), (ZERO,), rounding=rounding)
    return b.graph(
        b.op("conv_2d", x, weights, added, made=Tensor("", (), "i8", None, held), **WINDOW)
    )


def made(graph: Graph, step: str, split: bool = False) -> Array:
    """Returns the bytes of each output, minus the zero point, of a plan with this step."""
    own = adapter.open_device(adapter.select(None)).target
    target = replace(own, tuning=BYTES)
    if split:
        target = replace(target, software=False, vendor="unknown", threads=1 << 20)
    plan = compiler.compile(graph, target)
    texts = [each.wgsl for each in plan.pipelines if re.search(rf"= {step}\(", each.wgsl)]
    assert len(texts) == 1 and ("load_parts(" in texts[0]) == split
    shape = graph.shape(graph.inputs[0])
    found = results(plan, np.full(shape, 8, np.int8)).astype(np.int64) - ZERO
    assert (found == found[:, :1, :1]).all()
    return found[0, 0, 0]


@pytest.mark.adapter
@pytest.mark.parametrize("shift", [-1, -5, -9, -12])
@pytest.mark.parametrize("split", [False, True])
def test_fixed_point(shift: int, split: bool) -> None:
    fractions = RANDOM.integers(ONE // 2, ONE, SIZE)
    near = RANDOM.integers(-300, 300, SIZE) * 2 + 1  # halves of a level
    exact = near.astype(object) * (ONE << -shift) // (2 * fractions)
    numbers = np.array([int(n) for n in exact]) + RANDOM.integers(-2, 3, SIZE)
    numbers[: SIZE // 8] = RANDOM.integers(-(1 << 22), 1 << 22, SIZE // 8)
    numbers[:9] = 0
    wanted = np.clip(multiplied(numbers, list(map(int, fractions)), shift), -128 - ZERO, 127 - ZERO)
    graph = layer(numbers, np.ldexp(fractions.astype(float), shift - 31), 1024 if split else 4)
    found = made(graph, SUMS, split)
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) > 200


@pytest.mark.adapter
def test_halves_before_the_shift() -> None:
    """Products are halves of integers, which are rounded up to halves of a level first, or the
    numbers next to them."""
    found = []
    for number in range(-255, 256, 2):
        for beside in (0, -1, 1):
            half = ((1 << 30) + beside) * pow(number, -1, 2 * ONE) % (2 * ONE)
            found += [(number, half)] if ONE // 2 <= half < ONE else []
    numbers, fractions = np.array(found).T
    wanted = np.clip(multiplied(numbers, list(map(int, fractions)), -1), -128 - ZERO, 127 - ZERO)
    graph = layer(numbers, np.ldexp(fractions.astype(float), -32), 4)
    np.testing.assert_array_equal(made(graph, "requantized_small_sums"), wanted)
    assert numbers.size > 150


@pytest.mark.adapter
def test_channels_that_only_have_a_bias() -> None:
    """Some layers have channels with factors of about zero, and a bias that is as large."""
    numbers = RANDOM.integers(-(1 << 30), 1 << 30, SIZE)
    fractions = RANDOM.integers(ONE // 2, ONE, SIZE)
    wanted = np.clip(multiplied(numbers, list(map(int, fractions)), -25), -128 - ZERO, 127 - ZERO)
    numbers[::2] = 0  # beside usual ones
    fractions[::2], wanted[::2] = ONE // 2, 0
    factors = np.ldexp(fractions.astype(float), np.where(np.arange(SIZE) % 2, -25, -9) - 31)
    graph = layer(numbers, factors, 4, most=2)
    np.testing.assert_array_equal(made(graph, SUMS), wanted)
    assert len(np.unique(wanted)) > 20


@pytest.mark.adapter
@pytest.mark.parametrize("shift", [-24, -28, -31])
def test_channels_of_tiny_factors(shift: int) -> None:
    """Weights of a channel that does not matter may be as large as others, so that sums are."""
    numbers = RANDOM.integers(-(1 << 17), 1 << 17, SIZE)
    fractions = RANDOM.integers(ONE // 2, ONE, SIZE)
    wanted = np.zeros(SIZE, np.int64)
    wanted[::2] = np.clip(
        multiplied(numbers[::2], list(map(int, fractions[::2])), -9), -128 - ZERO, 127 - ZERO
    )
    factors = np.ldexp(fractions.astype(float), np.where(np.arange(SIZE) % 2, shift, -9) - 31)
    np.testing.assert_array_equal(made(layer(numbers, factors, 4), SUMS), wanted)
    assert len(np.unique(wanted)) > 200


@pytest.mark.adapter
@pytest.mark.parametrize(("most", "step"), [(1, "requantized_small_sums"), (2, "requantized_sums")])
def test_sums_about_22_bits(most: int, step: str) -> None:
    """Sums below 2^22 become floats without a conversion."""
    limit = (1 << 22) * most - 1 - 4 * 135 * 127
    numbers = RANDOM.integers(-limit, limit, SIZE)
    numbers[::2] //= 8 * most
    numbers[:2] = limit, -limit
    fractions = RANDOM.integers(ONE // 2, ONE, SIZE)
    wanted = np.clip(multiplied(numbers, list(map(int, fractions)), -12), -128 - ZERO, 127 - ZERO)
    graph = layer(numbers, np.ldexp(fractions.astype(float), -43), 4)
    np.testing.assert_array_equal(made(graph, step), wanted)
    assert len(np.unique(wanted)) > 200


@pytest.mark.adapter
def test_sums_beyond_int32() -> None:
    """They wrap around, as those of hosts: a bias decides alone only where they do not."""
    graph = layer(np.full(SIZE, -(1 << 31) - 1), np.full(SIZE, 2.0**-26), 4, most=2)
    assert (made(graph, "requantized") == 32).all()


@pytest.mark.adapter
@pytest.mark.parametrize("rounding", ["fixed_point", "even"])
def test_biases_beyond_int32(rounding: str) -> None:
    """A bias of real numbers counts, though a tiny scale of weights would make it larger."""
    b = Net()
    x = b.input(INPUT, "i8", Quantization((0.5,), (7,)))
    scale = np.where(np.arange(8) % 2, 0.01, 1e-12)
    data = b.random.integers(-127, 128, (8, 1, 1, 4)).astype(np.int8)
    weights = b.constant(data, "i8", Quantization(tuple(map(float, scale)), (0,) * 8, 0))
    bias = np.float32(np.arange(8) * 9 - 40)
    held = Quantization((1.0,), (ZERO,), rounding=rounding)
    made = Tensor("", (), "i8", None, held)
    graph = b.graph(b.op("conv_2d", x, weights, b.constant(bias), made=made, **WINDOW))
    own = adapter.open_device(adapter.select(None)).target
    for tuning in ({}, BYTES):
        plan = compiler.compile(graph, replace(own, tuning=tuning))
        found = results(plan, np.full(INPUT, 9, np.int8)).astype(np.int64) - ZERO
        exact = data.sum((1, 2, 3)) * scale + bias
        assert np.abs(found - exact).max() < 0.51


@pytest.mark.adapter
def test_halves_to_even() -> None:
    factors = np.float32(RANDOM.uniform(0.001, 0.5, SIZE))
    factors[: SIZE // 2] = 0.5
    numbers = RANDOM.integers(-700, 700, SIZE)
    numbers[:9] = 1 << 24
    exact = [
        round(Fraction(int(n)) * Fraction(float(f))) for n, f in zip(numbers, factors, strict=True)
    ]
    graph = layer(numbers, factors, 4, "even")
    np.testing.assert_array_equal(
        made(graph, "rescaled_sums"), np.clip(exact, -128 - ZERO, 127 - ZERO)
    )
