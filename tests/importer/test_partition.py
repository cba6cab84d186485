"""Partitions are convex, keep the execution order, and are dropped only if they merely split the
graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.net import Net
from tflgpu_plugin.importer import partition, partition_rules
from tflgpu_plugin.importer.partition import Around
from tflgpu_plugin.ir import FOLDED, STORE, Graph, Node, Tensor, verify
from tflgpu_plugin.options import Options


def graph_of(links: dict[int, list[int]], size: int = 4, op: str = "relu") -> Graph:
    """Returns a graph in which node k computes tensor k from the tensors in its list. Tensor 100 is
    the input, and the last node computes the output."""
    tensors = {k: Tensor(f"t{k}", (1, size)) for k in (*links, 100)}
    nodes = tuple(Node(k, op, tuple(reads), (k,)) for k, reads in links.items())
    return Graph(tensors, nodes, (100,), (max(links),))


def reaches(graph: Graph, start: int, goal: int, avoiding: set[int]) -> bool:
    stack = [n.id for n in graph.nodes if start in n.reads and n.id not in avoiding]
    while stack:
        here = stack.pop()
        for node in graph.nodes:
            if here in node.reads:
                if node.id == goal:
                    return True
                if node.id not in avoiding:
                    stack.append(node.id)
    return False


def test_diamond_with_a_refused_side_is_two_partitions() -> None:
    graph = graph_of({0: [100], 1: [0], 2: [0], 3: [1, 2]})
    assert partition.groups(graph, {0, 1, 3}) == [[0, 1], [3]]


def test_a_refused_node_that_is_ready_at_the_start_cuts_nothing() -> None:
    graph = graph_of({0: [100], 1: [0], 2: [100], 3: [1, 2], 4: [3]})
    assert partition.groups(graph, {0, 1, 3, 4}) == [[0, 1, 3, 4]]


def test_a_refused_node_waits_if_that_makes_no_more_partitions() -> None:
    """Node 4 would split the first partition off the input."""
    graph = graph_of({0: [100], 1: [0], 2: [1], 3: [100], 4: [3], 5: [2, 4]})
    assert partition.groups(graph, {0, 2, 4, 5}) == [[0], [2, 4, 5]]


def test_partitions_are_convex_on_random_graphs() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        links = {
            k: [100] if k == 0 else sorted({int(t) for t in rng.integers(max(0, k - 4), k, 2)})
            for k in range(14)
        }
        graph = graph_of(links)
        verify(graph)
        supported = {k for k in links if rng.random() < 0.6}
        groups = partition.groups(graph, supported)
        assert sorted(flatten(groups)) == sorted(supported)
        for group in groups:
            for a in group:
                for b in group:
                    assert not reaches(graph, a, b, set(group)), (links, group)


def flatten(groups: list[list[int]]) -> list[int]:
    return [node for group in groups for node in group]


def test_extract_finds_inputs_and_outputs() -> None:
    graph = graph_of({0: [100], 1: [0], 2: [0], 3: [1, 2]})
    part = partition.extract(graph, {0, 1})
    assert part.inputs == (100,)
    assert part.outputs == (0, 1)
    assert [node.id for node in part.nodes] == [0, 1]


def test_what_the_host_fetches_and_keeps_is_no_work() -> None:
    """A partition between a read and an assignment of a variable does not split the graph."""
    graph = graph_of({0: [100], 1: [0], 2: [1], 3: [2]})
    between = partition.extract(graph, {1})
    assert partition.loss(graph, between) is not None
    for kept in ((0,), (2,), (0, 2)):
        nodes = [replace(n, op=STORE) if n.id in kept else n for n in graph.nodes]
        assert partition.loss(graph.with_nodes(nodes), between) is None


def test_a_change_of_shape_beside_the_cpu_is_no_work() -> None:
    """A graph that consists of reshapes alone is claimed."""
    graph = graph_of({0: [100], 1: [0], 2: [1]})
    nodes = [replace(n, op="reshape") if n.id != 1 else n for n in graph.nodes]
    reshaping = graph.with_nodes(nodes)
    for node in (0, 2):
        reason = partition.loss(reshaping, partition.extract(reshaping, {node}))
        assert reason is not None and reason.code == "partition.does_not_pay"
        assert "for 0 multiply-adds" in reason
        assert partition.loss(graph, partition.extract(graph, {node})) is None
    alone = graph_of({0: [100]})
    alone = alone.with_nodes([replace(n, op="reshape") for n in alone.nodes])
    assert partition.loss(alone, partition.extract(alone, {0})) is None
    reason = partition.loss(alone, partition.extract(alone, {0}), Around(nested=True))
    assert reason is not None and "would only split the graph" in reason


def test_a_partition_in_a_body_pays() -> None:
    """A small one would keep the control-flow node around it from the GPU."""
    for length, pays in (1, False), (8, True):
        graph = graph_of({0: [100], **{k: [k - 1] for k in range(1, length)}})
        part = partition.extract(graph, {*range(length)})
        assert partition.loss(graph, part) is None
        assert (partition.loss(graph, part, Around(nested=True)) is None) == pays


def test_a_partition_in_a_loop_pays_for_each_launch() -> None:
    """This holds even if it is the entire body."""
    graph = graph_of({0: [100], 1: [0]})
    whole = partition.extract(graph, {0, 1})
    assert partition.loss(graph, whole) is None
    reason = partition.loss(graph, whole, Around(repeated=True))
    assert reason is not None and "at every step of a loop" in reason and "force=1" in reason


def test_only_a_partition_between_cpu_nodes_is_dropped() -> None:
    graph = graph_of({0: [100], 1: [0], 2: [1], 3: [2]})
    first, middle, last = (partition.extract(graph, {k}) for k in (0, 2, 3))
    assert partition.loss(graph, first) is None
    assert partition.loss(graph, last) is None
    reason = partition.loss(graph, middle)
    assert reason is not None and reason.code == "partition.does_not_pay"


def in_the_middle(nodes: int, size: int, **around: Any) -> str | None:
    """Returns the refusals of this many nodes in a row, between two of the CPU's."""
    graph = graph_of({k: [k - 1] for k in range(101, nodes + 103)}, size)
    part = partition.extract(graph, set(range(102, nodes + 102)))
    return partition.loss(graph, part, Around(**around))


# On the nominal GPU a run takes 0.2 ms and 5e9 bytes of inputs and outputs a second; it writes 2e10
# elements a second, the CPU 1e9. So n nodes over s numbers pay when
# n s (1 / 1e9 - 1 / 2e10) > 2e-4 + 8 s / 5e9.
@pytest.mark.parametrize(("size", "nodes"), [(20_000, 12), (50_000, 5), (2_000, 106)])
def test_a_partition_pays_when_the_cpu_would_take_longer_than_io_and_launch(
    size: int, nodes: int
) -> None:
    assert in_the_middle(nodes + 1, size) is None
    assert in_the_middle(nodes, size) == (
        f"This partition of {nodes} nodes would only split the graph: with its present shapes "
        f"{8 * size:,} bytes go in and out for 0 multiply-adds and {nodes * size:,} other results. "
        "The option force=1 runs it on the GPU anyway."
    )
    assert in_the_middle(nodes + 1, size, repeated=True) is None
    reason = in_the_middle(nodes, size, repeated=True)
    assert reason is not None and "nodes would be launched at every step of a loop" in reason


def test_multiply_adds_take_less_time_than_other_results() -> None:
    """A matrix of 2100 x 2100 is 4.41 million multiply-adds: 0.22 ms on the CPU."""
    for units, pays in ((2100, True), (1900, False)):
        n = Net()
        x, w = n.input((1, units)), n.constant(np.ones((units, units), np.float32))
        before, after = n.op("relu", x), n.tensor((1, units))
        y = n.op("fully_connected", before, w, None, keep_num_dims=False, activation="none")
        n.node("relu", (y,), (after,))
        graph = n.graph(after)
        part = partition.extract(graph, {graph.nodes[1].id})
        assert (partition.loss(graph, part) is None) == pays


@pytest.mark.parametrize("nested", [False, True])
def test_a_launch_counts_less_beside_guessed_extents(nested: bool) -> None:
    """A model with open extents may compute a multiple of its work for the guesses, but no more
    than 256 times as much."""
    assert in_the_middle(4, 1000) is not None
    assert in_the_middle(4, 1000, guessed=True, nested=nested) is None
    assert in_the_middle(4, 100, guessed=True, nested=nested) is not None
    assert in_the_middle(1, 10**6, guessed=True) is not None  # 8 bytes an element take longer


def test_tensors_between_partitions_count_for_them() -> None:
    """Such a tensor need not be copied; it would have to be for a partition on the CPU. Node 2 is
    the partition, and reads a result of node 1 that is large; nodes 0 and 3 are on the CPU."""
    graph = graph_of({0: [100], 1: [100], 2: [0, 1], 3: [2]})
    large = replace(graph.tensors[1], shape=(1, 2_000_000))
    graph = replace(graph, tensors={**graph.tensors, 1: large})
    part = partition.extract(graph, {2})
    for taken, stays in (({2}, True), ({1, 2}, False)):
        found = partition.loss(graph, part, Around(taken))
        assert (found is not None) == stays, taken


def test_partitions_that_feed_a_partition_do_not_split_the_graph() -> None:
    graph = graph_of({0: [100], 1: [0], 2: [1]})
    part = partition.extract(graph, {1})
    assert partition.loss(graph, part) is not None
    for taken in ({0, 1}, {1, 2}):
        assert partition.loss(graph, part, Around(taken)) is None


def counting(groups: list[list[int]]) -> set[int]:
    """Returns the refused nodes of a chain of five in which a run determines how many elements node
    2 writes."""
    graph = graph_of({0: [100], 1: [0], 2: [1], 3: [2], 4: [3]})
    tensors = dict(graph.tensors)
    tensors[5] = Tensor("count", (1,), "i32")
    tensors[2] = replace(tensors[2], counted=(1, 5))
    nodes = [replace(n, outputs=(2, 5)) if n.id == 2 else n for n in graph.nodes]
    graph = replace(graph, tensors=tensors, nodes=tuple(nodes))
    parted = partition_rules.Parted(graph, groups, partition.extract, Options())
    return {*partition_rules.paying(parted)}


def test_partitions_that_share_counted_results_count_as_one() -> None:
    """Between nodes on the CPU, neither pays; without one of these, both do."""
    assert counting([[1, 2], [3]]) == {1, 2, 3}
    assert counting([[0, 1, 2], [3]]) == set()
    assert counting([[1, 2], [3, 4]]) == set()
    assert counting([[1], [3]]) == {1, 3}


def test_one_node_is_called_one_node() -> None:
    reason = in_the_middle(1, 4)
    assert reason is not None and reason.startswith("This partition of 1 node would only")


def test_a_partition_of_its_own_has_what_it_reads_and_what_others_read() -> None:
    """Constants belong to each partition that reads them, results that nothing else reads are not
    outputs, and a folded node leaves only its value."""
    tensors = {k: Tensor(f"t{k}", (1, 4)) for k in range(8)}
    for k in (6, 7):
        tensors[k] = replace(tensors[k], data=np.ones((1, 4), np.float32))
    nodes = (
        Node(0, FOLDED, (6,), (7,)),
        Node(1, "add", (0, 7), (1,)),
        Node(2, "relu", (1,), (2,)),
        Node(3, "add", (2, 7), (3,)),
        Node(4, "add", (5, 3), (4,)),
    )
    graph = Graph(tensors, nodes, (0, 5), (4, 2), ((5, 4),))
    part = partition.extract(graph, {0, 1, 2})
    assert [node.id for node in part.nodes] == [1, 2]
    assert (part.inputs, part.outputs, part.states) == ((0,), (2,), ())
    assert sorted(part.tensors) == [0, 1, 2, 7]
    rest = partition.extract(graph, {3, 4})
    assert (rest.inputs, rest.outputs, rest.states) == ((2,), (4,), ((5, 4),))
    assert sorted(rest.tensors) == [2, 3, 4, 5, 7]


def test_the_effort_is_that_of_the_rows_and_the_elements_of_other_results() -> None:
    n = Net()
    x, w = n.input((3, 8)), n.constant(np.ones((5, 8), np.float32))
    y = n.op("fully_connected", x, w, None, keep_num_dims=False, activation="none")
    parts = n.tensor((3, 2)), n.tensor((3, 3))
    n.node("split", (y,), parts, axis=1)
    assert partition.effort(n.graph(*parts)) == partition.Effort(3 * 5 * 8, 3 * 2 + 3 * 3)
