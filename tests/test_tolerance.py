"""The tolerance table: what a bound lets through and what it must not."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.tolerance import (
    CLASSES,
    IN_8_BITS,
    UNIT,
    Bound,
    accumulation,
    bound,
    compare,
    in_8_bits,
    magnitude,
)
from tflgpu_plugin import ops

ONE = np.ones((2, 3), np.float32)


def test_exact_lets_nothing_through() -> None:
    assert compare(ONE, ONE.copy(), bound("exact")).passed
    assert not compare(ONE, np.nextafter(ONE, np.float32(2)), bound("exact")).passed


def test_the_worst_element_is_named() -> None:
    got = ONE.copy()
    got[1, 2] = 1.5
    verdict = compare(ONE, got, bound("elementwise"))
    assert not verdict.passed
    assert (verdict.index, verdict.expected, verdict.got) == ((1, 2), 1.0, 1.5)
    assert "[1, 2]" in str(verdict)


@pytest.mark.parametrize("accuracy", [name for name in CLASSES if name != "exact"])
def test_ulps_and_no_more(accuracy: str) -> None:
    allowed = Bound(bound(accuracy).ulp, 0.0)
    inside = ONE + np.float32(allowed.ulp * 2 * UNIT)
    outside = ONE + np.float32((allowed.ulp + 1) * 2 * UNIT)
    assert compare(ONE, inside, allowed).passed
    assert not compare(ONE, outside, allowed).passed


def test_sums_that_cancel_have_a_floor() -> None:
    zero, noise = np.zeros(4, np.float32), np.full(4, 64 * UNIT, np.float32)
    assert compare(zero, noise, bound("accumulate", terms=100)).passed
    assert not compare(zero, noise, bound("accumulate", terms=9, term=0.5)).passed
    assert not compare(zero, noise, bound("accumulate", terms=100, term=0.1)).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_be_met(value: float) -> None:
    wanted = np.array([1.0, value], np.float32)
    assert compare(wanted, wanted.copy(), bound("accumulate")).passed
    assert not compare(wanted, ONE[0, :2], bound("accumulate")).passed
    assert not compare(ONE[0, :2], wanted, bound("accumulate")).passed


def test_subnormals_may_be_flushed_but_by_arithmetic_only() -> None:
    tiny, zero = np.full(2, 1e-40, np.float32), np.zeros(2, np.float32)
    assert compare(tiny, zero, bound("elementwise")).passed
    assert not compare(tiny, zero, bound("exact")).passed


def test_shape_and_dtype_must_agree() -> None:
    assert not compare(ONE, ONE[:1], bound("accumulate")).passed
    assert not compare(ONE, ONE.astype(np.float16), bound("accumulate")).passed
    assert compare(ONE > 0, ONE > 0, bound("exact")).passed
    assert not compare(ONE > 0, ONE > 1, bound("exact")).passed


def test_accumulation_lengths() -> None:
    image = (1, 8, 8, 6)
    assert accumulation("CONV_2D", [image, (5, 3, 3, 2), None], [(1, 8, 8, 5)]) == 18
    assert accumulation("DEPTHWISE_CONV_2D", [image, (1, 3, 3, 6)], [image]) == 9
    assert accumulation("TRANSPOSE_CONV", [(4,), (5, 2, 2, 6), image], [(1, 16, 16, 5)]) == 24
    assert accumulation("MEAN", [image, (2,)], [(1, 6)]) == 64
    assert accumulation("RELU", [image], [image]) == 1
    assert magnitude("MEAN", [2.0], 64) == 2.0 / 64
    assert magnitude("CONV_2D", [2.0, 3.0, 100.0], 18) == 6.0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("rule", IN_8_BITS)
def test_results_in_8_bits_are_as_near_as_the_row_says(rule: str, dtype: type) -> None:
    limits, steps = np.iinfo(dtype), IN_8_BITS[rule]
    expected = np.full(99, limits.max, dtype)
    for off, passes in ((0, True), (steps, True), (steps + 1, False), (255, False)):
        got = expected.copy()
        got[7] = limits.max - off
        assert in_8_bits(rule, expected, got).passed == passes
    assert not in_8_bits(rule, expected, expected.astype(np.int16)).passed


def test_every_row_names_a_rule_for_8_bits() -> None:
    assert {row.in_8_bits for row in ops.table().values()} <= set(IN_8_BITS)
