"""Tests that a measurement is repeated, and how often."""

from __future__ import annotations

import pytest

from tests.support.measured import TRIES, measured


@pytest.mark.parametrize("wrong", range(TRIES))
def test_one_good_measurement_is_enough(wrong: int) -> None:
    tried = list[int]()

    @measured
    def bounded(limit: int) -> None:
        tried.append(limit)
        assert len(tried) > limit

    bounded(limit=wrong)
    assert tried == [wrong] * (wrong + 1)


def test_what_is_always_too_much_fails() -> None:
    tried = list[int]()

    @measured
    def bounded() -> None:
        tried.append(0)
        raise AssertionError("too much")

    with pytest.raises(AssertionError, match="too much"):
        bounded()
    assert len(tried) == TRIES
