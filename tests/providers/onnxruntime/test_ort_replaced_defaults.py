"""Tests inputs with a default that a run replaces, like LoRA adapters: a plan made for the default
is never used for another value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import Array, cpu, model, node, session

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
DEFAULT = np.arange(1, 9, dtype=np.float32)


def another(place: int) -> Array:
    """Returns the default with one element changed."""
    made = DEFAULT.copy()
    made[place] = -3
    return made


@pytest.mark.parametrize(
    "given",
    [another(0), another(4), another(-1), DEFAULT[:1], DEFAULT[:1] * 2, -DEFAULT],
    ids=["first", "middle", "last", "shorter", "shorter and other", "all"],
)
def test_no_run_answers_with_a_default_that_was_replaced(given: Array) -> None:
    data = model([node("Mul", ["x", "w"], ["y"])], {"x": X.shape, "w": ("n",)}, {"y": X.shape},
                 {"w": DEFAULT})  # fmt: skip
    ours, theirs = session(data), cpu(data)

    def right(**feed: Any) -> None:
        (wanted,) = theirs.run(None, feed)
        np.testing.assert_allclose(ours.run(None, feed)[0], wanted, rtol=1e-6)

    right(x=X)
    right(x=X, w=DEFAULT)
    right(x=X, w=given)
    right(x=X)
