"""Nodes of a host that became several."""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.ir.graph import Graph


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """A node of the host that became several nodes runs here with all of them or not at all."""
    sources = {s: refused[node.id] for node in graph.nodes if node.id in refused
               for s in node.sources}  # fmt: skip
    found = {}
    for node in graph.nodes:
        reason = next((sources[source] for source in node.sources if source in sources), None)
        if reason is not None and node.id not in refused:
            found[node.id] = reason
    return found
