"""Sine, cosine and tangent of any float, and powers of both zeros, against float64."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests import onnx_models as onnx

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed"),
]
RANDOM = np.random.default_rng(3)


def _run(op: str, **feeds: Any) -> Any:
    inputs = {name: value.shape for name, value in feeds.items()}
    session = onnx.session(onnx.model([onnx.node(op, list(feeds), ["z"])], inputs, {"z": None}))
    tflgpu_plugin.assert_used(session)
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("function", [np.sin, np.cos, np.tan])
def test_any_magnitude(function: Callable[[Any], Any]) -> None:
    size = np.concatenate([10.0 ** RANDOM.uniform(-3, 38.5, 4000), 2.0 ** np.arange(128)])
    x = np.concatenate([size, -size]).astype(np.float32)
    got = _run(function.__name__.title(), x=x)
    np.testing.assert_allclose(got, function(x.astype(np.float64)), rtol=1e-6)
    assert np.isnan(_run(function.__name__.title(), x=np.float32([np.inf, -np.inf, np.nan]))).all()


def test_powers_of_zeros() -> None:
    exponents = np.float32([-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, np.inf, -np.inf])
    x, y = (a.copy() for a in np.meshgrid(np.float32([0.0, -0.0]), exponents))
    got = _run("Pow", x=x, y=y)
    with np.errstate(divide="ignore"):
        wanted = np.power(x.astype(np.float64), y)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
