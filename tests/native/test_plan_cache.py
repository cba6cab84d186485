"""Tests the plans that a partition of onnxruntime keeps: the eight most recently used ones, by the
shapes and numbers of their inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import add_relu, cpu, session
from tflgpu_plugin import engine

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
KEPT = 8
BITS = range(6)


def shape(number: int) -> tuple[int, ...]:
    """Returns the number's shape: an extent is 2 where its bit is set, else 1. An extent of 1 is
    never a symbol, so no plan holds for two numbers."""
    return (*(1 + (number >> bit & 1) for bit in BITS), 5)


class Runs:
    """Runs a model with dynamic extents and keeps the list of the plans that are built for it."""

    def __init__(self, built: list[Any]) -> None:
        self.built = built
        data = add_relu((*(f"n{bit}" for bit in BITS), 5))
        self.ours, self.theirs = session(data), cpu(data)

    def __call__(self, *numbers: int) -> list[int]:
        """Returns the numbers for whose shapes a plan was built; every answer is right."""
        before = len(self.built)
        for number in numbers:
            x = np.random.default_rng(number).standard_normal(shape(number)).astype(np.float32)
            (got,), (wanted,) = (s.run(None, {"x": x}) for s in (self.ours, self.theirs))
            np.testing.assert_allclose(got, wanted, atol=1e-6)
        shapes = [instance.plan.inputs[0].shape for _, instance in self.built[before:]]
        return [sum((one[bit] - 1) << bit for bit in BITS) for one in shapes]


@pytest.fixture
def runs() -> Iterator[Runs]:
    with engine.watch() as built:
        made = Runs(built)
        made(*range(11, 11 + KEPT))  # whatever the session was made with is gone
        yield made


def test_the_last_shapes_are_kept(runs: Runs) -> None:
    again = range(11, 11 + KEPT)
    assert runs(*again) == [] and runs(*reversed(again)) == []


def test_what_was_used_least_recently_goes(runs: Runs) -> None:
    assert runs(11) == []  # now 12 is the oldest
    assert runs(30) == [30]
    assert runs(11, 13, 14, 15, 16, 17, 18, 30) == []
    assert runs(12) == [12]  # and 11 goes
    assert runs(13, 14, 15, 16, 17, 18, 30, 12) == []
    assert runs(11) == [11]  # and 13 goes
    assert runs(13) == [13]


def test_a_run_takes_the_plan_of_its_own_shapes(runs: Runs) -> None:
    """The plan may be at any position of the list, after some have been replaced."""
    runs(40, 41, 42)
    assert runs(18, 42, 14, 41, 15, 40, 16, 17) == []
