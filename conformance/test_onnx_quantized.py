"""Quantized ONNX models through our provider: every node is ours, and each value within a step of
what the CPU provider's integer kernels give (three steps for one value in a thousand).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from conformance import model_inputs, onnx_host, onnx_models, onnx_quantized
from conformance.onnx_quantized import KINDS, Network
from conformance.quantized_cases import FAR, NEAR, SHARE
from conformance.real_models import stem

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]
NETWORKS = list(onnx_quantized.networks())
DYNAMIC = [network for network in NETWORKS if network.name.split("-")[0] in ("Conv", "MatMul",
           "Gemm", "chain") and len(network.inputs) == 1]  # fmt: skip
CONTRIBUTED = list(onnx_quantized.contributed())
FLOAT = 1e-5  # of the largest magnitude


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The quantizer logs advice."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def _sessions(model: bytes, wanted: str | None, optimize: bool) -> tuple[Any, Any]:
    """Ours, and the CPU provider's."""
    import onnxruntime as ort

    settings = [ort.SessionOptions(), ort.SessionOptions()]
    for one in settings:
        one.log_severity_level = 4
        if not optimize:
            one.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings[0].add_provider_for_devices([onnx_host.device(wanted)], {})
    ours = ort.InferenceSession(model, settings[0], enable_fallback=0)
    ours.disable_fallback()
    theirs = ort.InferenceSession(model, settings[1], providers=["CPUExecutionProvider"])
    return ours, theirs


@pytest.mark.parametrize("optimize", [True, False], ids=["optimized", "plain"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_network(network: Network, kind: Any, optimize: bool, pytestconfig: pytest.Config) -> None:
    for form in network.formats:
        model = onnx_quantized.quantize(network, form, kind)
        wanted = pytestconfig.getoption("--adapter", default=None)
        ours, theirs = _sessions(model, wanted, optimize)
        feed = network.feed(onnx_quantized.SAMPLES + 1)
        (got,), (expected,) = ours.run(None, feed), theirs.run(None, feed)
        placed = onnx_host.placement(ours)
        assert placed.on_gpu == placed.total and not placed.failures, (form, placed.sentences)
        assert got.shape == expected.shape and got.dtype == expected.dtype
        (scale,) = onnx_quantized.steps(model)
        steps = np.abs(got.astype(np.float64) - expected) / scale
        assert steps.max() < FAR + 0.5, f"{form}: {steps.max():.1f} steps off"
        assert (steps > NEAR + 0.5).mean() <= SHARE, f"{form}: {(steps > NEAR + 0.5).mean():.2%}"


@pytest.mark.parametrize("optimize", [True, False], ids=["optimized", "plain"])
@pytest.mark.parametrize("weights", ["i8", "u8"])
@pytest.mark.parametrize("network", DYNAMIC, ids=lambda network: network.name)
def test_dynamic_ranges(
    network: Network, weights: str, optimize: bool, pytestconfig: pytest.Config
) -> None:
    for per_channel in (False, True):
        model = onnx_quantized.quantize_dynamic(network, weights, per_channel)
        _same(model, network.feed(7), optimize, pytestconfig)


@pytest.mark.parametrize(("name", "model", "feed"), CONTRIBUTED, ids=[c[0] for c in CONTRIBUTED])
def test_contributed(name: str, model: bytes, feed: Any, pytestconfig: pytest.Config) -> None:
    _same(model, feed, True, pytestconfig)


def _same(model: bytes, feed: Any, optimize: bool, pytestconfig: pytest.Config) -> None:
    """All on the GPU, with the CPU provider's results: float32 or stored numbers."""
    ours, theirs = _sessions(model, pytestconfig.getoption("--adapter", default=None), optimize)
    (got,), (expected,) = ours.run(None, feed), theirs.run(None, feed)
    placed = onnx_host.placement(ours)
    assert placed.on_gpu == placed.total and not placed.failures, placed.sentences
    assert got.shape == expected.shape and got.dtype == expected.dtype
    allowed = FLOAT * np.abs(expected).max() if expected.dtype.kind == "f" else NEAR
    assert np.abs(got.astype(np.float64) - expected).max() <= allowed


# Float models of `../shared` that the quantizer takes.
REAL = ("yunet_n_320", "face_detection_short_range")
WHOLE_SHARE, MANY, CLOSE = 0.95, 0.99, 2.5  # of the nodes ours; of the values, in steps


def _real() -> dict[str, dict[str, Any]]:
    return {stem(entry): entry for entry in onnx_models.entries()}


@pytest.mark.parametrize("form", onnx_quantized.FORMATS)
@pytest.mark.parametrize("name", REAL)
def test_real_model(name: str, form: str, pytestconfig: pytest.Config) -> None:
    if name not in _real():
        pytest.skip("../shared is absent")
    feeds = onnx_models.feeds(_real()[name])
    path = model_inputs.path(_real()[name])
    model = onnx_quantized.quantized(path, feeds.values(), form, ("u8", "i8", False))
    _end_to_end(model, onnx_quantized.steps(model), feeds.values(), pytestconfig)


@pytest.mark.parametrize(
    "name", [name for name, entry in _real().items() if entry["kind"] == "quantized"]
)
def test_quantized_file(name: str, pytestconfig: pytest.Config) -> None:
    """As it is in `../shared`, with each picture that there is: the same class, too."""
    entry = _real()[name]
    (shape,) = onnx_models.FEEDS[name].shapes
    pictures = sorted((model_inputs.SHARED / "images").glob("*.jp*g"))
    feeds = [
        {entry["inputs"][0]["name"]: (model_inputs.picture(file, shape) / 127.5 - 1).astype("f4")}
        for file in pictures
    ]
    model = model_inputs.path(entry).read_bytes()
    for got, expected in _end_to_end(model, [_last_step(model)], feeds, pytestconfig):
        assert got.argmax() == expected.argmax()


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
) -> list[tuple[Any, Any]]:
    """Pairs of the first outputs, after all have been judged."""
    ours, theirs = _sessions(model, pytestconfig.getoption("--adapter", default=None), True)
    placed = onnx_host.placement(ours)
    assert placed.on_gpu >= WHOLE_SHARE * placed.total, placed.sentences
    firsts = []
    for feed in feeds:
        pairs = list(zip(ours.run(None, feed), theirs.run(None, feed), strict=True))
        for (got, expected), scale in zip(pairs, scales, strict=True):
            off = np.abs(got.astype(np.float64) - expected) / scale
            assert (off < CLOSE).mean() >= MANY, f"{off.max():.0f} steps, {(off >= CLOSE).mean()}"
        firsts.append(pairs[0])
    assert not onnx_host.placement(ours).failures
    return firsts
