"""Results of kernels on a driver only as exact as WGSL requires: levels at halves, results
near the ends of float32, and functions whose value is known.

test_worst_driver.py runs this on drivers that are that inexact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ops.test_fixed_point import stepped
from tests.support.harness import run_graph
from tests.support.net import Net
from tflgpu_plugin.ir import Array, EpilogueOp

pytestmark = pytest.mark.adapter


def beside_halves(scale: np.float32, most: int) -> Array:
    """Returns the floats at and next to (k + 1/2) scale, for |k| below `most`."""
    numbers = np.unique(np.linspace(-most, most, 1024).astype(np.int64)) + 0.5
    values = (numbers * np.float64(scale)).astype(np.float32)
    near = [values]
    for _ in range(3):
        near += [np.nextafter(near[-1], np.float32(np.inf))]
    below = [values]
    for _ in range(3):
        below += [np.nextafter(below[-1], np.float32(-np.inf))]
    return np.concatenate([*near, *below[1:]])


def away(v: Array) -> Array:
    """Returns the values rounded to integers, halves away from zero."""
    return np.where(np.abs(v - np.trunc(v)) >= 0.5, np.trunc(v) + np.sign(v), np.trunc(v))


@pytest.mark.parametrize("most", [127, 255, 32_767])
@pytest.mark.parametrize(
    ("step", "more", "rounded"),
    [("fake_quant_even", (), np.rint), ("fake_quant", (1.0, 0.0), away)],
)
def test_levels_are_those_of_rounded_quotients(
    step: str, more: tuple[float, ...], rounded: Callable[[Array], Array], most: int
) -> None:
    """Hosts divide in float32, rounded to the nearest, and round that: exact quotients beside a
    half become the half."""
    random = np.random.default_rng(most)
    for scale in (*np.float32([0.125, 1 / 255, 3.0]), *random.uniform(1e-4, 0.1, 9).astype("f4")):
        values = beside_halves(scale, most)
        levels = (float(scale), -most - 1.0, most + 1.0)
        got = stepped(values.reshape(1, 1, 1, -1), EpilogueOp(step, None, (*levels, *more)))
        wanted = rounded(values / scale).clip(-most - 1, most + 1).astype(np.float32) * scale
        np.testing.assert_array_equal(got.reshape(-1), wanted)


def computed(op: str, *given: Array) -> Array:
    b = Net()
    inputs = tuple(b.input(values.shape) for values in given)
    y = b.op(op, *inputs)
    return run_graph(b.graph(y), dict(zip(inputs, given, strict=True)))[y]


@pytest.mark.parametrize("kind", ["integers", "numbers", "one divisor"])
def test_quotients_are_rounded_as_hosts_round_them(kind: str) -> None:
    """Rounding a quotient to a level gives the hosts' level."""
    random, shape = np.random.default_rng(7), (64, 1024)
    values, divisors = (random.uniform(-9, 9, shape).astype(np.float32) for _ in range(2))
    if kind == "integers":
        values, divisors = np.round(40 * values), np.abs(np.round(20 * divisors)) + 1
    if kind == "one divisor":
        divisors[:] = np.float32(5 / 255)
    wrong = computed("div", values, divisors) != values / divisors
    assert wrong.mean() <= 4e-6 + 1 / wrong.size


@pytest.mark.parametrize(
    ("op", "relation"),
    [("equal", np.equal), ("not_equal", np.not_equal), ("less", np.less),
     ("less_equal", np.less_equal), ("greater", np.greater), ("greater_equal", np.greater_equal)],
)  # fmt: skip
def test_comparisons_with_nan_are_false(op: str, relation: Callable[..., Array]) -> None:
    """All but "not equal", whichever comparisons a device takes for others."""
    values = np.float32([np.nan, -np.inf, -1, -0.0, 0, 1, np.inf])
    first, second = (np.ascontiguousarray(v) for v in np.meshgrid(values, values))
    np.testing.assert_array_equal(computed(op, first, second), relation(first, second))


@pytest.mark.parametrize(
    ("op", "known", "units"),
    [("exp", 1.0, 0), ("sinh", 0.0, 0), ("tanh", 0.0, 0), ("logistic", 0.5, 1), ("cosh", 1.0, 3)],
)
def test_values_at_zero(op: str, known: float, units: int) -> None:
    """Without an error where none is asked for: exp(0) decides what one element is by itself."""
    found = computed(op, np.zeros((1, 8), np.float32))
    np.testing.assert_allclose(found, known, rtol=units * 2.0**-24, atol=0)


@pytest.mark.parametrize(
    ("op", "least", "most", "function"),
    [
        ("cosh", 87.0, 89.3, np.cosh),
        ("sinh", -89.3, -87.0, np.sinh),
        ("exp", 85.0, 88.7, np.exp),
        ("exp", -87.0, -80.0, np.exp),
        ("mish", -90.0, -70.0, lambda v: v * np.tanh(np.log1p(np.exp(v)))),
    ],
)
def test_ends_of_float32(
    op: str, least: float, most: float, function: Callable[[Array], Array]
) -> None:
    """Factors on the way are within float32 in whatever order they are multiplied."""
    values = np.linspace(least, most, 512).astype(np.float32).reshape(1, -1)
    wanted = function(values.astype(np.float64))
    normal = np.abs(wanted) > 2.0**-125
    np.testing.assert_allclose(computed(op, values)[normal], wanted[normal], rtol=2e-6)


@pytest.mark.parametrize("op", ["erf", "exp", "relu6", "tanh", "hard_swish", "sinh", "cosh"])
def test_nan_stays(op: str) -> None:
    values = np.float32([[np.nan, 1.0, np.nan, -2.0, 0.0]])
    assert np.isnan(computed(op, values)).tolist() == np.isnan(values).tolist()
