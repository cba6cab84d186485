"""Tests reductions of ONNX over given axes, all axes, and none: results equal the CPU
provider's."""

from __future__ import annotations

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import cpu, model, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

OPS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
       "ReduceSumSquare", "ReduceLogSumExp")  # fmt: skip
AXES = {"one": [1], "last": [-1], "two": [0, 2], "none": []}


@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
def test_axes(noop: int, keep: int) -> None:
    nodes = []
    for op in OPS:
        for axes in (*AXES, None):
            reads = ["x"] if axes is None else ["x", axes]
            how = {"keepdims": keep, "noop_with_empty_axes": noop}
            nodes.append(node(op, reads, [f"{op} {axes}"], **how))
    names = [made.output[0] for made in nodes]
    constants = {name: np.array(axes, np.int64) for name, axes in AXES.items()}
    made = model(nodes, {"x": (2, 3, 5)}, dict.fromkeys(names), constants, opset=18)
    ours = session(made)
    tflgpu_plugin.assert_used(ours)
    x = np.random.default_rng(3).uniform(0.1, 2, (2, 3, 5)).astype(np.float32)
    wanted = cpu(made).run(names, {"x": x})
    for name, got, expected in zip(names, ours.run(names, {"x": x}), wanted, strict=True):
        assert got.shape == expected.shape, name
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("opset", [11, 12, 13, 17])
@pytest.mark.parametrize("axis", [None, 0, 1, 3, -1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_goes_by_its_definition(opset: int, axis: int | None, op: str) -> None:
    """Before opset 13 softmax is over all axes from the named one (1) on, since then over the named
    one (-1)."""
    given = {} if axis is None else {"axis": axis}
    shape = (2, 3, 4, 5)
    made = model([node(op, ["x"], ["y"], **given)], {"x": shape}, {"y": shape}, opset=opset)
    ours = session(made)
    tflgpu_plugin.assert_used(ours)
    x = np.random.default_rng(3).uniform(-3, 3, shape).astype(np.float32)
    (got,), (expected,) = ours.run(None, {"x": x}), cpu(made).run(None, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=4e-6, atol=1e-6)
