"""Integer sums of products, which are made in float32."""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.ir.graph import Graph, Node

EXACT = 1 << 24  # float32 has every whole number up to here
REASON = (
    "Its sums may be {:,.0f}, and beyond 2^24 they are supported where only casts to floats read "
    "them."
)


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """Sums of products of integers that may pass 2^24 are read by casts to floats only, where the
    hosts round them, too.
    """
    sums = {n.outputs[0]: n for n in graph.nodes if float(n.attributes.get("bound", 0)) > EXACT}
    if not sums:
        return {}
    readers, found = graph.consumers(), dict[int, str]()
    for node in graph.nodes:
        if node.op != "cast" or node.inputs[0] not in sums or node.id in refused:
            continue
        result = node.outputs[0]
        cast = all(_to_float(graph, reader) for reader in readers.get(result, []))
        if not cast or result in graph.outputs:
            bound = sums[node.inputs[0]].attributes["bound"]
            found[node.id] = REASON.format(bound)
    return found


def _to_float(graph: Graph, node: Node) -> bool:
    return node.op == "cast" and graph.tensors[node.outputs[0]].dtype in ("f32", "f16")
