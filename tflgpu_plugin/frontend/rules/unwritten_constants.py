"""Constants that the CPU makes of constants."""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.ir.graph import Graph

UNWRITTEN = (
    "It reads the constant {!r}, which {} makes of other constants on the CPU: the host may keep "
    "that as a weight of its own."
)


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """A node that reads what the CPU makes of constants alone stays on the CPU: the host's own
    delegate, which comes after this one, may keep that as a weight and never write it.
    """
    chained = {t for t in graph.chained if t in graph.tensors and graph.constant(t) is None}
    made = {t: n for n in graph.nodes if n.id in refused for t in n.outputs if t in chained}
    found = {}
    for node in graph.nodes:
        index = next((t for t in node.reads if t in made), None)
        if index is None or node.id in refused:
            continue
        found[node.id] = UNWRITTEN.format(graph.tensors[index].name, made[index].host_op)
        made |= {t: node for t in node.outputs if t in chained}
    return found
