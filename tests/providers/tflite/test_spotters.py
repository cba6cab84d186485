"""Tests 8-bit SVDF layers in hosts: keyword spotters in typical use, and what stays with the host
for a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import delegate
from tflgpu_plugin import report
from tflgpu_plugin.ir import Quantization

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]
KINDS = {"weights": "i8", "times": "i16", "bias": "i32", "state": "i16"}
NEED = "dtype.unsupported"


def scaled(model: Model, tensor: int, scale: float, zero: int = 0) -> int:
    if model.tensors[tensor].dtype != "f32":
        model.tensors[tensor].quantization = Quantization((scale,), (zero,))
    return tensor


def numbers(dtype: str, *shape: int) -> Any:
    most = {"i8": 127, "i16": 9000, "i32": 2**22, "f32": 2}[dtype]
    name = {"f32": "float32"}.get(dtype, f"int{dtype[1:]}")
    return np.random.default_rng(shape).integers(-most, most + 1, shape).astype(name)


def layer(model: Model, x: int, inputs: int, units: int, activation: str = "RELU",
          **kinds: str) -> int:  # fmt: skip
    """Returns a layer of rank 2 over 6 steps; `kinds`: types of weights, times, bias and state."""
    wanted = KINDS | kinds
    given = [
        scaled(model, model.constant(numbers(wanted["weights"], 2 * units, inputs)), 0.01),
        scaled(model, model.constant(numbers(wanted["times"], 2 * units, 6)), 1e-4),
        scaled(model, model.constant(numbers(wanted["bias"], units)), 1e-7),
        scaled(model, model.variable(f"state{x}", (1, 12 * units), wanted["state"]), 1e-3),
    ]
    options = {"rank": 2, "fusedActivationFunction": activation}
    y = model.op("SVDF", [x, *given], "SVDFOptions", options, shape=(1, units), dtype="i8",
                 version=3)  # fmt: skip
    return scaled(model, y, 0.07, -110)


def spotter() -> bytes:
    """Returns a keyword spotter of float32 values: two layers, a dense one, and a softmax."""
    model = Model()
    x = model.input("x", (1, 10))
    x = scaled(model, model.op("QUANTIZE", [x], shape=(1, 10), dtype="i8", version=1), 0.02, -3)
    x = layer(model, layer(model, x, 10, 12), 12, 8)
    dense = [scaled(model, model.constant(numbers("i8", 4, 8)), 0.01),
             scaled(model, model.constant(numbers("i32", 4) // 2**16), 7e-4)]  # fmt: skip
    x = model.op("FULLY_CONNECTED", [x, *dense], "FullyConnectedOptions", shape=(1, 4),
                 dtype="i8", version=4)  # fmt: skip
    x = scaled(model, x, 0.1)
    x = model.op("SOFTMAX", [x], "SoftmaxOptions", {"beta": 0.2}, shape=(1, 4), dtype="i8",
                 version=2)  # fmt: skip
    model.output(model.op("DEQUANTIZE", [scaled(model, x, 1 / 256, -128)], shape=(1, 4), version=2))
    return model.to_bytes()


@pytest.mark.parametrize("kernels", ["reference", "default"])
def test_a_stream_of_inputs(host: str, kernels: str) -> None:
    """This includes runs after the variables were reset; everything runs here, in one partition."""
    model, random = spotter(), np.random.default_rng(4)
    feeds = [[random.uniform(-2, 2, (1, 10)).astype(np.float32)] for _ in range(24)]
    resets = (13,)
    wanted = hosts.run_on_cpu(model, feeds, host, "reference", resets)
    run = hosts.run_on_gpu(model, feeds, host, {}, kernels, resets)
    assert (run.placement.on_gpu, run.placement.partitions) == (6, 1)
    np.testing.assert_array_equal(np.array(run.outputs), np.array(wanted))
    assert len(np.unique(np.array(wanted))) > 40


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, None),
        ({"activation": "NONE"}, NEED),  # hosts fail when such a model runs
        ({"activation": "RELU6"}, NEED),
        ({"times": "i8"}, NEED),  # which hosts read as int16
        ({"state": "i8"}, NEED),
        ({"bias": "f32"}, NEED),
    ],
)
def test_which_tensors(host: str, changed: dict[str, str], wanted: str | None) -> None:
    model = Model()
    x = scaled(model, model.input("x", (1, 10), "i8"), 0.02, -3)
    model.output(layer(model, x, 10, 4, **changed))
    made = delegate(host)
    interpreter = hosts.interpreter(
        model.to_bytes(), host, "reference", experimental_delegates=[made]
    )
    interpreter.allocate_tensors()
    (node,) = report(made).nodes
    assert node.refusal_code == wanted


@pytest.mark.parametrize(
    ("weights", "times", "bias", "state", "taken"),
    [
        ("f32", "f32", "f32", "f32", True),
        ("i8", "i8", "f32", "f32", True),
        ("i8", "f32", "f32", "f32", False),
        ("f32", "f32", "i32", "f32", False),
        ("f32", "f32", "f32", "i16", False),
        ("i8", "i16", "i32", "i16", False),
    ],
)
def test_beside_floats(
    host: str, weights: str, times: str, bias: str, state: str, taken: bool
) -> None:
    model = Model()
    x = model.input("x", (1, 10))
    y = layer(model, x, 10, 4, weights=weights, times=times, bias=bias, state=state)
    model.tensors[y].dtype, model.tensors[y].quantization = "f32", None
    model.output(y)
    made = delegate(host)
    interpreter = hosts.interpreter(
        model.to_bytes(), host, "reference", experimental_delegates=[made]
    )
    interpreter.allocate_tensors()
    (node,) = report(made).nodes
    assert node.refusal_code == (None if taken else NEED)
