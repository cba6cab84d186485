"""Tests storage of tensors: constants, aliases, and unnecessary launches. No device is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.ir import Graph, Node, Shape, Target, Tensor
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.lowering import Constant, Kernel, Lowering, Raw, Stores

SHAPE = (1, 2, 3, 4)


def lowering(constant: int = 0) -> Lowering:
    """Returns a lowering with tensors 0 to 3 of one shape, one of which is a constant; a node
    computes 3 from 2."""
    data = np.arange(24, dtype=np.float32).reshape(SHAPE)
    tensors = {k: Tensor(str(k), SHAPE, data=data if k == constant else None) for k in range(4)}
    return Lowering(Graph(tensors, (Node(0, "relu", (2,), (3,)),), (2,), (3,)), Target())


def test_a_constant_of_any_number_is_held_by_what_it_packs_to() -> None:
    for number in (0, 1):
        low = lowering(number)
        found = low.root(number)
        assert isinstance(found, Constant) and found.vectors == 6
        assert low.root(number) == found and low.root(2) == 2
        low.alias(3, number)
        assert low.root(3) == found


def test_a_temporary_has_a_number_of_its_own() -> None:
    low = lowering()
    first, second = low.temporary(7), low.temporary(9, copied=2)
    assert first != second and max(first, second) < 0
    assert (low.sizes[first], low.sizes[second]) == (7, 9)
    assert low.copied == {second: 2} and low.root(first) == first


def test_launches_whose_results_nobody_reads_are_dropped() -> None:
    low = lowering()
    (node,) = low.graph.nodes
    used, unused, late = (low.temporary(6) for _ in range(3))
    for reads, writes in ((2, used), (2, unused), (used, 3), (3, late)):
        low.dispatch(
            Kernel("unary"),
            node,
            {"x": reads},
            {"out": writes},
            (1, 1, 1),
            stores=Stores(fused=False),
        )
    low.homes[3] = Raw("output", 3)
    low.drop_unread()
    assert [[*launch.writes] for launch in low.launches] == [[used], [3]]


@pytest.mark.parametrize(
    ("shape", "target", "how"),
    [
        ((), (), "scalar"), ((1,), (), "scalar"), ((1, 1), (), None), ((1, 1), (5,), None),
        ((1, 1), (2, 5), "scalar"), ((1,) * 5, SHAPE, None), (SHAPE, SHAPE, "same"),
        ((4,), SHAPE, "channel"), ((1, 1, 1, 4), SHAPE, "channel"), ((3, 4), SHAPE, None),
        ((1, 1, 1, 1, 4), SHAPE, None), ((3, 1), SHAPE, None), ((2,), SHAPE, None),
        ((5,), (5,), "same"), ((2, 1, 4), SHAPE, None), ((2, 3, 4), SHAPE, None),
    ],
)  # fmt: skip
def test_how_a_fused_operand_is_spread(shape: Shape, target: Shape, how: str | None) -> None:
    graph = Graph({0: Tensor("", shape), 1: Tensor("", target)}, (), (), ())
    assert spread(graph, 0, 1) == how


def _symbolic(how: str) -> tuple[Constant, Trace]:
    """Returns the symbolic numbers 3, 1, 2 packed as a constant."""
    trace = Trace()
    data = np.array([trace.symbol(k, n, 1) for k, n in enumerate((3, 1, 2))], dtype=object)
    graph = Graph({0: Tensor("sizes", (3,), "i32", data=data)}, (), (), ())
    packs: dict[str, Callable[[Any], Any]] = {
        "moved": lambda numbers: np.append(numbers[::-1], 0),
        "computed": lambda numbers: np.append(2 * numbers, 0),
        "a table": lambda numbers: np.array([0, 1, 2, 2]),
    }
    made = Lowering(graph, Target()).constant(0, how, vectors=1, pack=packs[how])
    return made, trace


def test_symbolic_numbers_that_are_only_moved_stay_symbolic() -> None:
    made, trace = _symbolic("moved")
    assert made.data is not None and made.data.dtype == object and not trace.guards
    assert [*np.ravel(made.pack())] == [3, 2, 1, 0]  # the place of each, from 1


@pytest.mark.parametrize(("how", "packed"), [("computed", [6, 2, 4, 0]), ("a table", [0, 1, 2, 2])])
def test_symbolic_numbers_that_a_layout_computes_with_are_guarded(
    how: str, packed: list[int]
) -> None:
    made, trace = _symbolic(how)
    assert made.data is not None and made.data.dtype != object
    assert [*np.ravel(made.pack())] == packed
    assert len(trace.guards) == 3
