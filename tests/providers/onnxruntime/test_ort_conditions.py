"""Tests conditions of ONNX rows at their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.providers.onnxruntime.test_ort_reader import one

HALF, NONE = np.float32(0.5), np.float32(0)


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ((), True),
        ((HALF,), True),
        ((HALF, np.array(False)), True),
        ((HALF, np.array(True)), False),
        ((NONE, np.array(True)), True),
        ((None, np.array(True)), False),
    ],
)
def test_dropout_drops_nothing(given: tuple[Any, ...], runs: bool) -> None:
    """It is not in training mode, or its ratio is 0."""
    assert (one("Dropout", (2, 3), *given, version=13).refusals == {}) == runs
