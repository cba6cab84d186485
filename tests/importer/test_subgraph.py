"""Tests the part of a model that is kept for a partition, and the nodes that importing it for other
shapes makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support import host_models
from tests.support.refused import refused
from tflgpu_plugin.importer import partition, partition_rules, subgraph
from tflgpu_plugin.importer.imported import Facts, Imported
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostNode
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import FOLDED, Graph, Node, Tensor, code_of
from tflgpu_plugin.options import Options
from tflgpu_plugin.providers.tflite.ops import TABLE

PLAIN = {"activation": "none"}


def found(tensors: Sequence[Tensor], nodes: Sequence[HostNode], *outputs: int) -> Imported:
    model = host_models.model(tensors, nodes)
    return host_models.imported(replace(model, outputs=tuple(map(str, outputs))))


def test_what_follows_from_constants_is_kept_as_a_value() -> None:
    """The node that computed the value is not kept."""
    ones = np.ones((1, 3), np.float32)
    tensors = [Tensor("x", (2, 3)), Tensor("one", (1, 3), data=ones), Tensor("less", (1, 3)),
               Tensor("y", (2, 3))]  # fmt: skip
    nodes = [host_models.node(0, "NEG", (1,), (2,)),
             host_models.node(1, "ADD", (0, 2), (3,), PLAIN)]  # fmt: skip
    made = found(tensors, nodes, 3)
    assert made.graph.nodes[0].op == FOLDED and not made.arithmetic
    kept = subgraph.kept(made, partition.extract(made.graph, {1}))
    assert [node.id for node in kept.model.nodes] == [1] and kept.keys == ("0",)
    value = kept.model.values["2"].data
    assert value is not None and np.array_equal(value, -ones)
    graph = kept.reshaped([(5, 3)], Judge()).runs()
    assert graph.shape(3) == (5, 3) and graph.constant(2) is not None


def test_a_state_is_no_input() -> None:
    units, memory, width = 4, 3, 5
    weights = [Tensor("w", (units, n), data=np.ones((units, n), np.float32))
               for n in (width, memory)]  # fmt: skip
    state = Tensor("state", (1, units * memory), variable=True)
    tensors = [Tensor("x", (1, width)), *weights, state, Tensor("y", (1, units))]
    reads = (0, 1, 2, None, 3)
    svdf = host_models.node(0, "SVDF", reads, (4,), {"rank": 1, "activation": "none"})
    made = found(tensors, [svdf], 4)
    kept = subgraph.kept(made, partition.extract(made.graph, {0}))
    assert (kept.keys, kept.states) == (("0",), ("3",))
    graph = kept.reshaped([(1, width)], Judge()).runs()
    assert graph.shape(3) == (1, units * memory) and len(graph.states) == 1


def sized() -> list[Tensor]:
    return [Tensor("x", (2, 3)), Tensor("shape", (2,), "i32"), Tensor("v", (1, 3)),
            Tensor("y", (2, 3))]  # fmt: skip


def test_a_value_that_was_worked_out_is_no_constant_of_the_model() -> None:
    """EXPAND_DIMS requires that its axis is a constant of the model."""
    tensors = [Tensor("x", (1,)), Tensor("axis", (1,), "i32"), Tensor("v", (1, 3)),
               Tensor("y", (1, 1, 3))]  # fmt: skip
    nodes = [host_models.node(0, "SHAPE", (0,), (1,)),
             host_models.node(1, "EXPAND_DIMS", (2, 1), (3,))]  # fmt: skip
    made = found(tensors, nodes, 3)
    assert made.graph.constant(1) is not None
    assert code_of(made.refusals[1]) == "constant.required"
    assert made.graph.nodes[1].op == ""  # it stays with the host


def test_nothing_becomes_arithmetic_once_a_partition_is_planned() -> None:
    model = host_models.model(sized(), [host_models.node(0, "SHAPE", (0,), (1,))])
    assert import_(model, TABLE, Facts()).graph.constant(1) is not None
    planned = import_(model, TABLE, Facts(arithmetic=frozenset()))
    assert planned.graph.constant(1) is None and set(planned.refusals) == {0}


def test_arithmetic_without_a_value_is_refused() -> None:
    """A shape is given at run time, in a plan that was made for its value."""
    model = host_models.model(sized(), [host_models.node(0, "SHAPE", (0,), (1,))])
    facts = Facts({"0": (-1,)}, arithmetic=frozenset({0}))
    with refused("dynamic.value"):
        subgraph.again(replace(model, outputs=("1",)), TABLE, facts, ("0",), ("1",))


# ---- partitions ----------------------------------------------------------------------------------


def placed(graph: Graph, *groups: list[int], **options: Any) -> dict[int, str]:
    """Returns the codes of the rules that keep the nodes of these groups off the GPU."""
    parted = partition_rules.Parted(graph, groups, partition.extract, Options(**options))
    return {node: code_of(reason) for node, reason in partition_rules.placed(parted).items()}


def chain() -> Graph:
    """Returns a graph with a folded value (0) that two nodes read (1 and 2)."""
    tensors = {0: Tensor("x", (3,)), 1: Tensor("k", (3,), data=np.ones(3, np.float32)),
               2: Tensor("y", (3,)), 3: Tensor("z", (3,))}  # fmt: skip
    nodes = (Node(0, FOLDED, (), (1,)), Node(1, "add", (0, 1), (2,), PLAIN),
             Node(2, "add", (2, 1), (3,), PLAIN))  # fmt: skip
    return Graph(tensors, nodes, (0,), (3,))


@pytest.mark.parametrize(
    ("groups", "lost"),
    [([[0, 1, 2]], False), ([[0, 1], [2]], True), ([[0], [1, 2]], True), ([[0, 1]], True)],
)
def test_a_worked_out_value_is_read_in_its_partition(groups: list[list[int]], lost: bool) -> None:
    assert placed(chain(), *groups, force=True) == ({0: "partition.split"} if lost else {})


def test_the_largest_partitions_are_taken() -> None:
    graph = chain()
    found = placed(graph, [1], [2], force=True, max_delegated_partitions=1)
    assert set(found) == {2} and placed(graph, [1], [2], force=True) == {}
