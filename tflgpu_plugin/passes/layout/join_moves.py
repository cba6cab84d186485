"""Nodes that only move data become fewer: a movement of what another one moved reads the first
one's input, through the view of both (`ops.views`). Pixel shuffles and channel shuffles become one
launch this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflgpu_plugin.ir.graph import Graph, Node, geometry
from tflgpu_plugin.ops import movement
from tflgpu_plugin.ops.views import View
from tflgpu_plugin.passes.sources import merged


def join_moves(graph: Graph) -> Graph:
    """Chains of movements with one reader each, and movements that only movements read, where
    fewer launches do it."""
    return _through_readers(_joined_chains(graph))


def _joined_chains(graph: Graph) -> Graph:
    readers, needed = graph.consumers(), graph.needed()
    place: dict[int, Node] = {}  # what stands for the last node of a chain
    gone: set[int] = set()
    for node in graph.nodes:
        if node.id in gone or (view := movement.view_of(graph, node)) is None:
            continue
        chain, launches, best, result = [node], 0, 1, view
        while (following := _following(chain[-1], readers, needed)) is not None:
            joined = _reading(graph, view, chain[-1], following)
            if joined is None:
                break
            view = joined
            launches = launches or _launches(graph, node, node)
            launches += _launches(graph, following, following)
            chain.append(following)
            if launches > 1 and _launches(graph, chain[0], following, view) < launches:
                best, result = len(chain), view
        if best > 1:
            chain = chain[:best]
            gone |= {n.id for n in chain}
            place[chain[-1].id] = _view(chain[0].inputs[0], chain[-1], result, chain)
    if not place:
        return graph
    return graph.with_nodes(
        [place.get(n.id, n) for n in graph.nodes if n.id in place or n.id not in gone]
    )


def _reading(graph: Graph, view: View, node: Node, reader: Node) -> View | None:
    """`_joined`, where the reader moves the node's result and reads it nowhere else."""
    output = node.outputs[0]
    times = reader.inputs.count(output) + sum(each.tensor == output for each in reader.epilogue)
    return _joined(graph, view, reader) if times == 1 and reader.inputs[0] == output else None


def _following(node: Node, readers: dict[int, list[Node]], needed: set[int]) -> Node | None:
    output = node.outputs[0]
    found = readers.get(output, [])
    return found[0] if len(found) == 1 and output not in needed and not node.epilogue else None


def _joined(graph: Graph, view: View, reader: Node) -> View | None:
    """What a reader of the view's result makes of the view's input, where one launch can."""
    step = movement.view_of(graph, reader)
    joined = None if step is None else view.then(step)
    small = joined is not None and len(joined.simple().axes) <= movement.MAX_JOINED
    return joined if small else None


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


def _view(source: int | None, last: Node, view: View, nodes: Sequence[Node]) -> Node:
    changed = replace(last, op="view", inputs=(source,), attributes={"view": view})
    return replace(changed, **merged(*nodes))


def _through_readers(graph: Graph) -> Graph:
    """What several movements read becomes part of each."""
    readers, needed = graph.consumers(), graph.needed()
    place: dict[int, Node] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        output, found = node.outputs[0], readers.get(node.outputs[0], [])
        if node.epilogue or node.id in place or output in needed or len(found) < 2:
            continue
        if (view := movement.view_of(graph, node)) is None or not _launches(graph, node, node):
            continue
        joined = [each for reader in found if (each := _reading(graph, view, node, reader))]
        if len(joined) < len(found) or any(reader.id in place for reader in found):
            continue
        made = [
            _view(node.inputs[0], reader, view, (reader,) if k else (node, reader))
            for k, (reader, view) in enumerate(zip(found, joined, strict=True))
        ]
        before = sum(_launches(graph, each, each) for each in (node, *found))
        if sum(_launches(graph, node, each) for each in made) < before:
            gone.add(node.id)
            place |= {each.id: each for each in made}
    if not place:
        return graph
    return graph.with_nodes([place.get(n.id, n) for n in graph.nodes if n.id not in gone])
