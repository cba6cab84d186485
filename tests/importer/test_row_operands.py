"""Tests operands in rows of third parties: missing, superfluous, absent and foreign ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.third_party import TABLE, built, image, imported, model, node, partition, refusal
from tflgpu_plugin import ops, providers
from tflgpu_plugin.importer.model import Value

pytestmark = pytest.mark.usefixtures("not_debugging")


@pytest.mark.parametrize("operand", [1, np.float32(1), True])
def test_an_operand_that_is_no_tensor(operand: Any) -> None:
    """A plain integer is not a tensor id, even if a tensor has that number."""
    assert "write constants as floats" in built(lambda b: b.add("add", b.x(), operand))


def test_a_tensor_of_another_graph_is_no_operand() -> None:
    kept: list[int] = []

    def remember(b: Any) -> int:
        kept.append(b.x())
        return int(b.add("add", b.x(), kept[0])) and b.add("add", b.x(), kept[0])

    assert built(remember) == "" and "is not a tensor of this graph" in built(remember)


def test_a_node_that_lacks_an_operand_is_refused() -> None:
    found = providers.import_(model(node(0, ("a",), "c")), TABLE)
    assert found.refusals == {0: "Input 1 of twice is absent."}


@pytest.mark.parametrize("op", ["add", "relu", "transpose", "reduce_sum", "cumsum", "top_k"])
def test_operands_that_an_op_would_ignore_are_refused(op: str) -> None:
    takes = "value value value"
    assert "inputs at most" in refusal(op, takes)
    count = len(takes.split())
    assert "inputs at most" in built(lambda b: b.add(op, *[b.x()] * count))


def test_absent_operands_at_the_end_do_not_count() -> None:
    """Hosts write an optional input that a node does not have as an empty one, or omit it."""
    takes, values = "value scale? bias? training_mode?", {"a": Value("a", "f32", (2,))}
    for keys in (("a",), ("a", None), ("a", *[None] * 5)):
        found = imported("layer_normalization", takes, keys, values, epsilon=1e-5)
        assert not found.refusals
    assert built(lambda b: b.add("add", b.x(), b.x(), b.get(1), None)) == ""
    assert "inputs at most" in built(lambda b: b.add("add", b.x(), b.x(), None, b.x()))
    made: list[int] = []
    assert built(lambda b: made.append(b.rank(b.add("stack", b.x(), None, axis=0))) or b.x()) == ""
    assert built(lambda b: made.extend(b.shape(b.add("stack", b.x(), None, axis=0))) or b.x()) == ""
    assert made == [2, 1, 2]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_absent_operands_are_as_good_as_none(count: int) -> None:
    """An op that counts its inputs counts only those that are present."""
    keys = ("a", "b", None, None)[:count]
    takes, window = "value weights bias? shape?", {"strides": (1, 1), "padding": "valid"}
    found = imported("transpose_conv", takes, keys, image(), **window)
    assert not found.refusals and found.graph.shape(found.ids["c"]) == (1, 6, 6, 1)


@pytest.mark.adapter
def test_absent_operands_at_the_end_are_not_stacked() -> None:
    values = {key: Value(key, "f32", (2,)) for key in "ab"}
    made = partition("stack", "value bias? bias?", ("a", "b", None), values, axis=0)
    assert made.run([np.array([1, 2]), np.array([3, 4])])[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("op", "count", "absent"),
    [("add", 1, 1), ("reduce_sum", 1, 1), ("stack", 3, 1), ("concat", 2, 0), ("matmul", 2, 0),
     ("transpose_conv_3d", 3, 3), ("svdf", 4, 4)],
)  # fmt: skip
def test_an_operand_that_an_op_needs_is_told(op: str, count: int, absent: int) -> None:
    """This includes one in the middle of several, whose place others would take."""
    given = {name: 1 for name, one in ops.rows()[op].attributes.items() if one.needed}
    said = built(
        lambda b: b.add(op, *[None if k == absent else b.x() for k in range(count)], **given)
    )
    assert said == f"Input {absent} of {op} is absent." and said.code == "input.missing"
