"""Variables that nodes of the host read and assign."""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.ir.graph import Graph

UNORDERED = (
    "This host does not keep the order in which variables are read and assigned when some nodes "
    "run elsewhere."
)


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """Nothing of a model with variables runs here where the host might move a node that reads one
    past a node that assigns it.
    """
    if graph.ordered:
        return {}
    return {node.id: UNORDERED for node in graph.nodes if node.id not in refused}
