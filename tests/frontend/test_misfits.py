"""What the solver of open extents is told of nodes that do not fit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tflgpu_plugin.frontend.symbolic_shapes import Misfit, _misfits
from tflgpu_plugin.ir.graph import Graph, Node, Tensor


def found(unfit: set[int], *nodes: Node) -> list[Misfit]:
    tensors = {
        0: Tensor("x", (2, 3)),
        1: Tensor("y", (2, 3)),
        2: Tensor("k", (3,), "i32", np.array([1, 5, 7], np.int32)),
        3: Tensor("z", (2, 3)),
    }
    graph = Graph(tensors, nodes, (0,), (1,))
    reading = SimpleNamespace(graph=graph, unfit=unfit, refused={}, contradictions=0)
    return list(_misfits(reading))


def test_nodes_that_other_extents_do_not_mend_are_left_out() -> None:
    refused = Node(4, "relu", (0,), (1,), refusal="It is not supported.", sources=(4,))
    assert found(set(), refused) == []
    assert [misfit.host for misfit in found({4}, refused)] == [4]


def test_the_numbers_that_a_node_sees_begin_at_1() -> None:
    """Extents, numbers of constants and their sum, the largest first."""
    refused = Node(4, "expand", (0, 2), (1,), refusal="It does not fit.", sources=(4,))
    (misfit,) = found({4}, refused)
    assert misfit.numbers == (13, 7, 5, 3, 2, 1)
