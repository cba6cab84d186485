"""Tests which values of a TFLite graph the importer considers known, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support import host_models
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.ir import FOLDED, Node, Refusal, Tensor

REFUSED = Refusal("operator.unknown", "It cannot run.")
ONES = np.ones(2, np.float32)
Step = tuple[str, Sequence[int | None], int, Mapping[str, Any]]


def walk(
    given: Sequence[Tensor], *steps: Step, refusal: Refusal | None = None, **more: Any
) -> Imported:
    """Returns a model in which tensor k is the k-th; each step is an operator, its inputs, its
    output and attributes."""
    nodes = [host_models.node(k, op, inputs, (output,), attributes, refusal)
             for k, (op, inputs, output, attributes) in enumerate(steps)]  # fmt: skip
    shapes = {k: given[k].shape for k in more.get("loose", ())}
    return host_models.imported(host_models.model(given, nodes, **more), shapes)


def last(made: Imported) -> Node:
    return made.graph.nodes[-1]


def known(made: Imported) -> set[int]:
    """Returns the results that were folded."""
    return {t for node in made.graph.nodes if node.op == FOLDED for t in node.outputs}


def tensor(shape: tuple[int, ...] = (2,), data: Any = None, dtype: str = "f32") -> Tensor:
    return Tensor("t", shape, dtype, data)


def test_what_follows_from_constants_is_known() -> None:
    made = walk([tensor(data=ONES), tensor()], ("NEG", [0], 1, {}))
    assert last(made).op == FOLDED
    found = made.graph.constant(1)
    assert found is not None and found.tolist() == [-1, -1]
    assert made.graph.chained == (1,)


def test_what_is_computed_of_constants_elsewhere_is_not_known() -> None:
    """Hosts differ in EXP: its result follows from constants, but is not known here."""
    joined = {"axis": 0, "activation": "none"}
    steps: list[Step] = [("EXP", [0], 1, {}), ("CONCATENATION", [0, 1], 2, joined)]
    made = walk([tensor(data=ONES), tensor(), tensor((4,))], *steps)
    assert [node.op for node in made.graph.nodes] == ["exp", "concat"]
    assert made.graph.chained == (1, 2) and not known(made)


def test_an_absent_operand_is_not_known() -> None:
    made = walk([tensor(data=ONES), tensor()], ("SUB", [0, None], 1, {}))
    assert last(made).host_op == "SUB" and not known(made)


@pytest.mark.parametrize("op", ["RANDOM_UNIFORM", "MULTINOMIAL"])
def test_chance_is_no_constant(op: str) -> None:
    given = [tensor(data=np.ones(2, np.int32), dtype="i32"), tensor()]
    assert not walk(given, (op, [0], 1, {})).graph.chained


def test_a_node_without_inputs_makes_no_constant() -> None:
    assert not walk([tensor()], ("VAR_HANDLE", [], 0, {})).graph.chained


def test_sparse_constants_are_read_by_one_operator() -> None:
    given: dict[str, Any] = {"dense": {0: lambda: ONES}}
    made = walk([tensor(), tensor()], ("NEG", [0], 1, {}), **given)
    assert last(made).op == "neg" and made.graph.chained == (1,)
    made = walk([tensor(), tensor()], ("DENSIFY", [0], 1, {}), **given)
    assert last(made).op == FOLDED


def test_what_is_not_sparse_is_not_made_dense() -> None:
    made = walk([tensor(data=ONES), tensor()], ("DENSIFY", [0], 1, {}))
    assert made.refusals == {0: "Its input is not sparse."}


@pytest.mark.parametrize(
    ("shape", "wanted", "refusal", "refused"),
    [
        ((2, 3), (6,), None, 0),
        ((2, 3), (5,), None, 1),
        ((2, 3), (5,), REFUSED, 0),
        ((0, 3), (5,), None, 0),
        ((2, 0), (0, 7), None, 0),
        ((), (1,), None, 0),
        ((), (2,), None, 1),
    ],
)
def test_nodes_that_make_nothing_of_something_are_counted(
    shape: tuple[int, ...], wanted: tuple[int, ...], refusal: Refusal | None, refused: int
) -> None:
    step: Step = ("RESHAPE", [0], 1, {"shape": wanted})
    made = walk([tensor(shape), tensor((6,))], step, refusal=refusal)
    assert len(made.shape_refused) == refused


def test_an_empty_result_of_something_is_counted() -> None:
    for shape, refused in (((4,), 1), ((0,), 0)):
        ends = [tensor((1,), np.array([n], np.int32), "i32") for n in (1, 0)]
        made = walk([tensor(shape), *ends, tensor((0,))], ("SLICE", [0, 1, 2], 3, {}))
        assert len(made.shape_refused) == refused


@pytest.mark.parametrize("loose", [(1,), ()])
def test_a_shape_that_the_model_leaves_open_is_worked_out(loose: tuple[int, ...]) -> None:
    """A converter wrote 1 for the batch, which is known further on."""
    given = [tensor((3, 4)), tensor((1, 4)), tensor((1, 4))]
    made = walk(given, ("NEG", [0], 1, {}), ("NEG", [1], 2, {}), loose=loose)
    assert [made.graph.shape(k) for k in (1, 2)] == [(3, 4) if loose else (1, 4), (1, 4)]


@pytest.mark.parametrize(
    ("op", "shape", "unknown"),
    [("CUSTOM Convolution2DTransposeBias", (1, 9, 9, 4), False),
     ("CUSTOM Convolution2DTransposeBias", (), True), ("CUSTOM Thing", (1, 9, 9, 4), True),
     ("RELU", (1, 5, 5, 4), False)],
)  # fmt: skip
def test_shapes_of_custom_operators_are_those_of_the_file(
    op: str, shape: tuple[int, ...], unknown: bool
) -> None:
    """This holds if the operator is known and the file states shapes."""
    given = [tensor((1, 5, 5, 4)), tensor(shape)]
    model = host_models.model(given, [host_models.node(0, op, (0,), (1,))])
    assert (model.values["1"].shape is None) == unknown


def test_what_hosts_do_not_agree_about_is_not_worked_out() -> None:
    """tflite-runtime reverses the first of several axes, ai-edge-litert all."""
    axes = [tensor((n,), np.arange(n, dtype=np.int32), "i32") for n in (1, 2)]
    given = [tensor((2, 2), np.ones((2, 2), np.float32)), *axes, tensor((2, 2)), tensor((2, 2))]
    steps: list[Step] = [("REVERSE_V2", [0, 1], 3, {}), ("REVERSE_V2", [0, 2], 4, {})]
    made = walk(given, *steps)
    assert known(made) == {3} and set(made.refusals) == {1}
    assert made.graph.chained == (3, 4)
