"""Constants that were worked out here."""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.ir.graph import FOLDED, Graph
from tflgpu_plugin.passes.quant.dequantize import folded

SHARED = "A node on the CPU reads this constant; nodes on the GPU have a copy of their own."


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """A constant that was worked out here is made on the CPU, too, where a node on the CPU or the
    model's user reads it.
    """
    found: dict[int, str] = {}
    needed = {t for node in graph.nodes if node.id in refused for t in node.reads}
    for node in reversed(graph.nodes):
        if node.id in refused or not folded(graph, node):
            continue
        of_model = node.op == FOLDED and set(graph.outputs).intersection(node.outputs)
        if of_model or needed.intersection(node.outputs):
            found[node.id] = SHARED
            needed.update(node.reads)
    return found
