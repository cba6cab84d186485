"""Which node fusing passes may merge into another."""

from __future__ import annotations

from tflgpu_plugin.ir import Graph, Node


def only_reader(graph: Graph, node: Node) -> Node | None:
    """The one node that reads the single output of `node`, exactly once, when nothing else needs
    that output."""
    if len(node.outputs) != 1 or node.outputs[0] in graph.needed():
        return None
    output = node.outputs[0]
    readers = [reader for reader in graph.nodes if output in reader.reads]
    if len(readers) != 1:
        return None
    times = readers[0].inputs.count(output) + sum(p.tensor == output for p in readers[0].epilogue)
    return readers[0] if times == 1 else None
