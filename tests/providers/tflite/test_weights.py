"""Weights in 8 bits that hosts take for others, and what stays with the host for a reason."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, same
from tflgpu_plugin import report
from tflgpu_plugin.ir.graph import Quantization

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]
NONE = {"fusedActivationFunction": "NONE"}


def layer(op: str, kind: str, zero: int) -> bytes:
    """Of float32 values by weights of this type; numbers over 127 would be others as int8."""
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
    ("kind", "zero", "sentence"),
    [
        ("uint8", 0, "are uint8, which hosts take for int8 beside float32 values."),
        ("int8", 3, "have another zero point than 0, which is not supported."),
        ("int8", 0, ""),
    ],
)
def test_which_weights_beside_float32(
    op: str, kind: str, zero: int, sentence: str, host: str
) -> None:
    model = layer(op, kind, zero)
    interpreter, made = gpu(model, host)
    (node,) = report(made).nodes
    assert (node.reason or "").endswith(sentence) and bool(node.reason) == bool(sentence)
    if sentence:
        same(interpreter, model, host)


def test_windows_that_hosts_do_not_agree_about(host: str) -> None:
    model = Model()
    options = {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75}
    table = "LocalResponseNormalizationOptions"
    x = model.input("x", (1, 2, 3, 8))
    model.output(model.op("LOCAL_RESPONSE_NORMALIZATION", [x], table, options, shape=(1, 2, 3, 8)))
    content = model.to_bytes()
    (node,) = report(gpu(content, host)[1]).nodes
    assert "do not agree whether the last channel" in (node.reason or "")
    feed = [[np.linspace(-2, 2, 48, dtype=np.float32).reshape(1, 2, 3, 8)]]
    kinds = [hosts.run_on_cpu(content, feed, host, kind)[0][0] for kind in hosts.KERNELS]
    assert np.abs(kinds[0] - kinds[1]).max() > 0.01 > np.abs(kinds[1] - kinds[2]).max()
