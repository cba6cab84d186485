"""Shared by the fusing passes: which node may be merged into which, and the record of what was
merged."""

from __future__ import annotations

from typing import Any

from tflgpu_plugin.ir.graph import Graph, Node


def merged(*nodes: Node) -> dict[str, Any]:
    """What a node that stands for all of these remembers of them: the host nodes whose work it
    does, ascending. A change of layout adds nothing to other work.
    """
    working = [node for node in nodes if not node.layout]
    counted = working or nodes
    found = {source for node in counted for source in (node.sources or (node.id,))}
    return {"sources": tuple(sorted(found)), "layout": not working}


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
