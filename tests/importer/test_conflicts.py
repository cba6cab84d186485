"""The solver of dynamic extents learns which nodes do not fit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tflgpu_plugin.importer import symbols as solver
from tflgpu_plugin.importer.symbols import Conflict, conflicts_of, count_differences
from tflgpu_plugin.ir import Graph, Node, Tensor

GIVEN = {"K": 9, "bits": 2, "last": True, "axis": -1, "epsilon": 0.5, "perm": (6, 8)}


def found(shape_refused: set[int], *nodes: Node) -> list[Conflict]:
    tensors = {
        0: Tensor("x", (2, 3)),
        1: Tensor("y", (2, 3)),
        2: Tensor("k", (3,), "i32", np.array([1, 5, 7], np.int32)),
        3: Tensor("z", (2, 3)),
    }
    graph = Graph(tensors, nodes, (0,), (1,))
    refusals = {node.id: "It does not fit." for node in nodes if not node.op}
    host = SimpleNamespace(nodes=[SimpleNamespace(id=4, attributes=GIVEN)])
    imported = SimpleNamespace(
        graph=graph, shape_refused=shape_refused, refusals=refusals, judged=set(), model=host
    )
    return list(conflicts_of(imported))


def test_nodes_that_other_extents_do_not_mend_are_left_out() -> None:
    refused = Node(4, "", (0,), (1,), sources=(4,))
    assert found(set(), refused) == []
    assert [conflict.host for conflict in found({4}, refused)] == [4]


def test_the_numbers_that_a_node_sees_begin_at_1() -> None:
    """Extents, integers in constants, and their sum are listed, the largest first; so are the
    integers above 1 among the node's attributes, in a list of their own."""
    refused = Node(4, "", (0, 2), (1,), sources=(4,))
    (conflict,) = found({4}, refused)
    assert conflict.numbers == (13, 7, 5, 3, 2, 1)
    assert conflict.given == (9, 2)


def changes(
    numbers: tuple[int, ...], *free: str, given: tuple[int, ...] = (), **symbols: int
) -> list[dict[str, int]]:
    """Returns the differences from the symbols."""
    found = solver.changes(symbols, free, solver.Conflict(0, (), numbers, given, 0))
    return [{n: v for n, v in made.items() if v != symbols[n]} for made in found]


def test_numbers_that_are_tried() -> None:
    """First come numbers that a node sees, for one unknown or for all equal ones; then steps
    between two of these; then two unknowns at once. None is below 1, and none is repeated."""
    assert changes((8, 3), "a", a=3, b=3) == [{"a": 8}]
    assert changes((8, 3), "a", "b", a=3, b=3) == [{"a": 8}, {"b": 8}, {"a": 8, "b": 8}]
    assert changes((8, 3), "a", a=5) == [{"a": 10}]
    assert changes((8, 3), "a", a=6) == [{"a": 1}, {"a": 11}]
    assert changes((8, 3, 1), "a", "b", a=8, b=3) == [
        {"b": 8}, {"a": 3}, {"a": 1}, {"b": 1},
        {"a": 13}, {"a": 6}, {"a": 15}, {"b": 10}, {"a": 10}, {"b": 5},
        {"a": 3, "b": 8}, {"a": 3, "b": 1}, {"a": 1, "b": 8},
    ]  # fmt: skip
    assert changes((8, 3), a=3) == []
    assert changes((8, 3), "a", given=(5, 3), a=3, b=3) == [{"a": 8}, {"a": 5}]


def test_extents_that_differ_are_counted_from_the_right() -> None:
    assert count_differences([(2, 3), (3,)]) == 0
    assert count_differences([(2, 3), (2, 4), (5, 4)]) == 1 + 2 + 1
    assert count_differences([]) == 0
