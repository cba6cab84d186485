"""State that nodes keep between runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tflgpu_plugin.ir.graph import Graph

SHARED = "Its state is read in other places too, which is not supported."


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """State that is read in more than one place stays with the host, which updates it in the
    middle of a run.
    """
    readers = Counter(tensor for node in graph.nodes for tensor in node.inputs)
    shared = {before for before, _ in graph.states if readers[before] > 1}
    return {
        node.id: SHARED
        for node in graph.nodes
        if node.id not in refused and not shared.isdisjoint(node.inputs)
    }
