"""Whole quantized ONNX models through our provider, end to end: nearly every node is ours, and 99 %
of the values are within two steps of exact integer arithmetic over all inputs together (one number
that is rounded the other way, a half but for the last bit of float32, moves many behind it), and of
the CPU provider for each input where that is exact on this CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from conformance import integers, model_inputs, onnx_host, onnx_models, onnx_quantized
from conformance.real_models import stem
from conformance.test_onnx_quantized import quiet, sessions

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


def _real() -> dict[str, dict[str, Any]]:
    return {stem(entry): entry for entry in onnx_models.entries()}


@pytest.mark.parametrize("form", onnx_quantized.FORMATS)
@pytest.mark.parametrize("name", REAL)
def test_real_model(name: str, form: str, pytestconfig: pytest.Config) -> None:
    feeds = onnx_models.feeds(_real()[name])
    path = model_inputs.path(_real()[name])
    model = onnx_quantized.quantized(path, feeds.values(), form, ("u8", "i8", False))
    _end_to_end(model, onnx_quantized.steps(model), feeds.values(), pytestconfig)


@pytest.mark.parametrize(
    "name", [name for name, entry in _real().items() if entry["kind"] == "quantized"]
)
def test_quantized_file(name: str, pytestconfig: pytest.Config) -> None:
    """As it is in `../shared`, with each picture that there is: the class is that of the CPU
    provider where that is exact on this CPU, and within its steps the best by exact arithmetic."""
    entry = _real()[name]
    (shape,) = onnx_models.FEEDS[name].shapes
    pictures = sorted((model_inputs.SHARED / "images").glob("*.jp*g"))
    feeds = [
        {entry["inputs"][0]["name"]: (model_inputs.picture(file, shape) / 127.5 - 1).astype("f4")}
        for file in pictures
    ]
    model = model_inputs.path(entry).read_bytes()
    for got, expected, host in _end_to_end(model, [_last_step(model)], feeds, pytestconfig):
        assert all(got.argmax() == theirs.argmax() for theirs in host)
        behind = expected.max() - expected.reshape(-1)[got.argmax()]
        assert behind <= CLOSE * _last_step(model)


def _last_step(model: bytes) -> float:
    """Of a model whose scales are not all initializers: between neighbouring values."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.ModelProto.FromString(model).graph
    values = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in values:
            values[node.output[0]] = values[node.input[0]]
    last = next(node for node in graph.node[::-1] if node.op_type == "DequantizeLinear")
    return float(values[last.input[1]])


def _end_to_end(
    model: bytes, scales: list[float], feeds: Iterable[Any], pytestconfig: pytest.Config
) -> list[tuple[Any, Any, list[Any]]]:
    """The first output, what it should be, and what the host's kernels say where they are exact on
    this CPU, for each input, after all have been judged."""
    ours, theirs = sessions(model, pytestconfig.getoption("--adapter", default=None), True)
    placed = onnx_host.placement(ours)
    assert placed.on_gpu >= WHOLE_SHARE * placed.total, placed.sentences
    firsts, far = [], list[Any]()
    for feed in feeds:
        results = ours.run(None, feed)
        exact, *host = integers.witnesses(model, feed, theirs)
        far.append(_far(results, exact, scales))
        for expected in host:
            near = 1 - _far(results, expected, scales)
            assert (near >= MANY).all(), near
        firsts.append((results[0], exact[0], [outputs[0] for outputs in host]))
    near = 1 - np.mean(far, 0)
    assert (near >= MANY).all(), near
    assert not onnx_host.placement(ours).failures
    return firsts


def _far(results: Any, expected: Any, scales: Iterable[float]) -> Any:
    """For each output the share of its values that are far off."""
    triples = zip(results, expected, scales, strict=True)
    return np.array([(np.abs(a.astype(np.float64) - b) / s >= CLOSE).mean() for a, b, s in triples])
