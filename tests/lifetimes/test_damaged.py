"""Damaged model files: if the host's CPU kernels run one, it also runs with the delegate, and the
process survives."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.cases import lstm, seeded
from conformance.models import tflite as models
from conformance.models.tflite import Model
from conformance.models.tflite_file import schema
from tests.support.interpreters import gpu, places
from tflgpu_plugin.ir import Quantization

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.parametrize("host", hosts.installed()),
    pytest.mark.usefixtures("resolver"),
]
NAME = 10  # of a tensor's fields in a flatbuffer


def _relu() -> tuple[Model, int]:
    model = Model()
    y = model.op("RELU", [model.input("x", (1, 4, 4, 3))], shape=(1, 4, 4, 3), name="y")
    model.output(y)
    return model, y


def _check(content: bytes, host: str) -> dict[str, str]:
    """Returns where each node is, after a run with the same results as without the plugin."""
    try:
        cpu = hosts.interpreter(content, host)
    except (ValueError, RuntimeError):
        pytest.skip(f"{host} verifies its models and does not take this one")
    ours, made = gpu(content, host)
    cpu.allocate_tensors()
    results = [_run(interpreter) for interpreter in (cpu, ours)]
    np.testing.assert_array_equal(*results)
    return places(made)


def _run(interpreter: Any) -> Any:
    """Runs the interpreter by tensor numbers (tensor details would read names) and returns the
    result."""
    interpreter.set_tensor(0, np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 4, 4, 3))
    interpreter.invoke()
    return interpreter.get_tensor(1)


@pytest.mark.parametrize("far", [0x1000, 0x40000000, 0x7FFFFFF0])
def test_a_name_that_leads_nowhere(far: int, host: str) -> None:
    model, y = _relu()
    content = bytearray(model.to_bytes())
    table = schema().Model.GetRootAs(content, 0).Subgraphs(0).Tensors(y)._tab
    struct.pack_into("<I", content, table.Pos + table.Offset(NAME), far)
    assert list(_check(bytes(content), host).values()) == ["gpu"]


@pytest.mark.parametrize("length", [2046, 2047, 2048, 9000])
def test_a_long_name(length: int, host: str) -> None:
    model, y = _relu()
    model.tensors[y].name = "n" * length
    assert _check(model.to_bytes(), host) == {"n" * min(length, 2047): "gpu"}


def test_a_node_that_reads_its_own_result(host: str) -> None:
    """Hosts crash if they are asked to group such a node."""
    model, _ = _relu()
    model.op("RELU", [2], shape=(1, 4, 4, 3), name="itself")
    model.operators[-1].outputs[:] = [2]
    assert _check(model.to_bytes(), host) == {}


def test_nodes_in_the_wrong_order(host: str) -> None:
    model, y = _relu()
    model.op("ABS", [y], shape=(1, 4, 4, 3), name="early")
    model.operators.reverse()
    assert _check(model.to_bytes(), host) == {}


def test_a_result_of_another_type(host: str) -> None:
    """Hosts use the input's type when they prepare the node, which is after our decision."""
    model, shape = Model(), (1, 4, 4, 3)
    x = model.input("x", shape)
    model.output(model.op("ADD", [x, x], "AddOptions", {}, shape=shape, dtype="f16", name="y"))
    assert _check(model.to_bytes(), host) == {"y": "cpu"}


def test_int8_weights_that_are_not_symmetric(host: str) -> None:
    """Hosts ignore the zero points of such weights."""
    model, shape = Model(), (1, 4, 4, 3)
    x = model.input("x", shape)
    weights = model.constant(np.round(seeded(3, 1, 1, 3, scale=99)).astype(np.int8))
    model.tensors[weights].quantization = Quantization((0.01,) * 3, (5,) * 3)
    reads = [x, weights, model.constant(seeded(3))]
    options = {"padding": "SAME", "strideH": 1, "strideW": 1}
    y = model.op("CONV_2D", reads, "Conv2DOptions", options, shape=shape, version=5, name="y")
    model.output(y)
    content = model.to_bytes()
    ours, made = gpu(content, host)
    cpu = hosts.interpreter(content, host)
    cpu.allocate_tensors()
    feeds = [[np.linspace(-1, 1, 48, dtype=np.float32).reshape(shape)]]
    np.testing.assert_array_equal(hosts.invoke(ours, feeds), hosts.invoke(cpu, feeds))
    assert places(made) == {"y": "cpu"}


def test_one_variable_as_two_states(host: str) -> None:
    model = models.single(lstm.lstm("shared", 2, 3, 4))
    reads = model.operators[0].inputs
    reads[4] = reads[1]
    content = model.to_bytes()
    ours, made = gpu(content, host)
    cpu = hosts.interpreter(content, host)
    cpu.allocate_tensors()
    inputs = [[seeded(2, 3)], [seeded(2, 3, seed=2)]]
    np.testing.assert_array_equal(hosts.invoke(ours, inputs), hosts.invoke(cpu, inputs))
    assert places(made) == {"output": "cpu"}


@pytest.mark.parametrize("dtype", ["i8", "i16"])
def test_a_constant_of_another_size(dtype: str, host: str) -> None:
    model, shape = Model(), (1, 4, 4, 3)
    alpha = model.constant(seeded(3))
    model.tensors[alpha].dtype = dtype
    model.output(model.op("PRELU", [model.input("x", shape), alpha], shape=shape, name="y"))
    model.inputs[:] = [1]
    content = model.to_bytes()
    try:
        cpu = hosts.interpreter(content, host)
        cpu.allocate_tensors()
    except (ValueError, RuntimeError):
        pytest.skip(f"{host} does not take this model")
    ours, made = gpu(content, host)
    inputs = [[seeded(*shape)]]
    np.testing.assert_array_equal(hosts.invoke(ours, inputs), hosts.invoke(cpu, inputs))
    assert places(made) == {"y": "cpu"}
