"""Tests weights in blocks of 4 and 8 bits that are known only in a run, and operators of opset 6,
against the CPU provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import compare, cpu, model, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

OUTPUTS = 6


def blocks(inner: int, bits: int, zeros: str) -> dict[str, Any]:
    """Returns the inputs of a product: its weights, scales and zero points ("" for none)."""
    random, count = np.random.default_rng(inner + bits), -(-inner // 16)
    made: dict[str, Any] = {
        "x": random.normal(size=(3, inner)).astype(np.float32),
        "w": random.integers(0, 256, (OUTPUTS, count, 2 * bits)).astype(np.uint8),
        "s": random.uniform(0.1, 1, OUTPUTS * count).astype(np.float32),
    }
    if zeros == "u8":
        held = -(-count * bits // 8)
        made["z"] = random.integers(0, 256, OUTPUTS * held).astype(np.uint8)
    elif zeros:
        made["z"] = random.uniform(0, 9, OUTPUTS * count).astype(np.float32)
    return made


@pytest.mark.parametrize(
    ("inner", "bits", "zeros"),
    [
        (48, 2, "u8"),
        (40, 2, ""),
        (32, 4, ""),
        (48, 4, "u8"),
        (40, 4, "f32"),
        (32, 8, ""),
        (40, 8, "u8"),
    ],
)
@pytest.mark.parametrize("told", ["wsz", "w", "s", "z"])
def test_weights_of_a_run(inner: int, bits: int, zeros: str, told: str) -> None:
    fed = blocks(inner, bits, zeros)
    given = {name: x for name, x in fed.items() if name == "x" or name in told}
    held = {name: x for name, x in fed.items() if name not in given}
    one = node("MatMulNBits", [*fed], ["y"], domain="com.microsoft", K=inner, N=OUTPUTS, bits=bits,
               block_size=16, accuracy_level=1)  # fmt: skip
    data = model([one], {name: x.shape for name, x in given.items()}, {"y": None}, held,
                 kinds={name: x.dtype for name, x in given.items()}, opset=21)  # fmt: skip
    ours = session(data)
    assert places(ours) == {"com.microsoft:MatMulNBits": "gpu"}
    compare(ours, cpu(data), given, 2e-5)


@pytest.mark.parametrize("op", ["Sum", "Max", "Min", "Mean"])
@pytest.mark.parametrize("count", [1, 3])
def test_operators_of_opset_6(op: str, count: int) -> None:
    random = np.random.default_rng(count)
    fed = {f"x{k}": random.normal(size=(4, 5)).astype(np.float32) for k in range(count)}
    data = model([node(op, [*fed], ["y"])], dict.fromkeys(fed, (4, 5)), {"y": (4, 5)}, opset=6)
    ours = session(data)
    assert places(ours) == {op: "gpu"}
    compare(ours, cpu(data), fed)


@pytest.mark.parametrize("momentum", [None, 0.5])
@pytest.mark.parametrize("opset", [14, 15])
@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (7, 3), (2, 3, 4), (2, 3, 2, 3, 4)])
def test_normalization_by_a_batch(
    shape: tuple[int, ...], opset: int, momentum: float | None
) -> None:
    random, reads, results = np.random.default_rng(4), ["x", "s", "b", "m", "v"], ["y", "p", "q"]
    given = {} if momentum is None else {"momentum": momentum}
    fed = {"x": random.normal(2, 3, shape).astype(np.float32)}
    fed |= {name: random.uniform(0.5, 2, 3).astype(np.float32) for name in reads[1:]}
    one = node("BatchNormalization", reads, results, training_mode=1, **given)
    data = model([one], {name: x.shape for name, x in fed.items()},
                 dict.fromkeys(results), opset=opset)  # fmt: skip
    ours = session(data)
    assert places(ours) == {"BatchNormalization": "gpu"}
    compare(ours, cpu(data), fed, 4e-6)


def test_a_ratio_and_a_mode_of_a_run() -> None:
    """A run that draws random numbers is the host's."""
    kinds = {"t": np.dtype(np.bool_), "m": np.dtype(np.bool_)}
    data = model([node("Dropout", ["x", "r", "t"], ["y", "m"], seed=3)],
                 {"x": (4, 5), "r": (), "t": ()}, {"y": (4, 5), "m": (4, 5)}, opset=13,
                 kinds=kinds)  # fmt: skip
    ours, x = session(data), np.random.default_rng(4).normal(size=(4, 5)).astype(np.float32)
    assert places(ours) == {"Dropout": "gpu"}
    for ratio, training in ((0.5, False), (0.0, True), (0.0, False)):
        fed = {"x": x, "r": np.float32(ratio), "t": np.bool_(training)}
        compare(ours, cpu(data), {name: np.asarray(value) for name, value in fed.items()}, 0)
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert partition.host_runs == 0
    y, mask = ours.run(None, {"x": x, "r": np.array(0.5, np.float32), "t": np.array(True)})
    np.testing.assert_array_equal(y, np.where(mask, 2 * x, 0))
    assert 0 < mask.sum() < mask.size
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert partition.host_runs == 1
