"""What operators mean in numpy, how far the folder goes, and subgraphs planned for other shapes."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tflgpu_plugin.providers.onnxruntime import folding as onnx
from tflgpu_plugin.providers.tflite import ops as tflite

from tflgpu_plugin.errors import BuildError
from tflgpu_plugin.frontend import fold, meanings, subgraph
from tflgpu_plugin.frontend.fold import Step
from tflgpu_plugin.ir.graph import FOLDED, Graph, Node, Quantization, Tensor

ROWS = [*onnx.TABLE.values()]
OPS = {row.op for row in (*tflite.HOST_OPS.values(), *tflite.CPU_OPS.values()) if row.op}


def test_every_meaning_is_that_of_some_operator() -> None:
    known = {step.meaning for op in OPS if (step := fold.of_op(op, {}, [Tensor("", ())]))}
    assert {*meanings.MEANINGS} <= {row.meaning for row in ROWS} | known
    assert {row.meaning for row in ROWS} <= {*meanings.MEANINGS} | known


def test_operators_of_the_cpu_name_a_meaning() -> None:
    for row in tflite.CPU_OPS.values():
        assert not row.op or fold.of_op(row.op, {}, [Tensor("", ())])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.meaning)
def test_operands_are_what_the_meaning_takes(row: onnx.Row) -> None:
    if row.meaning not in meanings.MEANINGS:  # views
        assert not row.operands
        return
    try:
        taken = inspect.signature(meanings.MEANINGS[row.meaning]).parameters
    except ValueError:  # numpy's own, of values alike
        assert not row.operands
        return
    if row.operands:
        assert {*row.operands} <= {*taken}
    else:
        assert all(one.kind is not one.KEYWORD_ONLY or one.name == "axis" for one in taken.values())


@pytest.mark.parametrize(
    ("meaning", "operands", "values", "arguments"),
    [
        ("fill", "shape", ([1 << 40],), {}),
        ("gather", "data indices", (np.zeros((1, 4096)), np.zeros(2, int)), {"axis": 0}),
        ("pad", "data widths", ([1], [[0, 1 << 40]]), {}),
        ("range", "start limit delta", (0, 1 << 40, 1), {}),
        ("add", "", (np.zeros((100, 1)), np.zeros((1, 100))), {}),
        ("neg", "", (np.zeros(5000),), {}),
        ("div", "", ([1], [0]), {}),
        ("floor_mod", "a b", ([1], [0]), {}),
        ("floor_div", "", ([1], [0]), {}),
        ("cast", "data", ([3e9],), {"dtype": "i32"}),
        ("cast", "data", ([np.nan],), {"dtype": "i32"}),
        ("gather", "data indices", ([1, 2], [-1]), {}),
        ("reduce_prod", "data", ([1 << 40, 1 << 40],), {"noop_without_axes": False}),
        ("split_by", "data sizes", ([1, 2], [1, 2]), {}),
        ("add", "", (), {}),
    ],
)
def test_what_does_not_follow(
    meaning: str, operands: str, values: tuple[Any, ...], arguments: dict[str, Any]
) -> None:
    step = Step(meaning, tuple(operands.split()), arguments)
    assert fold.evaluate(step, [np.asarray(value) for value in values]) is None


def test_results_of_steps() -> None:
    def run(meaning: str, operands: str, *values: Any, **arguments: Any) -> Any:
        step = Step(meaning, tuple(operands.split()), arguments)
        found = fold.evaluate(step, [np.asarray(value) for value in values])
        assert found is not None
        return [array.tolist() for array in found]

    assert run("div", "", [-7, 7], [2, 2]) == [[-3, 3]]
    assert run("gather", "data indices", [1, 2], [-1], from_end=True) == [[2]]
    assert run("split_by", "data sizes", [1, 2, 3], [1, -1]) == [[1], [2, 3]]
    assert run("split_by", "data", [1, 2, 3], count=2) == [[1, 2], [3]]
    assert run("pad", "data widths", [1], [[1, 2]]) == [[0, 1, 0, 0]]
    flat = run("pad", "data widths", [[1, 2]], [1, 0, 0, 2])  # all before, then all after
    assert flat == [[[0, 0, 0, 0], [1, 2, 0, 0]]]
    assert run("cut", "data starts ends", [1, 2, 3], [2], [2**63 - 1], steps=[-1]) == [[3, 2, 1]]
    assert run("reduce_sum", "data axes", [[1, 2]], [1], keep_dims=False) == [[3]]
    assert run("reduce_max", "data axes", [1 << 62, -(1 << 62) - 1], [0]) == [[1 << 62]]
    assert run("reshape_or_keep", "data shape", [1, 2], [2, 1], shape=[1, 2]) == [[[1, 2]]]


def test_results_of_ops() -> None:
    """Of those that only move elements the views tell."""

    def run(op: str, *values: Any, results: int = 1, **attributes: Any) -> Any:
        step = fold.of_op(op, attributes, [Tensor("", (), "i32")] * results)
        found = step and fold.evaluate(step, [np.asarray(value) for value in values])
        return found and [(array.dtype.name, array.tolist()) for array in found]

    assert run("slice", [1, 2, 3], [1], [-1]) == [("int64", [2, 3])]
    assert run("slice", [1, 2], [1], [2]) is None
    assert run("reshape", [[1], [2]], squeeze=()) == [("int64", [1, 2])]
    assert run("unstack", [[1], [2]], axis=0, results=2) == [("int64", [1]), ("int64", [2])]
    assert run("split", [1, 2], 0, results=2) == [("int64", [1]), ("int64", [2])]
    assert run("slice", np.zeros(5000), [0], [1]) is None
    assert run("tile", [1, 2], [1 << 40]) is None
    assert run("expand", [1], [100, 100]) is None
    assert run("expand", [1], [1, 2]) == [("int64", [[1, 1]])]
    assert run("pad", [1], [[0, 1]]) == [("int64", [1, 0])]
    assert run("pad", [1, 2], [[0, 1]], mode="reflect") is None
    assert run("add", [1], [2], activation="none") == [("int64", [3])]
    assert run("add", [1], [2], activation="relu") is None
    assert run("cast", [1.5]) == [("int32", [1])]
    assert run("reduce_sum", [[1, 2]], np.zeros(0, int), keep_dims=False) == [("int64", [[1, 2]])]
    assert run("tanh", [1.0]) is None


def test_values_that_a_tensor_cannot_hold_are_not_known() -> None:
    """Products of int32 are computed in 64 bits."""
    factors = [Tensor("", (1,), "i32", np.array([n], np.int32)) for n in (1 << 20, 1 << 11)]
    result = Tensor("y", (-1,), "i32")
    assert fold.known(Step("mul"), factors, [result]) is None
    (found,) = fold.known(Step("sub"), factors, [result]) or [None]
    assert found is not None and found.data is not None
    assert (found.dtype, found.data.tolist()) == ("i32", [(1 << 20) - (1 << 11)])
    (wide,) = fold.known(Step("sub"), factors, [replace(result, dtype="i64")]) or [None]
    assert wide is not None and wide.dtype == "i32"
    assert fold.known(Step("sub"), factors, [replace(result, dtype="u8")]) is None
    quantized = replace(result, quantization=Quantization((1.0,), (0,)))
    assert fold.known(Step("sub"), factors, [quantized]) is None
    halves = [Tensor("", (1,), "f32", np.array([0.5], np.float32))] * 2
    assert fold.known(Step("add"), halves, [replace(result, dtype="f16")]) is None
    nothing = Tensor("", (1,), "i32", np.array([0], np.int32))
    assert fold.known(Step("floor_div"), [factors[0], nothing], [result]) is None
    assert fold.known(Step("sub"), factors, [result, result]) is None


def test_a_subgraph_follows_a_shape_that_it_does_not_read() -> None:
    """y = reshape(x) as the shape of another tensor says: that is worked out anew."""
    tensors = {
        0: Tensor("x", (6,)), 1: Tensor("other", (2, 3)), 3: Tensor("y", (2, 3)),
        2: Tensor("shape", (2,), "i32", np.array([2, 3], np.int32)),
    }  # fmt: skip
    shape = Node(0, FOLDED, (1,), (2,), {fold.STEP: Step("shape", ("shape",))}, "s", "SHAPE")
    reshape = Node(1, "reshape", (0, 2), (3,), {}, "y", "RESHAPE")
    whole = Graph(tensors, (shape, reshape), (0, 1), (3,))
    part = Graph({t: tensors[t] for t in (0, 2, 3)}, (reshape,), (0,), (3,))
    kept = subgraph.kept(part, whole)
    assert (kept.keys, kept.shapes) == ((0, 1), ((6,), (2, 3)))
    graph = kept.reshaped([(8,), (4, 2)])
    assert graph.shape(3) == (4, 2)
    with pytest.raises(BuildError, match="RESHAPE cannot take these input shapes"):
        kept.reshaped([(8,), (3, 2)])
    alone = subgraph.kept(part, part)
    assert (alone.keys, alone.nodes) == ((0,), ())
