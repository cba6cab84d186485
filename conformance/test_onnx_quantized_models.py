"""Whole quantized ONNX models through our provider, end to end, each input by itself: nearly every
node is ours, and 99 % of the values are within two steps of what they should be.

That is exact integer arithmetic, and the CPU provider where it is exact on this CPU. After the 35
layers of a file an answer may be further from the former: one number in 8 million that is a half
but for the last bit of float32 is rounded the other way, and moves what is after it. There every
layer is judged by exact arithmetic over what it was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from conformance import onnx_host
from conformance.models import model_inputs, onnx_layers, onnx_models
from conformance.models.real_models import stem
from conformance.references import integers
from conformance.test_onnx_quantized import quiet, sessions
from conformance.variants import onnx_quantized

__all__ = ["quiet"]  # a fixture

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.onnxruntime,
    pytest.mark.dtype("i8", "u8"),
    pytest.mark.skipif(not onnx_models.entries(), reason=model_inputs.ABSENT_ONNX),
]

# Float models of `../shared` that the quantizer takes.
REAL = ("yunet_n_320", "face_detection_short_range")
WHOLE_SHARE, MANY, CLOSE = 0.95, 0.99, 2.5  # of the nodes ours; of the values, in steps
HALVES = 1e-6  # of the values of all layers, that are rounded the other way


def _real() -> dict[str, dict[str, Any]]:
    return {stem(entry): entry for entry in onnx_models.entries()}


@pytest.mark.parametrize("form", onnx_quantized.FORMATS)
@pytest.mark.parametrize("name", REAL)
def test_real_model(name: str, form: str, pytestconfig: pytest.Config) -> None:
    feeds = onnx_models.feeds(_real()[name])
    path = model_inputs.path(_real()[name])
    model = onnx_quantized.quantized(path, feeds.values(), form, ("u8", "i8", False))
    ours, theirs = _sessions(model, pytestconfig)
    for feed in feeds.values():
        results = ours.run(None, feed)
        for expected in integers.witnesses(model, feed, theirs):
            _assert_near(results, expected, onnx_quantized.steps(model))
    assert not onnx_host.placement(ours).failures


@pytest.mark.parametrize(
    "name", [name for name, entry in _real().items() if entry["kind"] == "quantized"]
)
def test_quantized_file(name: str, pytestconfig: pytest.Config) -> None:
    """A file of `../shared` runs with each picture: each layer is exact, and the class
    that of the CPU provider where that is exact on this CPU."""
    entry = _real()[name]
    (shape,) = onnx_models.FEEDS[name].shapes
    model = model_inputs.path(entry).read_bytes()
    step, layers = _last_step(model), onnx_layers.split(model)
    ours, theirs = _sessions(model, pytestconfig)
    shown, _ = _sessions(layers.shown, pytestconfig)
    for file in sorted((model_inputs.SHARED / "images").glob("*.jp*g")):
        picture = (model_inputs.picture(file, shape) / 127.5 - 1).astype("f4")
        feed = {entry["inputs"][0]["name"]: picture}
        (got,) = ours.run(None, feed)
        (same, *given) = shown.run(None, feed)
        assert np.array_equal(got, same), f"{file.name}: layers that are asked for are others"
        off = onnx_layers.off(layers, feed, given)
        assert off.max() <= 1 and (off > 0).mean() <= HALVES, f"{file.name}: {(off > 0).sum()} off"
        if integers.host_is_exact():
            (expected,) = theirs.run(None, feed)
            _assert_near([got], [expected], [step])
            assert got.argmax() == expected.argmax()
    assert not onnx_host.placement(ours).failures


def _last_step(model: bytes) -> float:
    """Returns the last step of a model whose scales are not all initializers, from its values."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.ModelProto.FromString(model).graph
    values = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in values:
            values[node.output[0]] = values[node.input[0]]
    last = next(node for node in graph.node[::-1] if node.op_type == "DequantizeLinear")
    return float(values[last.input[1]])


def _sessions(model: bytes, pytestconfig: pytest.Config) -> tuple[Any, Any]:
    """Returns our session, with nearly every node on the GPU, and the CPU provider's."""
    ours, theirs = sessions(model, pytestconfig.getoption("--adapter", default=None), True)
    placed = onnx_host.placement(ours)
    assert placed.on_gpu >= WHOLE_SHARE * placed.total, placed.sentences
    return ours, theirs


def _assert_near(results: Any, expected: Any, scales: Iterable[float]) -> None:
    near = 1 - _far(results, expected, scales)
    assert (near >= MANY).all(), near


def _far(results: Any, expected: Any, scales: Iterable[float]) -> Any:
    """Returns for each output the fraction of its values that are far off."""
    triples = zip(results, expected, scales, strict=True)
    return np.array([(np.abs(a.astype(np.float64) - b) / s >= CLOSE).mean() for a, b, s in triples])
