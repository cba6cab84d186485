"""Tests the removal of data movement. No device is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.net import FIRST, LAST, ShapedNet
from tflgpu_plugin.ir import EpilogueOp, Graph, verify
from tflgpu_plugin.passes.layout import cleanup
from tflgpu_plugin.passes.rewriter import Rewriter

MAP = (2, 3, 4, 5)


def cleaned(net: ShapedNet, *outputs: int) -> Graph:
    e = Rewriter(net.graph(*outputs))
    cleanup.clean(e)
    found = e.finish()
    verify(found)
    return found


def listing(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def data(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# ---- constants -----------------------------------------------------------------------------------


def test_a_constant_is_moved_here() -> None:
    n = ShapedNet()
    x = n.input((2, 4, 5, 3))
    turned = n.turn(n.constant(data(*MAP)), LAST)
    found = cleaned(n, n.same("add", x, n.reshape(n.reshape(turned, (40, 3)), (2, 4, 5, 3))))
    (node,) = found.nodes
    value = found.constant(node.inputs[1])
    np.testing.assert_array_equal(value, data(*MAP).transpose(LAST))
    assert found.tensors[node.operand(1)].dtype == "f32"


def test_what_a_graph_gives_is_not_moved_here() -> None:
    n = ShapedNet()
    turned = n.turn(n.constant(data(*MAP)), LAST)
    assert listing(cleaned(n, turned, n.same("relu", n.input(MAP)))) == ["transpose", "relu"]


@pytest.mark.parametrize(("most", "ops"), [(120, ["add"]), (119, ["transpose", "add"])])
def test_large_constants_are_moved_on_the_device(
    most: int, ops: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "MAX_MOVED", most)
    n = ShapedNet()
    x = n.input((2, 4, 5, 3))
    assert listing(cleaned(n, n.same("add", x, n.turn(n.constant(data(*MAP)), LAST)))) == ops


def test_constants_that_become_larger_or_other_values_stay() -> None:
    n = ShapedNet()
    x = n.input((2, 4))
    larger = n.run("tile", n.constant(data(1, 4)), n.constant(np.array([2, 1])), shape=(2, 4))
    assert listing(cleaned(n, n.same("add", x, larger))) == ["tile", "add"]
    n = ShapedNet()
    x = n.input((4, 2))
    y = n.turn(n.constant(data(2, 4)), (1, 0))
    n.nodes[-1] = replace(n.nodes[-1], epilogue=(EpilogueOp("relu"),))
    assert listing(cleaned(n, n.same("add", x, y))) == ["transpose", "add"]
    n = ShapedNet()
    x = n.input((4, 2))
    y = n.turn(n.constant(data(2, 4)), (1, 0))
    n.tensors[y] = replace(n.tensors[y], dtype="i32")  # it is cast on the way
    assert listing(cleaned(n, n.same("add", x, y))) == ["transpose", "add"]


# ---- chains, repeated and idle ones --------------------------------------------------------------


def test_consecutive_ones_are_one() -> None:
    n = ShapedNet()
    x = n.input(MAP)
    y = n.turn(n.turn(x, (1, 0, 3, 2)), (0, 2, 1, 3))
    found = cleaned(n, n.same("relu", n.reshape(n.reshape(n.same("abs", y), (60, 2)), (6, 20))))
    assert listing(found) == ["transpose", "abs", "reshape", "relu"]
    turn, shaped = found.nodes[0], found.nodes[2]
    assert turn.attributes["perm"] == (1, 3, 0, 2) and turn.inputs == (x,)
    assert shaped.attributes["shape"] == (6, 20) and shaped.inputs[0] == found.nodes[1].outputs[0]


def test_one_that_does_more_stays() -> None:
    """A movement with an epilogue stays."""
    n = ShapedNet()
    y = n.turn(n.turn(n.input(MAP), (1, 0, 3, 2)), (0, 2, 1, 3))
    n.nodes[0] = replace(n.nodes[0], epilogue=(EpilogueOp("relu"),))
    assert listing(cleaned(n, n.same("relu", y))) == ["transpose", "transpose", "relu"]


def test_of_equal_ones_the_first_stays() -> None:
    n = ShapedNet()
    x = n.input(MAP)
    turns = [n.turn(x, LAST), n.turn(x, LAST), n.turn(x, FIRST)]
    shapes = [n.reshape(x, (6, 20)), n.reshape(x, (6, 20)), n.reshape(x, (20, 6))]
    kept = n.turn(x, LAST)  # is a result itself
    sums = [n.same("add", a, b) for a, b in (turns[:2], shapes[:2])]
    ends = [n.same("relu", turns[2]), n.same("relu", shapes[2])]
    found = cleaned(n, *sums, *ends, kept)
    assert sorted(listing(found)) == sorted(
        ["transpose"] * 3 + ["reshape"] * 2 + ["add"] * 2 + ["relu"] * 2
    )
    first, second = (node for node in found.nodes if node.op == "add")
    assert first.inputs == (turns[0], turns[0]) and second.inputs == (shapes[0], shapes[0])


def test_equal_shapes_of_other_types_are_two() -> None:
    n = ShapedNet()
    x = n.input(MAP)
    a, b = n.reshape(x, (6, 20)), n.reshape(x, (6, 20))
    n.tensors[b] = replace(n.tensors[b], dtype="i32")
    found = cleaned(n, n.same("relu", a), n.same("abs", b))
    assert listing(found).count("reshape") == 2


def test_idle_ones_go() -> None:
    n = ShapedNet()
    x = n.input(MAP)
    y = n.same("relu", n.turn(n.reshape(x, MAP), (0, 1, 2, 3)))
    end = n.turn(n.reshape(y, MAP), (0, 1, 2, 3))  # its result is that of the graph
    found = cleaned(n, end)
    (node,) = found.nodes
    assert (node.op, node.inputs, node.outputs) == ("relu", (x,), (end,))
    assert set(node.sources) == {10, 11, 12, 13, 14}


def test_what_changes_something_is_not_idle() -> None:
    n = ShapedNet()
    x = n.input((2, 2))
    cast = n.reshape(x, (2, 2))
    n.tensors[cast] = replace(n.tensors[cast], dtype="i32")
    y = n.same("relu", n.turn(n.same("abs", cast), (1, 0)))
    assert listing(cleaned(n, y)) == ["reshape", "abs", "transpose", "relu"]


def test_an_input_that_is_a_result_under_another_name_stays_two() -> None:
    n = ShapedNet()
    x = n.input(MAP)
    again = n.reshape(x, MAP)
    assert listing(cleaned(n, again)) == ["reshape"]
    n = ShapedNet()
    y = n.same("relu", n.input(MAP))
    again = n.reshape(y, MAP)
    assert listing(cleaned(n, y, again)) == ["relu", "reshape"]


@pytest.mark.parametrize(
    ("shape", "perm", "op"),
    [
        ((2, 1, 1, 5), FIRST, "reshape"), ((2, 3, 1, 5), FIRST, "transpose"),
        ((1, 3, 4, 1), LAST, "transpose"), ((1, 3, 4, 1), (3, 1, 0, 2), "reshape"),
    ],
)  # fmt: skip
def test_turns_that_keep_the_order_are_reshapes(
    shape: tuple[int, ...], perm: tuple[int, ...], op: str
) -> None:
    n = ShapedNet()
    y = n.turn(n.input(shape), perm)
    e = Rewriter(n.graph(y))
    cleanup.reshapes_for_transposes(e)
    (node,) = e.nodes
    assert node.op == op
    if op == "reshape":
        assert node.attributes == {"shape": n.tensors[y].shape}


def test_new_nodes_take_the_place_of_the_first_that_they_replace() -> None:
    net = ShapedNet()
    x = net.input()
    e = Rewriter(net.graph(*[net.same("relu", x) for _ in range(5)]))
    first, second, third, fourth, last = e.nodes
    made = [replace(first, id=number) for number in (90, 91)]
    e.put(made, fourth, second)
    e.put((), third)
    assert [node.id for node in e.nodes] == [first.id, 90, 91, last.id]
    e.put([third], last)
    e.nodes = [first]  # nodes that are set are not replaced by what was put before
    assert e.nodes == [first]
