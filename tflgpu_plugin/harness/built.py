"""The partitions that a host has built for a model, as `engine.watch` lists them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin.engine import Instance, Partition
from tflgpu_plugin.frontend.reports import Report
from tflgpu_plugin.ir import Dispatch, Graph

Built = list[tuple[Partition, Instance]]  # in the order of their building
NOTHING = "No node of this model runs on the GPU; `tflgpu check` gives the reasons."
COMPILED = "EPContext"  # the operator that holds plans in the place of nodes
NOT_COMPILED = (
    "This is a compiled model (EPContext): it has plans in the place of nodes, and only sessions "
    "and `tflgpu check` read it. Use the model from which it was compiled."
)
ELSEWHERE = (
    "The GPU could not do this run of the model, so that the host's own kernels did all of it; "
    "a warning says why."
)


class WithConstants(Built):
    """A list for `engine.watch` that also keeps the graph of each partition, by its number, with
    copies of the constants, which are the host's."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs: dict[int, Graph] = {}

    def append(self, made: tuple[Partition, Instance]) -> None:
        super().append(made)
        self.graphs.setdefault(made[0].number, _copied(made[0].graph))


def _copied(graph: Graph) -> Graph:
    return replace(graph, tensors={
        t: x if x.data is None else replace(x, data=np.array(x.data, order="C"))
        for t, x in graph.tensors.items()
    })  # fmt: skip


def placed(built: Built, report: Report) -> list[tuple[int, Partition, Instance]]:
    """Returns (number in the report, partition, instance) for each partition of a report. Raises
    RuntimeError if the report has no partition that was built, or is that of a compiled model."""
    numbers = {one.key: one.number for one in report.partitions}
    found = [(numbers[one.number], one, made) for one, made in built if one.number in numbers]
    if not found:
        compiled = any(node.op.endswith(COMPILED) for node in report.nodes)
        raise RuntimeError(NOT_COMPILED if compiled else NOTHING)
    return sorted(found, key=lambda each: each[0])


def part_of(graph: Graph, *launches: Dispatch) -> Graph:
    """Returns the graph of the nodes that these launches compute."""
    wanted = {source for made in launches for source in made.nodes}
    nodes = [n for n in graph.nodes if not wanted.isdisjoint(n.sources or (n.id,))]
    return replace(graph, nodes=tuple(nodes))


def moved(part: Graph) -> int:
    """Returns the bytes of the tensors that these nodes read or write, not those between them."""
    made = {t for node in part.nodes for t in node.outputs}
    read = {t for node in part.nodes for t in node.reads}
    return sum(part.tensors[t].bytes for t in made ^ read)


def require_runs(report: Report) -> None:
    """Raises RuntimeError with a sentence if no partition of a report has run on the GPU."""
    if not report.runs:
        raise RuntimeError(ELSEWHERE if report.host_runs else NOTHING)


def ran(built: Built) -> Built:
    """Returns the partitions that have run."""
    return [pair for pair in built if pair[1].counters().runs]
