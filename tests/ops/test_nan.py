"""Tests NaN in comparisons: as on the CPU, ONNX keeps the NaN of any operand, TFLite that of the
second one. Comparisons are tried alone and as an epilogue. An infinite weight affects only its own
row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import onnx_models as onnx
from tests.support.harness import device_of
from tests.support.interpreters import gpu
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.runtime.program import Instance, Program

pytestmark = [pytest.mark.adapter, pytest.mark.usefixtures("resolver")]

VALUES = np.float32([np.nan, np.inf, -np.inf, 1.0, -1.0, 0.0])
FIRST, SECOND = (a.reshape(-1).copy() for a in np.meshgrid(VALUES, VALUES))


@pytest.mark.parametrize("before", ["", "Neg"])
@pytest.mark.parametrize("op", ["Max", "Min", "Clip", "Sign"])
def test_onnx(op: str, before: str) -> None:
    nodes = [onnx.node(before, ["x"], ["v"])] if before else []
    value = "v" if before else "x"
    reads = {"Sign": [value], "Clip": [value, "low", "high"]}.get(op, [value, "y"])
    nodes += [onnx.node(op, reads, ["z"]), onnx.node("Relu", ["y"], ["unused"])]
    inputs = {"x": FIRST.shape, "y": SECOND.shape} | (
        {"low": (), "high": ()} if op == "Clip" else {}
    )
    model = onnx.model(nodes, inputs, {"z": None, "unused": None})
    feed = {"x": FIRST, "y": SECOND, "low": np.array(-0.5, "f4"), "high": np.array(0.5, "f4")}
    feed = {name: feed[name] for name in inputs}
    ours, theirs = (make(model).run(None, feed) for make in (onnx.session, onnx.cpu))
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("host", hosts.installed())
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("op", ["MAXIMUM", "MINIMUM"])
def test_tflite(op: str, swapped: bool, host: str) -> None:
    model = Model()
    x, y = (model.input(name, FIRST.shape) for name in "xy")
    v = model.op("HARD_SWISH", [x], shape=FIRST.shape)
    reads = [y, v] if swapped else [v, y]
    model.output(model.op(op, reads, "MaximumMinimumOptions", {}, shape=FIRST.shape))
    content = model.to_bytes()

    def run(interpreter: Any) -> Any:
        interpreter.allocate_tensors()
        return hosts.invoke(interpreter, [[FIRST, SECOND]])[0][0]

    interpreter, _ = gpu(content, host)
    np.testing.assert_array_equal(run(interpreter), run(hosts.interpreter(content, host)))


@pytest.mark.parametrize("depth", [32, 33, 36, 41])
@pytest.mark.parametrize("row, at", [(1, 0), (4, 0), (1, -1), (4, -1)])
def test_an_infinite_weight(depth: int, row: int, at: int) -> None:
    """Threads that share a row and have no elements left multiply neither the last weights of the
    row nor the first of the next one."""
    random = np.random.default_rng(depth)
    values, weights = (random.uniform(0.5, 1, (n, depth)).astype(np.float32) for n in (2, 8))
    weights[row, at] = np.inf
    b, device = Net(), device_of()
    x = b.input(values.shape)
    flat = {"keep_num_dims": False, "activation": "none"}
    y = b.op("fully_connected", x, b.constant(weights), None, **flat)
    graph = b.graph(y)
    for target in (device.target, replace(device.target, vendor="unknown", software=False)):
        program = Program(compiler.compile(graph, target), device.handle, device.pipelines)
        (found,) = Instance(program).run([values], [])
        np.testing.assert_allclose(found, values @ weights.T, rtol=1e-5)
