"""Tests what a row promises about a node, by which refused node tests of onnx are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from conformance import advertised  # noqa: E402

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64


def model(
    nodes: list[Any], inputs: dict[str, tuple[int, list[Any] | None]], kind: int = FLOAT
) -> Any:
    """Returns a model of these nodes, whose output is "y"."""
    given = [helper.make_tensor_value_info(n, k, shape) for n, (k, shape) in inputs.items()]
    made = [helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "test", given, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def judged(nodes: list[Any], kind: int = FLOAT, **inputs: tuple[int, list[Any] | None]) -> str:
    """Returns the verdict on the last node."""
    return advertised.judge(model(nodes, inputs, kind))[-1].outside


ADD = [helper.make_node("Add", ["a", "b"], ["y"])]
CAT = [helper.make_node("Concat", ["a", "b"], ["y"], axis=0)]
SUM = [helper.make_node("ReduceSum", ["a", "b"], ["y"])]
RANGE = [helper.make_node("Range", ["a", "a", "b"], ["y"])]


def test_what_a_row_promises() -> None:
    assert judged(ADD, a=(FLOAT, [2, 3]), b=(FLOAT, [3])) == ""
    assert judged(ADD, a=(FLOAT, [0, 3]), b=(FLOAT, [3])) == ""  # without elements, too


@pytest.mark.parametrize(
    ("nodes", "kind", "a", "b", "sentence"),
    [
        (ADD, DOUBLE, (DOUBLE, [2]), (DOUBLE, [2]), "DOUBLE, the row has f32"),
        (CAT, FLOAT, (FLOAT, [1] * 8), (FLOAT, [1] * 8), ""),
        (CAT, FLOAT, (FLOAT, [1] * 9), (FLOAT, [1] * 9), "rank 9, rows have up to 8"),
        (ADD, FLOAT, (FLOAT, ["n"]), (FLOAT, [1]), "a shape that is known only in a run"),
        (RANGE, INT64, (INT64, []), (INT64, []), "the row asks for a constant delta"),
        (
            [helper.make_node("MaxPool", ["a"], ["y", "places", "more"], kernel_shape=[1])],
            FLOAT, (FLOAT, [2]), (FLOAT, [2]), "3 outputs, the row has 2",
        ),
        (
            [helper.make_node("Shape", ["a"], ["s"]), helper.make_node("Identity", ["s"], ["y"])],
            INT64, (FLOAT, [2]), (FLOAT, [2]), "left to the host",
        ),
    ],
)  # fmt: skip
def test_what_is_outside(nodes: list[Any], kind: int, a: Any, b: Any, sentence: str) -> None:
    assert sentence in judged(nodes, kind, a=a, b=b)


def test_a_version_outside_the_row() -> None:
    # Definitions before opset 7 mean something else by broadcasting and are not read.
    add = model(ADD, {"a": (FLOAT, [2]), "b": (FLOAT, [2])})
    add.opset_import[0].version = 6
    assert "version 6, the row has 7 to 14" in advertised.judge(add)[0].outside


def test_inputs_become_constants() -> None:
    given = model(SUM, {"a": (FLOAT, [2, 3]), "b": (INT64, [1])})
    assert advertised.open_constants(given) == {"b": "axes"}
    made = advertised.with_constants(given, {"b": np.array([1])})
    assert [value.name for value in made.graph.input] == ["a"]
    assert advertised.open_constants(made) == {} and advertised.judge(made)[0].outside == ""
