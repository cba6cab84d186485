"""Keeps the graphs of a session's report those that exist.

onnxruntime passes the graphs of a model several times: before and after it replaces calls of
functions by their nodes, and again after its optimizations. Each round ends with the model itself,
and only the last has the nodes that run, apart from those that an earlier round has fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflgpu_plugin import providers
from tflgpu_plugin.providers import NodeReport

from .names import EP_NAME
from .sessions import Level, Placed
from .snapshot import Snapshot

ASSIGNED = "host.other_delegate"  # onnxruntime has given the node to its CPU provider


def carry(graphs: Sequence[Level], level: Level, taken: Snapshot) -> None:
    """Completes `level`, the report of the graph `taken`, from those of earlier rounds: nodes that
    were fused replace the fused node, with their partition, and nodes that were left to the CPU
    keep their reason."""
    fused = {node.id: set(node.writes) for node in taken.nodes if node.domain == EP_NAME}
    nodes = list[NodeReport]()
    for node in level.nodes:
        nodes += _moved(graphs, level, fused[node.id]) if node.id in fused else [node]
    level.nodes = nodes
    if not any(node.refusal_code == ASSIGNED for node in nodes):
        return
    known = {
        (node.id, node.op, node.name): node
        for one in graphs
        if one.around == level.around
        for node in one.nodes
        if node.where == providers.CPU and node.refusal_code != ASSIGNED
    }
    level.nodes = [
        known.get((node.id, node.op, node.name), node) if node.refusal_code == ASSIGNED else node
        for node in nodes
    ]


def _moved(graphs: Sequence[Level], level: Level, writes: set[str]) -> list[NodeReport]:
    """Moves the partition that writes these values from its earlier graph to `level`. Returns its
    nodes."""
    for one in graphs:
        for placed in one.placed:
            if one.around == level.around and _live(placed) and writes == _outputs(placed):
                one.placed = [other for other in one.placed if other is not placed]
                level.placed.append(placed)
                return [node for node in one.nodes if node.id in placed.nodes]
    return []


def _outputs(placed: Placed) -> set[str]:
    return set(placed.interface.outputs)


def _live(placed: Placed) -> bool:
    return bool(placed.state().live)


def last(graphs: Sequence[Level], bodies: int) -> tuple[list[Level], list[Placed]]:
    """Returns the graphs of the round that has just ended, in which the model has this many graphs
    of nodes, and the partitions of earlier rounds that nothing runs. A graph with partitions that
    are in use stays, with their nodes alone."""
    first, kept, gone = len(graphs) - 1 - bodies, list[Level](), list[Placed]()
    for number, one in enumerate(graphs):
        if number >= first:
            kept.append(one)
            continue
        used = list[Placed]()
        for placed in one.placed:
            (used if _live(placed) else gone).append(placed)
        if used:
            inside = {node for placed in used for node in placed.nodes}
            nodes = [node for node in one.nodes if node.id in inside]
            kept.append(replace(one, nodes=nodes, placed=used))
    return kept, gone
