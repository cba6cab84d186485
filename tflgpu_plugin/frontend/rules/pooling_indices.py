"""Indices of poolings: which element of its window each maximum was, for an unpooling to put a
value back there.

Each host numbers them in its own way: XNNPACK keeps bits of a whole number in a float tensor,
MediaPipe's own kernel a float with a fraction.
"""

from __future__ import annotations

from collections.abc import Mapping

from tflgpu_plugin.ir.graph import Graph, Node

POOL = "max_pool_argmax"
UNPOOL = "max_unpool"
PAIR = {POOL, UNPOOL}
INDICES = 1  # position among the outputs of the one, and the inputs of the other
READ = "Its indices in windows are read by more than unpoolings; hosts number them differently."
FOREIGN = "Its indices must be those of a pooling on the GPU; hosts number them differently."


def rule(graph: Graph, refused: Mapping[int, str]) -> dict[int, str]:
    """A pooling that gives indices and the unpoolings that read them run here together, and nothing
    else reads these: hosts number them differently.
    """
    if not any(node.op in PAIR for node in graph.nodes):
        return {}
    found: dict[int, str] = {}
    consumers = graph.consumers()
    visible = graph.outputs if graph.fused else ()
    kept = set()
    for pool in (node for node in graph.nodes if node.op == POOL):
        indices = pool.outputs[INDICES]
        readers = consumers.get(indices, [])
        if indices in visible or not all(_only_unpools(node, indices) for node in readers):
            found[pool.id] = READ
            continue
        kept.add(indices)
        group = (pool, *readers)
        if reason := next((refused[node.id] for node in group if node.id in refused), None):
            found |= {node.id: reason for node in group}
    for node in graph.nodes:
        if node.op == UNPOOL and node.inputs[INDICES] not in kept:
            found[node.id] = FOREIGN
    return {node: reason for node, reason in found.items() if node not in refused}


def _only_unpools(node: Node, indices: int) -> bool:
    """The node reads these indices as such, and nothing else of them."""
    reads = [k for k, tensor in enumerate(node.inputs) if tensor == indices]
    return node.op == UNPOOL and reads == [INDICES]
