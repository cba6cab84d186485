"""Tests which kernels and which tensors of a model the demo compares, and how it names them."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from conformance.cases import Case, Input, seeded
from conformance.models import tflite as models
from conformance.models.tflite import Model
from tests.support import onnx_models, small_models
from tflgpu_plugin.harness import flatbuffer, hosts, onnx, protobuf
from tflgpu_plugin.harness.agreement import Agreement
from tflgpu_plugin.harness.compare import compare
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
    name = "a/path/of/many/words/that/goes/on/and/on/BiasAdd"
    bad = replace(found, agreements=[Agreement(name, 1.0, 1.0, 0.1)])
    assert "with the host's optimized kernels" in bad.verdict()
    assert bad.verdict().endswith(f"Tensors: {name}.")


@pytest.mark.adapter
@needs_onnxruntime
def test_onnxruntime_has_no_reference_kernels() -> None:
    model = onnx.OnnxModel(onnx.File(onnx_models.add_relu()), {"x": onnx_models.values(2, 3, 5)})
    found = compare(model, {}, 1)
    assert found.ok and found.as_json()["judge"] == "CPU"
    bad = replace(found, agreements=[Agreement("y", 1.0, 1.0, 0.1)])
    assert "DISAGREES in 1 of 1 with onnxruntime's CPU kernels. " in bad.verdict()
    assert "reference" not in bad.verdict() + "".join(bad.lines())


def float16_weights() -> bytes:
    """Returns a model with a convolution whose weights and bias are stored as float16, another
    convolution, and a variable; and the variable's initial value."""
    model, shape = Model(), (1, 8, 8, 3)
    x = model.input("x", shape)
    stored = [seeded(4, 3, 3, 3).astype(np.float16), seeded(4).astype(np.float16)]
    weights, bias = (
        model.op("DEQUANTIZE", [model.constant(one)], shape=one.shape, version=3, name=f"of {k}")
        for k, one in enumerate(stored)
    )
    options = {"padding": "SAME", "strideH": 1, "strideW": 1, "fusedActivationFunction": "NONE"}
    out = (1, 8, 8, 4)
    y = model.op("CONV_2D", [x, weights, bias], "Conv2DOptions", options, shape=out, name="first")
    twice = small_models.binary(model, "ADD", bias, bias, (4,), "twice the bias")
    y = small_models.binary(model, "ADD", y, twice, out, "sum")
    model.output(small_models.conv(model, y, out, "last"))
    return model.to_bytes()


def probed_names(content: bytes, name: str) -> list[str]:
    rich = TfliteModel(hosts.host(name), content, []).probed(None)
    details = rich.runner.plain(rich.content).get_output_details()
    return [str(detail["name"]) for detail in details]


@pytest.mark.parametrize("name", hosts.installed())
def test_what_follows_from_constants_is_no_probe(name: str) -> None:
    """Kernels may not write tensors that they read as constants, as XNNPACK does with float16."""
    assert probed_names(float16_weights(), name) == ["last", "first", "sum"]


@pytest.mark.adapter
@pytest.mark.parametrize("name", hosts.installed())
def test_a_model_with_float16_weights_agrees(name: str) -> None:
    values = [seeded(1, 8, 8, 3, seed=9)]
    found = compare(TfliteModel(hosts.host(name), float16_weights(), values), {}, 1)
    assert found.ok and [one.name for one in found.agreements] == ["first", "sum", "last"]


def test_what_state_gives_is_computed() -> None:
    """VAR_HANDLE has no input."""
    model = Model()
    x = model.input("x", (1, 4))
    handle = model.op("VAR_HANDLE", [], shape=(), dtype="resource", name="handle")
    held = model.op("READ_VARIABLE", [handle], shape=(1, 4), name="held")
    model.output(small_models.binary(model, "ADD", x, held, (1, 4), "sum"))
    content = model.to_bytes()
    assert len(flatbuffer.activations(content)) == 2


def test_what_follows_from_initializers_is_no_probe() -> None:
    pytest.importorskip("onnx")
    node = onnx_models.node
    nodes = [
        node("Add", ["c", "c"], ["twice"]),
        node("Constant", [], ["k"], value_float=2.0),
        node("Mul", ["twice", "k"], ["four times"]),
        node("Add", ["x", "four times"], ["a"]),
        node("Relu", ["a"], ["y"]),
    ]
    constants = {"c": np.ones(4, np.float32)}
    content = onnx_models.model(nodes, {"x": (2, 4), "c": (4,)}, {"y": (2, 4)}, constants)
    assert protobuf.computed(content) == ["a", "y"]
