"""Sine, cosine, tangent, roots and remainders of any float, and powers of both zeros, against
float64."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as onnx
from tests.support.harness import run_graph
from tests.support.net import Net

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


def test_roots_of_any_magnitude() -> None:
    x = np.concatenate([10.0 ** RANDOM.uniform(-37, 38.5, 4000), 2.0 ** np.arange(-126, 128)])
    x = x.astype(np.float32)
    np.testing.assert_allclose(_run("Sqrt", x=x), np.sqrt(x.astype(np.float64)), rtol=1e-6)
    b = Net()
    given = b.input(x.shape)
    made = b.op("rsqrt", given)
    got = run_graph(b.graph(made), {given: x})[made]
    np.testing.assert_allclose(got, 1 / np.sqrt(x.astype(np.float64)), rtol=1e-6)


def test_remainders_are_exact() -> None:
    """Remainders are exact like those of C's fmod, whatever the quotient."""
    v, e = (10.0 ** RANDOM.uniform(-30, 38, 4000) * RANDOM.choice([-1, 1], 4000) for _ in "ve")
    ends = np.float32([0.0, -0.0, 1.0, -1.0, 3e38, np.inf, -np.inf, np.nan, 2.5, -7.0, 2.0**-126])
    pairs = [a.reshape(-1) for a in np.meshgrid(ends, ends)]
    e = np.concatenate([e, pairs[1], np.full(81, 1.25), v[:500] / 7]).astype(np.float32)
    v = np.concatenate([v, pairs[0], np.arange(-40, 41) * 0.25, v[:500]]).astype(np.float32)
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(v, e)
    for same in (v, wanted):  # a device may have no numbers below
        same[np.abs(same) < 2.0**-126] *= 0
    b = Net()
    x, y = b.input(v.shape), b.input(v.shape)
    z = b.op("fmod", x, y)
    got = run_graph(b.graph(z), {x: v, y: e})[z]
    np.testing.assert_array_equal(got, wanted)


def test_powers_of_zeros() -> None:
    exponents = np.float32([-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, np.inf, -np.inf])
    x, y = (a.copy() for a in np.meshgrid(np.float32([0.0, -0.0]), exponents))
    got = _run("Pow", x=x, y=y)
    with np.errstate(divide="ignore"):
        wanted = np.power(x.astype(np.float64), y)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
