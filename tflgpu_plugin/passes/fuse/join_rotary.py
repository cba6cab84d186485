"""Where turned heads lie, and which turn together.

Queries and keys that are parts of one product turn in one launch. What turns leaves its heads
beside each other as long as attention takes them so, or they are joined to others, for which they
are moved anyway; heads that something else reads get an axis of their own at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops.views import part
from tflgpu_plugin.passes.fuse.rotary import heads_of
from tflgpu_plugin.passes.rewriter import Rewriter


@dataclass(frozen=True)
class _Turn:
    """What turns heads of a part of `source`, of which it has `width` channels from `start` on."""

    node: Node
    source: int
    start: int
    width: int


def join_rotary(graph: Graph) -> Graph:
    """Joins rotary embeddings of neighbouring parts of a tensor by the same angles."""
    turning = [node for node in graph.nodes if node.op == "rotary" and not node.epilogue]
    if not turning:
        return graph
    e = Rewriter(graph)
    for node in turning:
        _apart(e, node)
    makers = e.producers()
    groups: dict[tuple[object, ...], list[_Turn]] = {}
    for node in [node for node in e.nodes if node.op == "rotary" and not node.epilogue]:
        found = _of_part(e, makers.get(node.operand()), node)
        if found is not None:
            flags = (bool(node.attributes.get(name)) for name in ("paired", "together"))
            depth = found.width // int(node.attributes.get("heads", 1))
            groups.setdefault((found.source, *node.inputs[1:], depth, *flags), []).append(found)
    for turns in groups.values():
        turns.sort(key=lambda turn: turn.start)
        ends = [turn.start + turn.width for turn in turns]
        if len(turns) > 1 and ends[:-1] == [turn.start for turn in turns[1:]]:
            _join(e, turns)
    return graph if e.nodes == list(graph.nodes) else e.finish()


def _apart(e: Rewriter, node: Node) -> None:
    """Give heads an axis of their own where something reads them so that would not move them."""
    tensor, readers = node.outputs[0], e.readers()
    read = readers.get(tensor, [])
    if len(e.shape(tensor)) != 3 or tensor in e.needed:
        return
    for view in read:
        apart = view.outputs[0]
        seen = e.view(view)
        if seen is None or len(seen.shape) != 4 or seen.key != heads_of(seen.shape).key:
            continue
        moved = readers.get(apart, [])
        if moved and apart not in e.needed and all(n.op == "concat" for n in moved):
            continue
        others = [n for n in read if n is not view]
        if any(not ops.rows()[n.op].by_head or "joined" not in n.attributes for n in others):
            continue
        given = {**node.attributes, "joined": False}
        made = replace(node, outputs=view.outputs, attributes=given)
        e.nodes = [made if n.id == node.id else n for n in e.nodes if n.id != view.id]
        e.rename({tensor: apart})
        e.credit([view])
        return


def _of_part(e: Rewriter, maker: Node | None, node: Node) -> _Turn | None:
    """Heads beside each other that are some channels of another tensor, of one batch."""
    view = e.view(maker) if maker is not None else None
    given, made = e.shape(node.operand()), e.shape(node.outputs[0])
    if maker is None or view is None or len(given) != 3 or given != made or given[0] != 1:
        return None
    source, width = maker.operand(), given[2]
    shape = e.shape(source)
    if len(shape) != 3 or view.offset + width > shape[2] or (view.offset | width) % 4:
        return None
    fits = part(shape, 2, view.offset, width).key == view.key
    return _Turn(node, source, view.offset, width) if fits else None


def _join(e: Rewriter, turns: list[_Turn]) -> None:
    """The node for all, and each result as a part of its result."""
    first, origin = turns[0], [turn.node for turn in turns]
    heads = sum(int(turn.node.attributes.get("heads", 1)) for turn in turns)
    shape = (1, e.shape(first.source)[1], sum(turn.width for turn in turns))
    given, made = (e.tensor(shape, like=first.node.outputs[0]) for _ in range(2))
    cut = part(e.shape(first.source), 2, first.start, shape[2])
    attributes = {**first.node.attributes, "heads": heads, "joined": True}
    nodes = [
        e.layout("view", first.source, given, first.node, view=cut),
        e.node("rotary", (given, *first.node.inputs[1:]), (made,), origin, **attributes),
    ]
    for turn in turns:
        view = part(shape, 2, turn.start - first.start, turn.width)
        nodes.append(e.layout("view", made, turn.node.outputs[0], turn.node, view=view))
    e.put(nodes, *origin)
    e.drop_unused()
