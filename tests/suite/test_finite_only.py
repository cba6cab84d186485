"""The suite skips non-finite values on a driver that computes no infinity or NaN."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import cases, tolerance

NOT_FINITE = np.array([1.0, np.inf, np.nan], np.float32)


def test_an_answer_that_is_not_finite_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, allowed = np.array([1.0, 2.0, 3.0], np.float32), tolerance.Bound(0.0, 0.0)
    assert not tolerance.compare(NOT_FINITE, wrong, allowed).passed
    monkeypatch.setattr(tolerance, "FINITE_ONLY", True)
    assert tolerance.compare(NOT_FINITE, wrong, allowed).passed
    assert not tolerance.compare(-NOT_FINITE, wrong, allowed).passed
    assert not tolerance.compare(wrong, NOT_FINITE, allowed).passed


def test_cases_that_are_given_what_is_not_finite_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = {case.name for case in cases.listed("detection", "CASES")}
    monkeypatch.setattr(tolerance, "FINITE_ONLY", True)
    left = {case.name for case in cases.listed("detection", "CASES")}
    assert "odd_scores" in every - left
    assert len(left) > len(every) / 2
