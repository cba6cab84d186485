"""Inconsistent models and tables of third-party hosts, and rows that fail, are refused with a
sentence."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.third_party import TABLE, built, model, node
from tflgpu_plugin import providers
from tflgpu_plugin.importer import partition
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.ir import Graph, Node, Tensor, operands

pytestmark = pytest.mark.usefixtures("not_debugging")
LIST: Any = [1.0, 2.0]
VALUE: Any = Value("a", "f32", (2,))
WRONG: dict[str, tuple[HostModel, str]] = {
    "no such value": (model(node(0, ("a", "x"), "c")), "names the value 'x'"),
    "made twice": (
        model(node(0, ("a", "a"), "c"), node(1, ("b", "b"), "c")),
        "by two nodes, 0 and",
    ),
    "one id": (model(node(0, ("a", "a"), "b"), node(0, ("b", "b"), "c")), "have the same id"),
    "out of order": (model(node(0, ("b", "b"), "c"), node(1, ("a", "a"), "b")), "makes later"),
    "reads itself": (model(node(0, ("a", "c"), "c")), "makes later"),
    "no such output": (replace(model(), outputs=("x",)), "The output 'x'"),
    "no array": (model(a=Value("a", "f32", (2,), LIST)), "is not a numpy array"),
    "another type": (model(a=Value("a", "f32", (2,), np.ones(2))), "data of float64"),
    "no type": (model(a=Value("a", "float32", (2,), np.ones(2, np.float32))), "types are f32"),
    "no type, no data": (model(a=Value("a", "float32", (2,))), "types are f32"),
    "a constant that is made": (
        model(node(0, ("a", "a"), "c"), c=Value("c", "f32", (2,), np.ones(2, np.float32))),
        "is a constant, but",
    ),
    "an id of ours": (model(node(1 << 24, ("a", "a"), "c")), "is not from 0 to"),
    "no node": (replace(model(), nodes=(None,)), "not a HostNode"),
    "a list of inputs": (model(replace(node(0, ("a", "a"), "c"), inputs=LIST)), "not a tuple"),
    "a number as a key": (
        model(replace(node(0, ("a", "a"), "c"), inputs=(1, "a"))),
        "has 1, which is not",
    ),
    "no value": (model(a=LIST), "not a Value"),
    "a shape that is a number": (model(a=replace(VALUE, shape=2)), "not a tuple of integers"),
    "a type that is none": (model(a=replace(VALUE, dtype=np.float32)), "not a str"),
    "a body": (
        model(replace(node(0, ("a", "a"), "c"), bodies=(model(node(0, ("a", "x"), "c")),))),
        "names the value 'x'",
    ),
    "another shape": (model(a=Value("a", "f32", (3,), np.ones(2, np.float32))), "the shape [3]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_does_not_fit(name: str) -> None:
    given, said = WRONG[name]
    with pytest.raises(ValueError) as error:
        providers.import_(given, TABLE)
    assert said in str(error.value) and str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("rows", "said"),
    [({"x": providers.HostOp("x", "nonsense", (1, 1))}, "'nonsense', which is not an op"),
     ({"x": "add"}, "is not a HostOp"), ([], "a mapping")],
)  # fmt: skip
def test_a_table_that_is_none(rows: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        providers.import_(model(), providers.Table(rows))


def test_a_circle_of_nodes_ends() -> None:
    tensors = {k: Tensor(str(k), (2,)) for k in range(2)}
    graph = Graph(tensors, (Node(0, "relu", (1,), (0,)), Node(1, "relu", (0,), (1,))), (), (1,))
    with pytest.raises(ValueError, match="can never run: the graph has a cycle"):
        partition.groups(graph, {0, 1})


def test_subclasses_and_numbers_of_numpy_are_taken() -> None:
    """Both built-in hosts use subclasses."""

    class Model(HostModel):
        pass

    class Step(HostNode):
        pass

    one = Step(np.int64(3), "twice", "", 1, "c", ("a", "a"), ("c",))
    given = Model((one,), model().values, ("c",))
    assert not providers.import_(given, TABLE).refusals
    with pytest.raises(ValueError, match="not a HostModel"):
        providers.import_(None, TABLE)  # type: ignore[arg-type]


def test_a_row_that_fails_is_named() -> None:
    said = built(lambda b: b.add("nonsense", b.x()))
    assert said.code == "defect" and "There is no op 'nonsense'" in said
    assert f"in the row of {__name__}" in said
    assert f"in the row of {__name__}" in built(partial(fails, 1))


def fails(count: int, b: Any) -> int:
    return count // 0


def test_a_condition_that_fails_is_named() -> None:
    row = providers.HostOp("twice", "add", (1, 1), operands=operands("value value"),
                           conditions=(partial(fails, 1),))  # fmt: skip
    found = providers.import_(model(node(0, ("a", "a"), "c")), providers.Table({"twice": row}))
    assert f"in the row of {__name__}" in found.refusals[0]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [({"x": (2,)}, "is not among the values"), ({"a": 2}, "not a tuple"),
     ({"a": (2.0,)}, "not a tuple"), ({"a": (2, 1)}, "is another"), ({"a": (3,)}, "is another"),
     ({"b": (4,), "d": (5,)}, "is another")],
)  # fmt: skip
def test_shapes_that_are_not_those_of_the_model(shapes: Any, said: str) -> None:
    open_ones = {key: Value(key, "f32", ("n",)) for key in "bd"}
    given = model(node(0, ("a", "a"), "c"), **open_ones)
    with pytest.raises(ValueError, match=said):
        providers.import_(given, TABLE, providers.Facts(shapes=shapes))
    providers.import_(given, TABLE, providers.Facts(shapes={"a": (2,), "b": (4,), "d": (4,)}))


def test_a_graph_without_a_judge_is_not_claimed() -> None:
    found = providers.import_(model(node(0, ("a", "a"), "c")), TABLE)
    with pytest.raises(ValueError, match="was not judged"):
        providers.claim(found)
