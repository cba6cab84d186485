"""Tests Resize with a scale that float32 rounds: onnxruntime's shape inference gives an extent one
less than its kernel (7 * float32(50/7) is 49.9999995 there and 50 here). All nodes of the models
are on the GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import Array, cpu, model, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

SCALES = np.array([1, 1, 50 / 7, 90 / 11], np.float32)
FORMS: dict[str, tuple[int, list[str]]] = {
    "Resize": (18, ["a", "", "scales"]), "Resize of opset 10": (10, ["a", "scales"]),
    "Upsample": (9, ["a", "scales"]),
}  # fmt: skip


def _model(form: str) -> bytes:
    """Returns a model whose wrongly stated extent passes through nodes that keep it, change it or
    output it."""
    opset, inputs = FORMS[form]
    nodes = [
        node("Relu", ["x"], ["a"]),
        node(form.partition(" ")[0], inputs, ["b"], mode="linear"),
        node("Tanh", ["b"], ["c"]),
        node("Conv", ["c", "w"], ["d"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Sigmoid", ["d"], ["e"]),
        node("Mul", ["d", "e"], ["y"]),
        node("Transpose", ["c"], ["z"], perm=[0, 2, 3, 1]),
    ]
    w = np.random.default_rng(1).standard_normal((3, 4, 3, 3)).astype(np.float32)
    constants: dict[str, Array] = {"scales": SCALES, "w": w}
    return model(nodes, {"x": (1, 4, 7, 11)}, {"y": None, "z": None}, constants, opset=opset)


@pytest.mark.parametrize("left", ["", "Tanh", "Conv", "Sigmoid", "Tanh,Sigmoid", "Relu"])
@pytest.mark.parametrize("form", FORMS)
def test_the_kernel_knows_the_extent(form: str, left: str) -> None:
    data = _model(form)
    ours, theirs = session(data, force=1, exclude=left), cpu(data)
    on_cpu = {op for op, where in places(ours).items() if where == "cpu"}
    assert on_cpu == {*filter(None, left.split(","))}
    for seed in range(3):
        feed = {"x": np.random.default_rng(seed).standard_normal((1, 4, 7, 11)).astype("f4")}
        for got, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            assert got.shape == wanted.shape and 50 in (got.shape[1], 2 * got.shape[2])
            np.testing.assert_allclose(got, wanted, atol=2e-5)
