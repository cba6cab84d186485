"""What the TFLite frontend takes for known, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tflgpu_plugin.providers.tflite import ops
from tflgpu_plugin.providers.tflite.host_node import HostNode
from tflgpu_plugin.providers.tflite.shapes import Walk
from tflgpu_plugin.providers.tflite.tensors import SPARSE

from tflgpu_plugin.ir.graph import FOLDED, Node, Tensor

ONES = np.ones(2, np.float32)


def walk(given: Sequence[Tensor], **more: Any) -> Walk:
    """Tensor k is the k-th."""
    return Walk(dict(enumerate(given)), **more)


def annotate(
    made: Walk, op: str, inputs: Sequence[int | None], output: int, refusal: str | None = None,
    **attributes: Any,
) -> Node:  # fmt: skip
    row = ops.HOST_OPS.get(op)
    host = HostNode(None, output, 0, op, 1, tuple(inputs), (output,), None, made.tensors)
    name = row.op if row else ""
    node = Node(output, name, tuple(inputs), (output,), attributes, host_op=op, row=row,
                refusal=refusal)  # fmt: skip
    return made.annotate(host, node)


def tensor(shape: tuple[int, ...] = (2,), data: Any = None, dtype: str = "f32") -> Tensor:
    return Tensor("t", shape, dtype, data)


def test_what_follows_from_constants_is_known() -> None:
    made = walk([tensor(data=ONES), tensor()])
    assert annotate(made, "NEG", [0], 1).op == FOLDED
    assert made.known[1].data is not None and made.known[1].data.tolist() == [-1, -1]
    assert made.chained == {1}


def test_what_is_computed_of_constants_elsewhere_is_not_known() -> None:
    """Hosts differ in EXP: what reads it follows from constants, and nobody knows it here."""
    made = walk([tensor(data=ONES), tensor(), tensor((4,))])
    assert annotate(made, "EXP", [0], 1).op == "exp"
    found = annotate(made, "CONCATENATION", [0, 1], 2, axis=0, activation="none")
    assert found.op == "concat" and made.chained == {1, 2} and not made.known


def test_an_absent_operand_is_not_known() -> None:
    made = walk([tensor(data=ONES), tensor()])
    assert annotate(made, "NEG", [0, None], 1).op == "neg" and not made.known


@pytest.mark.parametrize("op", ["RANDOM_UNIFORM", "MULTINOMIAL"])
def test_chance_is_no_constant(op: str) -> None:
    made = walk([tensor(data=np.ones(2, np.int32), dtype="i32"), tensor()])
    annotate(made, op, [0], 1)
    assert not made.chained


def test_a_node_without_inputs_makes_no_constant() -> None:
    made = walk([tensor()])
    annotate(made, "VAR_HANDLE", [], 0)
    assert not made.chained


def test_sparse_constants_are_read_by_one_operator() -> None:
    given: dict[str, Any] = {"sparse": {0: lambda: tensor(data=ONES)}}
    made = walk([tensor(), tensor()], **given)
    assert annotate(made, "NEG", [0], 1).op == "neg" and made.chained == {1}
    made = walk([tensor(), tensor()], **given)
    assert annotate(made, SPARSE, [0], 1).op == FOLDED


@pytest.mark.parametrize(
    ("shape", "wanted", "refusal", "unfit"),
    [
        ((2, 3), (6,), None, 0),
        ((2, 3), (5,), None, 1),
        ((2, 3), (5,), "It cannot run.", 0),
        ((0, 3), (5,), None, 0),
        ((2, 0), (0, 7), None, 0),
        ((), (1,), None, 0),
        ((), (2,), None, 1),
    ],
)
def test_nodes_that_make_nothing_of_something_are_counted(
    shape: tuple[int, ...], wanted: tuple[int, ...], refusal: str | None, unfit: int
) -> None:
    made = walk([tensor(shape), tensor((6,))])
    annotate(made, "RESHAPE", [0], 1, refusal, shape=wanted)
    assert len(made.unfit) == unfit


def test_an_empty_result_of_something_is_counted() -> None:
    for shape, unfit in (((4,), 1), ((0,), 0)):
        given = [tensor(shape), *(tensor((1,), np.array([n], np.int32), "i32") for n in (1, 0))]
        made = walk([*given, tensor((0,))])
        annotate(made, "SLICE", [0, 1, 2], 3)
        assert len(made.unfit) == unfit


@pytest.mark.parametrize("loose", [(1,), ()])
def test_a_shape_that_the_model_leaves_open_is_worked_out(loose: tuple[int, ...]) -> None:
    """A converter wrote 1 in place of the batch, which is known further on."""
    made = walk([tensor((3, 4)), tensor((1, 4)), tensor((1, 4))], loose=loose)
    annotate(made, "NEG", [0], 1)
    annotate(made, "NEG", [1], 2)
    assert [made.tensors[k].shape for k in (1, 2)] == [(3, 4) if loose else (1, 4), (1, 4)]
