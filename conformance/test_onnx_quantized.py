"""Quantized ONNX models through our provider: every node is ours, and each value within a step of
what the CPU provider's integer kernels give (three steps for one value in a thousand).
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from conformance import onnx_host, onnx_quantized
from conformance.onnx_quantized import KINDS, Network
from conformance.quantized_cases import FAR, NEAR, SHARE

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]
NETWORKS = list(onnx_quantized.networks())


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
    logging.disable(logging.WARNING)  # the quantizer's advice
    for form in network.formats:
        model = onnx_quantized.quantize(network, form, kind)
        wanted = pytestconfig.getoption("--adapter", default=None)
        ours, theirs = _sessions(model, wanted, optimize)
        feed = network.feed(onnx_quantized.SAMPLES + 1)
        (got,), (expected,) = ours.run(None, feed), theirs.run(None, feed)
        placed = onnx_host.placement(ours)
        assert placed.on_gpu == placed.total and not placed.failures, (form, placed.sentences)
        assert got.shape == expected.shape and got.dtype == expected.dtype
        steps = np.abs(got.astype(np.float64) - expected) / onnx_quantized.step(model)
        assert steps.max() < FAR + 0.5, f"{form}: {steps.max():.1f} steps off"
        assert (steps > NEAR + 0.5).mean() <= SHARE, f"{form}: {(steps > NEAR + 0.5).mean():.2%}"
