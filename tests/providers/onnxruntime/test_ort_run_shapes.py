"""Tests run-time shapes with which the model cannot run: the error is of the host's type, and
nothing else changes. The provider stays, and valid shapes run as before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import EP, Array, cpu, model, node, quiet

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

SIZES = ((8, 8), (5, 5), (4, 4), (3, 7), (7, 2), (1, 1))
FILTERS = np.random.default_rng(3).standard_normal((2, 3, 5, 5)).astype(np.float32)
PADDED: dict[str, Any] = {"kernel_shape": [5, 5], "strides": [2, 2], "pads": [1, 1, 1, 1]}
WINDOW: dict[str, Any] = {"kernel_shape": [5, 5]}

MODELS: dict[str, tuple[Sequence[Any], dict[str, Array]]] = {
    "conv": ([node("Conv", ["x", "w"], ["y"])], {"w": FILTERS}),
    "conv, padded": ([node("Conv", ["x", "w"], ["y"], **PADDED)], {"w": FILTERS}),
    "max pool": ([node("MaxPool", ["x"], ["y"], **WINDOW)], {}),
    "max pool, rounding up": (
        [node("MaxPool", ["x"], ["y"], ceil_mode=1, strides=[2, 2], **WINDOW)], {}
    ),
    "average pool": ([node("AveragePool", ["x"], ["y"], **WINDOW)], {}),
    "lp pool": ([node("LpPool", ["x"], ["y"], **WINDOW)], {}),
    "add": ([node("Add", ["x", "w"], ["y"])], {"w": FILTERS[:1]}),
    "reshape": ([node("Reshape", ["x", "s"], ["y"])], {"s": np.array([-1, 12])}),
    "concat": ([node("Concat", ["x", "w"], ["y"], axis=1)], {"w": FILTERS[:1]}),
    "matmul": ([node("MatMul", ["x", "w"], ["y"])], {"w": FILTERS[0]}),
    "split": ([node("Split", ["x", "s"], ["a", "y"], axis=2)], {"s": np.array([1, 4])}),
}  # fmt: skip


def _session(data: bytes) -> Any:
    """Returns a session on our provider, with the host's default fallback."""
    import onnxruntime

    tflgpu_plugin.register()
    return onnxruntime.InferenceSession(data, quiet(), providers=[EP, "CPUExecutionProvider"])


@pytest.mark.parametrize("name", MODELS)
def test_shapes_that_cannot_be_are_an_error_where_the_host_has_one(name: str) -> None:
    """It is the host's own error, of its type and with its message."""
    nodes, constants = MODELS[name]
    data = model(nodes, {"x": ("n", 3, "h", "w_")}, {"y": None}, constants)
    ours, theirs = _session(data), cpu(data)
    failed = 0
    for height, width in (*SIZES, SIZES[0], SIZES[1]):
        feed = {"x": np.random.default_rng(1).random((1, 3, height, width), np.float32)}
        try:
            (wanted,) = theirs.run(None, feed)
        except Exception as error:
            failed += 1
            with pytest.raises(type(error)) as caught:
                ours.run(None, feed)
            assert str(error).rsplit("Status Message: ", 1)[-1] in str(caught.value)
        else:
            (got,) = ours.run(None, feed)
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, atol=1e-5)
        assert ours.get_providers()[0] == EP
    assert failed
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert partition.runs + partition.host_runs == len(SIZES) + 2 - failed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("conv", "Invalid input shape: {1,1}"),
        ("max pool", "Calculated output dimension is negative"),
    ],
)
def test_the_error_has_the_words_of_the_host(name: str, words: str) -> None:
    nodes, constants = MODELS[name]
    data = model(nodes, {"x": ("n", 3, "h", "w_")}, {"y": None}, constants)
    feed = {"x": np.ones((1, 3, 1, 1), np.float32)}
    with pytest.raises(Exception, match=words.replace("{", "[{]")):
        cpu(data).run(None, feed)
    with pytest.raises(Exception) as caught:
        _session(data).run(None, feed)
    assert words in str(caught.value)
