"""Tests 8-bit weights that hosts misinterpret, and what stays with the host for a reason."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, same
from tflgpu_plugin import report
from tflgpu_plugin.ir import Quantization

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]
NONE = {"fusedActivationFunction": "NONE"}


def layer(op: str, kind: str, zero: int) -> bytes:
    """Returns a layer of float32 values and weights of this type; those over 127 differ as int8."""
    model, random = Model(), np.random.default_rng(3)
    x = model.input("x", (2, 8))
    weights = []
    for shape in ((4, 8), (4, 4)):
        stored = random.integers(0, 200 if kind == "uint8" else 127, shape).astype(kind)
        weights.append(model.constant(stored, f"w{len(weights)}"))
        model.tensors[weights[-1]].quantization = Quantization((0.01,), (zero,))
    if op == "RNN":
        bias, state = model.constant(np.zeros(4, np.float32)), model.variable("h", (2, 4))
        given, table = [x, *weights, bias, state], "RNNOptions"
        options = {"fusedActivationFunction": "TANH"}
    else:
        given, table, options = [x, weights[0]], "FullyConnectedOptions", NONE
    version = {"RNN": 2, "FULLY_CONNECTED": 3}[op]
    model.output(model.op(op, given, table, options, shape=(2, 4), version=version))
    return model.to_bytes()


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "RNN"])
@pytest.mark.parametrize(
    ("kind", "zero", "wanted"),
    [
        ("uint8", 0, "quantization.unsupported"),
        ("int8", 3, "quantization.unsupported"),
        ("int8", 0, None),
    ],
)
def test_which_weights_beside_float32(
    op: str, kind: str, zero: int, wanted: str | None, host: str
) -> None:
    model = layer(op, kind, zero)
    interpreter, made = gpu(model, host)
    (node,) = report(made).nodes
    assert node.refusal_code == wanted
    if wanted:
        same(interpreter, model, host)


def test_windows_hold_their_last_channel(host: str) -> None:
    """Windows hold their last channel as in hosts' default kernels, not the reference ones."""
    model = Model()
    options = {"radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.6}
    table = "LocalResponseNormalizationOptions"
    x = model.input("x", (1, 2, 3, 8))
    model.output(model.op("LOCAL_RESPONSE_NORMALIZATION", [x], table, options, shape=(1, 2, 3, 8)))
    content = model.to_bytes()
    interpreter, made = gpu(content, host)
    (node,) = report(made).nodes
    assert node.reason is None
    feed = [np.linspace(-2, 2, 48, dtype=np.float32).reshape(1, 2, 3, 8)]
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], feed[0])
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    kinds = {k: hosts.run_on_cpu(content, [feed], host, k)[0][0] for k in hosts.KERNELS}
    apart = {k: np.abs(found - value).max() for k, value in kinds.items()}
    assert sorted(kind for kind, by in apart.items() if by > 0.01) == ["reference"]
    assert all(by < 1e-5 for kind, by in apart.items() if kind != "reference")
