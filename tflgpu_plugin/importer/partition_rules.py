"""An ordered list of rules that keep nodes of partitions off the GPU.

A rule returns why nodes cannot run here, by their ids. Its docstring is on the page of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tflgpu_plugin.importer import partition
from tflgpu_plugin.importer.partition import Around
from tflgpu_plugin.ir import COMPLEX, FOLDED, Graph, Refusal
from tflgpu_plugin.options import Options

PARTED = Refusal(
    "partition.split",
    "Complex tensors cannot pass between CPU and GPU: the node that writes one and all nodes that "
    "read it must be in one partition.",
)
ELSEWHERE = Refusal(
    "partition.split",
    "A node that reads this result of shape arithmetic is not in the same partition.",
)

Grouping = Callable[[Sequence[int]], list[list[int]]]
Extraction = Callable[[Graph, Collection[int]], Graph]


@dataclass(frozen=True)
class Parted:
    """A graph and its partitions: `groups` of node ids in execution order. `extract` returns nodes
    as a separate graph. `nested`: the graph is the body of a control-flow node, `repeated`: of a
    loop, which runs it once per step. `guessed`: extents of its tensors are guesses."""

    graph: Graph
    groups: Sequence[Sequence[int]]
    extract: Extraction
    options: Options
    repeated: bool = False
    nested: bool = False
    guessed: bool = False

    @cached_property
    def place(self) -> Mapping[int, int]:
        """Returns the group number of each node."""
        return {node: k for k, group in enumerate(self.groups) for node in group}

    @cached_property
    def parts(self) -> Mapping[tuple[int, ...], Graph]:
        """Returns each group as a separate graph."""
        return {tuple(sorted(group)): self.extract(self.graph, {*group}) for group in self.groups}


PartitionRule = Callable[[Parted], dict[int, Refusal]]


def read_in_one_place(parted: Parted) -> dict[int, Refusal]:
    """Results of shape arithmetic are read in the same partition: alone they need no kernel, and
    they have no buffer on the device that another partition could read."""
    graph, place = parted.graph, parted.place
    folded = [node for node in graph.nodes if node.op == FOLDED and node.id in place]
    at = {t: set[int | None]() for node in folded for t in node.outputs}
    for node in graph.nodes if at else ():
        for tensor in at.keys() & node.reads:
            at[tensor].add(place.get(node.id))
    return {
        node.id: ELSEWHERE
        for node in folded
        if set().union(*(at[t] for t in node.outputs)) != {place[node.id]}
    }


def undivided_complex_numbers(parted: Parted) -> dict[int, Refusal]:
    """Complex tensors are written and read in one partition: the device holds them as pairs of
    floats, which nothing else can read."""
    graph, place = parted.graph, parted.place
    held = {t for t, tensor in graph.tensors.items() if tensor.dtype == COMPLEX}
    at = {t: set[int | None]([None]) for t in held - graph.producers().keys() | {*graph.outputs}}
    nodes = graph.nodes if held else ()
    users = [(node, held.intersection((*node.reads, *node.outputs))) for node in nodes]
    for node, tensors in users:
        for tensor in tensors:
            at.setdefault(tensor, set()).add(place.get(node.id))
    return {
        node.id: PARTED
        for node, tensors in users
        if node.id in place and any(at[t] != {place[node.id]} for t in tensors)
    }


def paying(parted: Parted) -> dict[int, Refusal]:
    """A partition that splits the graph must save more than moving its inputs and outputs costs,
    unless the option force is set. Partitions that are separate only because one reads results
    whose number the other determines count as one."""
    found: dict[int, Refusal] = {}
    if parted.options.force:
        return found
    for groups in _counted_together(parted):
        around = Around(parted.place, parted.repeated, parted.nested, parted.guessed, len(groups))
        ids = [node for group in groups for node in group]
        part = (
            parted.parts[groups[0]] if len(groups) == 1 else partition.extract(parted.graph, {*ids})
        )
        if reason := partition.loss(parted.graph, part, around):
            found |= dict.fromkeys(ids, reason)
    return found


def _counted_together(parted: Parted) -> list[list[tuple[int, ...]]]:
    """Returns the groups, those together that share results whose number one of them determines."""
    tensors, writers = parted.graph.tensors, parted.graph.producers()
    found = {k: [group] for k, group in enumerate(parted.parts)}
    at = dict(enumerate(found))
    place = {node: k for k, group in enumerate(parted.parts) for node in group}
    for k, part in enumerate(parted.parts.values()):
        for tensor in part.inputs:
            maker = writers.get(tensor)
            other = None if maker is None else place.get(maker.id)
            if other is not None and tensors[tensor].counted and at[other] != at[k]:
                moved = at[k]
                found[at[other]] += found.pop(moved)
                at = {n: at[other] if where == moved else where for n, where in at.items()}
    return list(found.values())


def most_partitions(parted: Parted) -> dict[int, Refusal]:
    """There are at most as many partitions as the option max_delegated_partitions says; the largest
    are kept."""
    limit, parts = parted.options.max_delegated_partitions, parted.parts
    if limit is None or len(parts) <= limit:
        return {}
    reason = Refusal(
        "option.partitions",
        f"Only the largest {limit} of {len(parts)} partitions are taken "
        "(option max_delegated_partitions).",
    )
    left = sorted(parts, key=len, reverse=True)[limit:]
    return {node: reason for group in left for node in group}


PARTITION_RULES: tuple[tuple[PartitionRule, ...], ...] = (
    (read_in_one_place, undivided_complex_numbers),
    (paying,),
    (most_partitions,),
)  # rules of one tuple see the same partitions; their refusals form new ones for the next tuple


def placed(found: Parted) -> dict[int, Refusal]:
    """Returns why nodes of partitions stay on the CPU, as the first tuple of rules with reasons
    says; {} if no rule has one. The caller forms new partitions and calls again."""
    for together in PARTITION_RULES:
        reasons: dict[int, Refusal] = {}
        for rule in together:
            reasons = rule(found) | reasons
        if reasons:
            return reasons
    return {}
