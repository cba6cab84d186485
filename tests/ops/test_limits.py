"""Tests constants that exceed the limit of a binding or a buffer: they are split, and give the same
answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.compile.test_compiler import TARGET
from tests.support.harness import device_of
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, Graph, Plan, Target
from tflgpu_plugin.runtime.program import Instance, Program

# Bytes; less than each of these constants takes, more than each other tensor and each block does.
LOW = {"1x1": 11_000, "3x3": 60_000}
SETTINGS = {"strides": (1, 1), "dilations": (1, 1), "padding": "same", "activation": "none"}


def data(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def dense(rows: int) -> Graph:
    b = Net()
    x, weights = b.input((rows, 90)), b.constant(data(170, 90))
    bias = b.constant(data(170))
    y = b.op("fully_connected", x, weights, bias, keep_num_dims=True, activation="relu")
    return b.graph(y)


def transposed_matrix() -> Graph:
    """Returns a matrix as ONNX has it, the weights of an output in a column."""
    b = Net()
    x, weights = b.input((3, 90)), b.constant(data(90, 170))
    return b.graph(b.op("matmul", x, weights))


def convolution(kernel: int, groups: int = 1) -> Graph:
    b = Net()
    x, shape = b.input((1, 6, 7, 48)), (64, kernel, kernel, 48 // groups)
    weights, bias = b.constant(data(*shape)), b.constant(data(64))
    return b.graph(b.op("conv_2d", x, weights, bias, **SETTINGS))


def table() -> Graph:
    """Returns an embedding whose row indices are inputs of the run; they include both ends and rows
    out of range."""
    b = Net()
    x, places = b.constant(data(301, 37)), b.input((9, 1), "i32")
    return b.graph(b.op("pick", x, places, axis=0, wraps=True))


def inner_table() -> Graph:
    b = Net()
    x, places = b.constant(data(11, 40, 37)), b.input((9, 1), "i32")
    return b.graph(b.op("pick", x, places, axis=1, wraps=True))


GRAPHS: dict[str, Callable[[], Graph]] = {
    "one row": lambda: dense(1),
    "many rows": lambda: dense(20),
    "transposed": transposed_matrix,
    "1x1": lambda: convolution(1, 1),
    "3x3": lambda: convolution(3),
    "groups": lambda: convolution(3, 2),
    "table": table,
    "inner table": inner_table,
}


def largest(plan: Plan) -> int:
    return max(buffer.bytes for buffer in plan.buffers)


def parts(plan: Plan) -> int:
    """Returns the number of constants that kernels read."""
    return len(plan.weights)


@pytest.mark.adapter
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("limit", ["max_binding_bytes", "max_buffer_bytes"])
def test_parts_give_the_answers_of_the_whole(name: str, limit: str) -> None:
    graph, device = GRAPHS[name](), device_of()
    low = LOW.get(name, 40_000)
    plans = [
        compiler.compile(graph, target)
        for target in (device.target, replace(device.target, **{limit: low}))
    ]
    assert largest(plans[1]) <= low and parts(plans[1]) > parts(plans[0])
    (tensor,) = graph.inputs
    shape = graph.shape(tensor)
    x = data(*shape) if name.count("table") == 0 else np.linspace(-12, 320, 9, dtype=np.int32)
    whole, split = (
        Instance(Program(plan, device.handle, device.pipelines)).run([x.reshape(shape)])[0]
        for plan in plans
    )
    assert np.ptp(whole) > 1
    np.testing.assert_allclose(split, whole, rtol=1e-5, atol=1e-4)
    if "table" in name:
        assert np.array_equal(split, whole)


def test_no_operand_is_over_two_gigabytes_whatever_an_adapter_offers() -> None:
    target = replace(TARGET, max_binding_bytes=1 << 33, max_buffer_bytes=1 << 34)
    assert target.storage_bytes == 1 << 31
    assert Target(max_binding_bytes=1 << 20).storage_bytes == 1 << 20
    assert Target(max_buffer_bytes=1 << 20).storage_bytes == 1 << 20
