"""Tests reductions of ONNX over given axes, all axes, and none: results equal the CPU
provider's."""

from __future__ import annotations

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import cpu, model, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

OPS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
       "ReduceSumSquare", "ReduceLogSumExp")  # fmt: skip
WHOLE = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean")
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


@pytest.mark.parametrize("told", [False, True], ids=["constant", "of a run"])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("shape", [(2, 0, 4), (0,), (0, 3), (2, 3, 0)])
def test_sums_of_nothing(shape: tuple[int, ...], kind: type, told: bool) -> None:
    """Results over an axis without elements are the identity of the operator, in the host's
    form."""
    names = [op for op in (*OPS, "ReduceLogSum") if kind is not np.int32 or op in WHOLE]
    nodes, axes = [], {"first": [0], "last": [len(shape) - 1], "all": [*range(len(shape))]}
    for op in names:
        nodes += [node(op, ["x", name], [f"{op} {name} {keep}"], keepdims=keep)
                  for name in axes for keep in (0, 1)]  # fmt: skip
    results = [made.output[0] for made in nodes]
    lists = {name: np.array(given, np.int64) for name, given in axes.items()}
    fed = {"x": np.zeros(shape, kind)} | (lists if told else {})
    made = model(nodes, {name: x.shape for name, x in fed.items()}, dict.fromkeys(results),
                 {} if told else lists, opset=18,
                 kinds={name: x.dtype for name, x in fed.items()}
                 | dict.fromkeys(results, np.dtype(kind)))  # fmt: skip
    ours = session(made)
    assert set(places(ours).values()) == {"gpu"}
    expected = cpu(made).run(results, fed)
    for name, got, wanted in zip(results, ours.run(results, fed), expected, strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype, name
        np.testing.assert_array_equal(got, wanted, name)


def test_an_extent_that_becomes_0() -> None:
    """A plan for any extent is not used for 0 elements."""
    nodes = [node(op, ["x", "a"], [op], keepdims=0) for op in OPS]
    made = model(nodes, {"x": ("n", 3)}, dict.fromkeys(OPS), {"a": np.array([0])}, opset=18)
    ours = session(made)
    for count in (4, 0, 5, 0):
        x = np.random.default_rng(count).uniform(0.1, 2, (count, 3)).astype(np.float32)
        pairs = zip(OPS, ours.run(None, {"x": x}), cpu(made).run(None, {"x": x}), strict=True)
        for name, got, wanted in pairs:
            np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("axis", [-1, -2])
def test_axes_from_the_end_of_nothing_are_left_to_the_host(axis: int) -> None:
    """onnxruntime gives results of another shape than the standard."""
    made = model([node("ReduceSum", ["x", "a"], ["y"])], {"x": (2, 0, 4)}, {"y": None},
                 {"a": np.array([axis])}, opset=18)  # fmt: skip
    ours, fed = session(made), {"x": np.zeros((2, 0, 4), np.float32)}
    assert places(ours) == {"ReduceSum": "cpu"}
    assert ours.run(None, fed)[0].shape == cpu(made).run(None, fed)[0].shape


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_the_least_int64_is_left_to_the_host(op: str) -> None:
    kinds = dict.fromkeys(("x", "y"), np.dtype(np.int64))
    made = model([node(op, ["x"], ["y"])], {"x": (0, 3)}, {"y": (1, 1)}, opset=18, kinds=kinds)
    ours, fed = session(made), {"x": np.zeros((0, 3), np.int64)}
    assert places(ours) == {op: "cpu"}
    np.testing.assert_array_equal(ours.run(None, fed)[0], cpu(made).run(None, fed)[0])


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
