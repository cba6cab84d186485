"""Tests the table of tolerances: what a bound accepts and what it must not."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.tolerance import (
    CLASSES,
    IN_8_BITS,
    RULES,
    UNIT,
    Bound,
    bound,
    compare,
    in_8_bits,
)
from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array

ONE = np.ones((2, 3), np.float32)
EXACT = Bound(0.0, 0.0)


def around(values: Array, accuracy: str, moved: float = 0.0, terms: int = 1) -> Bound:
    """Returns the bound of a class of outputs whose values all change by so much when inputs are
    rounded."""
    wide = values.astype(np.float64)
    return bound(accuracy, wide, np.full(wide.shape, moved), terms)


def test_exact_lets_nothing_through() -> None:
    assert around(ONE, "exact") == EXACT
    assert compare(ONE, ONE.copy(), EXACT).passed
    assert not compare(ONE, np.nextafter(ONE, np.float32(2)), EXACT).passed


def test_the_worst_element_is_named() -> None:
    got = ONE.copy()
    got[1, 2] = 1.5
    verdict = compare(ONE, got, around(ONE, "elementwise"))
    assert not verdict.passed
    assert (verdict.index, verdict.expected, verdict.got) == ((1, 2), 1.0, 1.5)
    assert "[1, 2]" in str(verdict)


@pytest.mark.parametrize("accuracy", [name for name in CLASSES if name != "exact"])
def test_ulps_and_no_more(accuracy: str) -> None:
    allowed = Bound(CLASSES[accuracy].ulp, 0.0)
    inside = ONE + np.float32(allowed.ulp * 2 * UNIT)
    outside = ONE + np.float32((allowed.ulp + 1) * 2 * UNIT)
    assert compare(ONE, inside, allowed).passed
    assert not compare(ONE, outside, allowed).passed


def test_an_element_has_what_its_own_condition_gives() -> None:
    """Two results are equal, but one is a difference of numbers a thousand times as large."""
    moved, off = np.array([UNIT, 1000 * UNIT]), np.float32(1 + 500 * UNIT)
    allowed = bound("accumulate", np.ones(2), moved, terms=2)
    one = np.ones(2, np.float32)
    assert compare(one, np.array([1, off], np.float32), allowed).passed
    assert not compare(one, np.array([off, 1], np.float32), allowed).passed


def test_what_is_large_elsewhere_buys_nothing() -> None:
    values = np.array([1e30, 1.0], np.float32)
    wrong = np.array([1e30, 1.001], np.float32)
    assert not compare(values, wrong, around(values, "reduction", terms=1000)).passed


@pytest.mark.parametrize("terms", [1, 9, 4608, 1_000_003])
def test_sums_may_be_off_as_random_roundings_add_up(terms: int) -> None:
    """The bound is neither the worst case of a sum in float32, nor 0.1 %."""
    allowed = around(ONE, "reduction", moved=UNIT, terms=terms)
    assert allowed.absolute.max() <= 8 * UNIT * min(terms**0.5, terms)
    assert not compare(ONE, ONE * np.float32(1.001), allowed).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_be_met(value: float) -> None:
    wanted = np.array([1.0, value], np.float32)
    allowed = around(wanted, "accumulate")
    assert compare(wanted, wanted.copy(), allowed).passed
    assert not compare(wanted, ONE[0, :2], allowed).passed
    assert not compare(ONE[0, :2], wanted, around(ONE[0, :2], "accumulate")).passed


def test_subnormals_may_be_flushed_but_by_arithmetic_only() -> None:
    tiny, zero = np.full(2, 1e-40, np.float32), np.zeros(2, np.float32)
    assert compare(tiny, zero, around(tiny, "elementwise")).passed
    assert not compare(tiny, zero, EXACT).passed
    small = np.full(2, 2e-38, np.float32)
    assert not compare(small, zero, around(small, "elementwise")).passed


def test_the_true_value_counts_where_the_expected_one_is_off() -> None:
    allowed = around(ONE, "elementwise")
    assert compare(ONE * np.float32(1.01), ONE, allowed).passed
    assert not compare(ONE * np.float32(1.01), ONE * np.float32(1.01), allowed).passed


def test_shape_and_dtype_must_agree() -> None:
    allowed = around(ONE, "accumulate")
    assert not compare(ONE, ONE[:1], allowed).passed
    assert not compare(ONE, ONE.astype(np.float16), allowed).passed
    assert compare(ONE > 0, ONE > 0, EXACT).passed
    assert not compare(ONE > 0, ONE > 1, EXACT).passed


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("rule", IN_8_BITS)
def test_results_in_8_bits_are_as_near_as_the_row_says(rule: str, dtype: type) -> None:
    limits, (steps, share) = np.iinfo(dtype), IN_8_BITS[rule]
    expected = np.full(20_000, limits.max, dtype)
    for off, passes in ((0, True), (steps, True), (steps + 1, False), (255, False)):
        got = expected.copy()
        got[7] = limits.max - off
        assert in_8_bits(rule, expected, got).passed == passes
    assert not in_8_bits(rule, expected, expected.astype(np.int16)).passed
    got = expected.copy()
    got[: 1 + int(share * expected.size)] -= dtype(1)
    assert not in_8_bits(rule, expected, got).passed


def test_rules_for_8_bits_are_for_ops_that_there_are() -> None:
    assert set(RULES.values()) <= set(IN_8_BITS) and RULES.keys() <= ops.rows().keys()
