"""Tests Fourier transforms of ONNX: results equal the CPU's; and the conditions of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, assert_same, model, node, places, session
from tests.support.onnx_nodes import Node

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def check(one: Any, x: Array, held: dict[str, Any], opset: int = 20) -> None:
    data = model([one], {"x": x.shape}, {"y": None}, held, opset)
    assert set(places(assert_same(data, {"x": x})).values()) == {"gpu"}


def signal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.adapter
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3])
def test_dft(parts: int, axis: int) -> None:
    held = {"axis": np.int64(axis)}
    check(node("DFT", ["x", "", "axis"], ["y"]), signal(3, 5, 8, parts), held)


@pytest.mark.adapter
def test_dft_of_older_definitions() -> None:
    check(node("DFT", ["x"], ["y"], axis=2), signal(3, 5, 8, 2), {}, 17)
    check(node("DFT", ["x"], ["y"]), signal(3, 5, 8, 1), {}, 17)


@pytest.mark.adapter
@pytest.mark.parametrize("count", [4, 7, 11])
@pytest.mark.parametrize("onesided", [0, 1])
def test_dft_of_another_length(count: int, onesided: int) -> None:
    one = node("DFT", ["x", "n", "axis"], ["y"], onesided=onesided)
    check(one, signal(2, 7, 1), {"n": np.int64(count), "axis": np.int64(1)})


@pytest.mark.adapter
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("count", [None, 6, 11])
def test_inverse(parts: int, count: int | None) -> None:
    held: dict[str, Any] = {"axis": np.int64(1)}
    held |= {} if count is None else {"n": np.int64(count)}
    one = node("DFT", ["x", "n" if count else "", "axis"], ["y"], inverse=1)
    check(one, signal(3, 8, 5, parts), held)


@pytest.mark.adapter
@pytest.mark.parametrize("count", [None, 14, 15])
def test_inverse_of_half(count: int | None) -> None:
    x, held = signal(3, 8, 5, 2), {"axis": np.int64(1)}
    held |= {} if count is None else {"n": np.int64(count)}
    one = node("DFT", ["x", "n" if count else "", "axis"], ["y"], inverse=1, onesided=1)
    check(one, x, held)
    (got,) = session(model([one], {"x": x.shape}, {"y": None}, held, 20)).run(None, {"x": x})
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1].astype(float), count, axis=1)[..., None]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


@pytest.mark.adapter
@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided: int) -> None:
    held: dict[str, Any] = {"step": np.int64(3), "window": np.hanning(8).astype(np.float32)}
    one = node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)
    check(one, signal(2, 30, 1), held)
    held = {"step": np.int64(5), "length": np.int64(6)}
    one = node("STFT", ["x", "step", "", "length"], ["y"], onesided=onesided)
    check(one, signal(2, 31, 1), held)


def dft(shape: Any = (2, 8, 1), count: Any = None, axis: Any = 1, **given: Any) -> Node:
    asked = None if count is None else np.int64(count)
    return Node("DFT", shape, asked, np.int64(axis), version=20, **given)


def stft(shape: Any = (2, 30, 1), step: int = 3, window: Any = (8,), count: Any = None,
         **given: Any) -> Node:  # fmt: skip
    asked = None if count is None else np.int64(count)
    return Node("STFT", shape, np.int64(step), window, asked, version=17, **given)


PAIRS, FRAMES = "shape.unsupported", "shape.unsupported"
BOUNDS: list[tuple[Node, str]] = [
    (dft(), ""),
    (dft((2, 8, 2)), ""),
    (dft((2, 8, 3)), PAIRS),
    (dft((8,), axis=0), PAIRS),
    (dft(axis=2), PAIRS),
    (dft((2, 8, 1), onesided=1), ""),
    (dft((2, 8, 2), onesided=1), PAIRS),
    (dft((2, 8, 2), inverse=1), ""),
    (dft((2, 8, 2), inverse=1, onesided=1), ""),
    (dft((2, 8, 2), inverse=1, onesided=1, count=15), ""),
    (dft((2, 8, 2), inverse=1, onesided=1, count=16), "host.ambiguous"),
    (dft((2, 8, 2), inverse=1, onesided=1, count=13), "host.ambiguous"),
    (dft((2, 8, 1), inverse=1, onesided=1), PAIRS),
    (dft((2, 1, 2), inverse=1, onesided=1), PAIRS),
    (dft((1, 724, 2), inverse=1, onesided=1), ""),
    (dft((1, 725, 2), inverse=1, onesided=1), PAIRS),
    (dft((2, 8, 1), count=0), PAIRS),
    (dft((1, 1024, 2)), ""),
    (dft((1, 1025, 2)), PAIRS),
    (stft(), ""),
    (stft((2, 30)), ""),
    (stft((30,)), FRAMES),
    (stft((2, 30, 3)), FRAMES),
    (stft((2, 30, 2)), FRAMES),
    (stft((2, 30, 2), onesided=0), ""),
    (stft(step=0), FRAMES),
    (stft(window=None), FRAMES),
    (stft(window=None, count=8), ""),
    (stft(count=7), FRAMES),
    (stft(window=(31,)), FRAMES),
    (stft(window=(30,)), ""),
    (stft((1, 3000, 1), window=(1448,)), ""),
    (stft((1, 3000, 1), window=(1449,)), FRAMES),
]


@pytest.mark.adapter
def test_positions_that_are_known_cost_no_dispatch() -> None:
    """They are a constant: there is one gather besides the copies in and out, the window and the
    product."""
    held = {"s": np.int64(160), "w": np.hanning(400).astype(np.float32), "l": np.int64(400)}
    stft = node("STFT", ["x", "s", "w", "l"], ["y"], onesided=1)
    data = model([stft], {"x": (1, 16000, 1)}, {"y": None}, held, opset=18)
    (partition,) = tflgpu_plugin.report(session(data)).partitions
    assert partition.dispatches <= 7


@pytest.mark.parametrize(("one", "wanted"), BOUNDS)
def test_a_row_asks_for_what_it_needs_and_no_more(one: Node, wanted: str) -> None:
    assert one.code == wanted, one.reason
