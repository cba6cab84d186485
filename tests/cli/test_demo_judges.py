"""Which kernels and which tensors of a model the demo compares with, and how it calls them."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from conformance.cases import Case, Input
from conformance.models import tflite as models
from tests.support import onnx_models
from tflgpu_plugin.harness import hosts, onnx
from tflgpu_plugin.harness.compare import Agreement, compare
from tflgpu_plugin.harness.tflite import TfliteModel

needs_onnxruntime = pytest.mark.skipif(
    not find_spec("onnxruntime"), reason="onnxruntime is not installed"
)


@pytest.mark.adapter
@pytest.mark.parametrize("name", hosts.installed())
def test_kernels_that_have_every_operator_judge(name: str) -> None:
    """Hosts have no reference kernels for ELU."""
    case = Case("one", "ELU", 1, (Input((2, 5)),))
    values = [np.linspace(-2, 2, 10, dtype=np.float32).reshape(2, 5)]
    found = compare(TfliteModel(hosts.host(name), models.build(case), values), {}, 1)
    assert found.ok and found.judge == "optimized"
    assert "judge     the optimized CPU kernels" in found.lines()[-1]
    bad = replace(found, agreements=[Agreement("y", 1.0, 1.0, 0.1)])
    assert "with the host's optimized kernels" in bad.verdict()


@pytest.mark.adapter
@needs_onnxruntime
def test_onnxruntime_has_no_reference_kernels() -> None:
    model = onnx.OnnxModel(onnx.File(onnx_models.add_relu()), {"x": onnx_models.values(2, 3, 5)})
    found = compare(model, {}, 1)
    assert found.ok and found.as_json()["judge"] == "CPU"
    bad = replace(found, agreements=[Agreement("y", 1.0, 1.0, 0.1)])
    assert "DISAGREES in 1 of 1 with onnxruntime's CPU kernels. " in bad.verdict()
    assert "reference" not in bad.verdict() + "".join(bad.lines())
