"""Shape arithmetic in the form of exporters, with dynamic extents: all nodes are claimed, in one
partition, and results equal the CPU provider's at several shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import cpu, model, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

SHAPES = ((1, 3, 16, 16), (2, 3, 10, 12), (1, 3, 7, 9))
NEAREST = {
    "mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"
}  # fmt: skip
CONSTANTS: dict[str, Any] = {
    "[0]": np.array([0]), "[1]": np.array([1]), "[2]": np.array([2]), "[4]": np.array([4]),
    "[8]": np.array([8]), "[-1]": np.array([-1]), "0": np.array(0), "1": np.array(1),
    "2": np.array(2), "3": np.array(3), "[big]": np.array([2**62]), "[3]": np.array([3]),
    "[0,0,0,0,0,0]": np.zeros(6, np.int64), "[3,2,2]": np.array([3, 2, 2]),
    "[1,1,1]": np.ones(3, np.int64), "[[2]]": np.array([[2]]), "scales": np.float32([1, 1, 2, 3]),
    "token": np.ones((1, 3, 2, 2), np.float32), "row": np.ones((1, 3, 1, 1), np.float32),
}  # fmt: skip

SHAPE = node("Shape", ["x"], ["shape"])
BATCH = [node("Gather", ["shape", "0"], ["n"], axis=0), node("Unsqueeze", ["n", "[0]"], ["batch"])]
HEIGHT = node("Gather", ["shape", "2"], ["h"], axis=0)
WIDTH = node("Gather", ["shape", "3"], ["w"], axis=0)
PLACES = node("Slice", ["shape", "[2]", "[4]"], ["places"])
RELU = node("Relu", ["r"], ["y"])

CHAINS: dict[str, Sequence[Any]] = {
    "resize to twice the size": [
        PLACES, node("Mul", ["places", "[2]"], ["twice"]),
        node("Slice", ["shape", "[0]", "[2]"], ["rest"]),
        node("Concat", ["rest", "twice"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["r"], mode="linear"), RELU,
    ],
    "resize to the size of another": [
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["p", "", "", "shape"], ["r"], **NEAREST), RELU,
    ],
    "scales in floats": [
        node("Cast", ["shape"], ["floats"], to=1), node("Div", ["floats", "floats"], ["ones"]),
        node("Mul", ["ones", "scales"], ["all"]),
        node("Resize", ["x", "", "all"], ["y"], **NEAREST),
    ],
    "all but the batch in one": [
        *BATCH, node("Concat", ["batch", "[-1]"], ["sizes"], axis=0),
        node("Reshape", ["x", "sizes"], ["r"]), RELU,
    ],
    "halves of the rows": [
        HEIGHT, node("Div", ["h", "2"], ["half"]), node("Unsqueeze", ["half", "[0]"], ["end"]),
        node("Slice", ["x", "[0]", "end", "[2]"], ["r"]), RELU,
        node("Slice", ["x", "end", "[big]", "[2]"], ["s"]), node("Neg", ["s"], ["z"]),
    ],
    "parts of computed sizes": [
        HEIGHT, node("Div", ["h", "2"], ["half"]), node("Sub", ["h", "half"], ["other"]),
        node("Unsqueeze", ["half", "[0]"], ["a"]), node("Unsqueeze", ["other", "[0]"], ["b"]),
        node("Concat", ["a", "b"], ["sizes"], axis=0),
        node("Split", ["x", "sizes"], ["y", "z"], axis=2),
    ],
    "pad to a multiple of 8": [
        PLACES, node("Mod", ["places", "[8]"], ["over"]), node("Sub", ["[8]", "over"], ["under"]),
        node("Mod", ["under", "[8]"], ["after"]),
        node("Concat", ["[0,0,0,0,0,0]", "after"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["r"]), RELU,
    ],
    "the last axis, counted": [
        node("Shape", ["shape"], ["rank"]), node("Sub", ["rank", "[1]"], ["last"]),
        node("ReduceSum", ["x", "last"], ["s"], keepdims=1), node("Sub", ["x", "s"], ["y"]),
    ],
    "a token for the whole batch": [
        *BATCH, node("Concat", ["batch", "[3,2,2]"], ["sizes"], axis=0),
        node("Expand", ["token", "sizes"], ["r"]), RELU,
    ],
    "tiles": [
        *BATCH, node("Concat", ["batch", "[1,1,1]"], ["repeats"], axis=0),
        node("Tile", ["row", "repeats"], ["t"]), node("Add", ["x", "t"], ["y"]),
    ],
    "an assignment to a part of a shape": [
        node("ScatterND", ["shape", "[[2]]", "[-1]"], ["open"]),
        node("Slice", ["open", "[0]", "[3]"], ["sizes"]), node("Reshape", ["x", "sizes"], ["r"]),
        RELU,
    ],
    "positions by Range": [
        WIDTH, node("Range", ["0", "w", "1"], ["p"]), node("Cast", ["p"], ["floats"], to=1),
        node("Add", ["x", "floats"], ["y"]),
    ],
    "positions by NonZero": [
        WIDTH, node("Unsqueeze", ["w", "[0]"], ["wide"]), node("Expand", ["1", "wide"], ["ones"]),
        node("NonZero", ["ones"], ["p"]), node("Cast", ["p"], ["floats"], to=1),
        node("Add", ["x", "floats"], ["y"]),
    ],
    "threes stay": [
        node("Equal", ["shape", "[3]"], ["e"]), node("Where", ["e", "[3]", "shape"], ["sizes"]),
        node("ConstantOfShape", ["sizes"], ["zeros"]), node("Add", ["x", "zeros"], ["y"]),
    ],
}  # fmt: skip


def _model(nodes: Sequence[Any]) -> bytes:
    used = {name for one in nodes for name in one.input}
    outputs = [name for one in nodes for name in one.output if name in ("y", "z")]
    constants = {name: data for name, data in CONSTANTS.items() if name in used}
    inputs = {"x": ("n", 3, "h", "w")}
    return model(nodes, inputs, dict.fromkeys(outputs), constants, opset=13)


@pytest.mark.parametrize("chain", CHAINS)
def test_is_taken_and_right(chain: str) -> None:
    nodes = [SHAPE, *CHAINS[chain]]
    data = _model(nodes)
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    for shape in SHAPES:
        feed = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
        for got, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, atol=1e-5)
    report = tflgpu_plugin.report(ours)
    assert report.count("gpu") == len(nodes), str(report)
    assert len(report.partitions) == 1


def _filled(value: float) -> bytes:
    """Returns a model of y = relu(x + c) that also outputs c, a tensor of the same shape filled
    with one number."""
    from onnx import numpy_helper

    number = numpy_helper.from_array(np.float32([value]))
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("ConstantOfShape", ["shape"], ["same"], value=number),
        node("Expand", ["one", "shape"], ["wide"]),
        node("Add", ["x", "same"], ["sum"]),
        node("Relu", ["sum"], ["y"]),
        node("Mul", ["wide", "two"], ["z"]),
    ]
    constants = {"one": np.ones((300, 1), np.float32), "two": np.float32([2])}
    return model(nodes, {"x": ("n", "m")}, {"y": None, "z": None}, constants)


def test_arithmetic_stays_it_however_large_its_result() -> None:
    """The first plan is made for few elements; values derived from shapes have many more in a
    run."""
    ours, theirs = session(_filled(0.5)), cpu(_filled(0.5))
    for shape in ((300, 2), (1, 64), (300, 100), (1, 1)):
        feed = {"x": np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)}
        for got, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            np.testing.assert_array_equal(got, wanted)
    tflgpu_plugin.assert_used(ours)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.int32, np.bool_])
def test_what_is_filled_has_many_elements_from_the_first_plan_on(kind: type) -> None:
    from onnx import numpy_helper

    number = numpy_helper.from_array(np.array([1], kind))
    nodes = [
        node("Relu", ["x"], ["r"]), node("Shape", ["r"], ["shape"]),
        node("ConstantOfShape", ["shape"], ["filled"], value=number),
        node("Cast", ["filled"], ["f"], to=1), node("Add", ["r", "f"], ["y"]),
    ]  # fmt: skip
    for shape in ((70, 80), ("n", 80)):
        data = model(nodes, {"x": shape}, {"y": None})
        ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
        for rows in (70,) if shape[0] == 70 else (90, 3, 400):
            feed = {"x": np.random.default_rng(rows).uniform(-1, 1, (rows, 80)).astype(np.float32)}
            np.testing.assert_array_equal(ours.run(None, feed)[0], theirs.run(None, feed)[0])
        report = tflgpu_plugin.report(ours)
        assert report.count("gpu") == len(nodes), str(report)
