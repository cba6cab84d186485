"""Nodes that only move data become fewer: a movement of what another one moved reads the first
one's input, through the view of both (`ops.views`). Pixel shuffles and channel shuffles become one
launch this way.
"""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin.ir.graph import Graph, Node, geometry
from tflgpu_plugin.ops import movement
from tflgpu_plugin.ops.views import View
from tflgpu_plugin.passes.sources import merged


def join_moves(graph: Graph) -> Graph:
    """Without movements that only movements read, where these can read further back with as many
    launches."""
    readers, k = graph.consumers(), 0
    while k < len(graph.nodes):
        node, found = graph.nodes[k], dict[int, View]()
        gone, view = [node], movement.view_of(graph, node)
        moves = view is not None and _launches(graph, node, node)
        if view is None or not moves or not _through(graph, readers, view, gone, found):
            k += 1
            continue
        made: dict[int, Node | None] = dict.fromkeys(n.id for n in gone)
        for n in graph.nodes:
            if n.id in found:
                read = replace(
                    n, op="view", inputs=node.inputs[:1], attributes={"view": found[n.id]}
                )
                made[n.id] = replace(read, **merged(*gone, n))
                gone = []  # one node stands for them
        nodes = [made.get(n.id, n) for n in graph.nodes]
        graph = graph.with_nodes([n for n in nodes if n is not None])
        readers = graph.consumers()
    return graph


def _through(
    graph: Graph,
    readers: dict[int, list[Node]],
    view: View,
    gone: list[Node],
    found: dict[int, View],
) -> bool:
    """Whether all that reads the last of `gone`, whose result is this view of the first one's
    input, can read that, with as many launches. `found` tells how, by node; free ones between are
    gone, too."""
    node = gone[-1]
    output = node.outputs[0]
    if node.epilogue or output in graph.needed() or output not in readers:
        return False
    for reader in readers[output]:
        step = movement.view_of(graph, reader)
        joined = None if step is None else view.then(step)
        if joined is None or len(joined.simple().axes) > movement.MAX_JOINED:
            return False
        if output != reader.inputs[0] or any(each.tensor == output for each in reader.epilogue):
            return False
        if _launches(graph, gone[0], reader, joined) <= _launches(graph, reader, reader):
            found[reader.id] = joined
            continue
        gone.append(reader)
        if not _through(graph, readers, joined, gone, found):
            return False
    return True


def _launches(graph: Graph, first: Node, last: Node, view: View | None = None) -> int:
    """Of the view of the first node's input that is the last one's result (default: the node's
    own): none where it is the input as it lies, or the I/O conversion turns it."""
    view = view or movement.view_of(graph, last)
    assert view is not None
    output = last.outputs[0]
    inside, stored = geometry(graph.shape(first.operand())), geometry(graph.shape(output))
    free = movement.read(view, inside, stored).in_place(inside, stored)
    turned = output in graph.outputs and movement.turned(view, inside)
    return int(bool(last.epilogue) or not (free or turned))
