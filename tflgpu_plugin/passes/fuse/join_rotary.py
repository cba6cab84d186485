"""Joins the rotary embeddings of queries and keys that are parts of one product into one launch.

A rotary embedding keeps its heads side by side if attention reads them so, or a concatenation moves
them anyway. For any other reader it writes heads directly on a separate axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops.views import part as part_of
from tflgpu_plugin.passes.fuse.rotary import heads_of
from tflgpu_plugin.passes.rewriter import Rewriter


@dataclass(frozen=True)
class _Part:
    """A rotary embedding of `width` channels of `source` beginning at channel `start`."""

    node: Node
    source: int
    start: int
    width: int


def join_rotary(graph: Graph) -> Graph:
    """Joins rotary embeddings of adjacent parts of a tensor by the same angles."""
    rotated = [node for node in graph.nodes if node.op == "rotary" and not node.epilogue]
    if not rotated:
        return graph
    e = Rewriter(graph)
    readers = e.readers()
    for node in rotated:
        _apart(e, readers, node)
    makers = e.producers()
    groups: dict[tuple[object, ...], list[_Part]] = {}
    for node in [node for node in e.nodes if node.op == "rotary" and not node.epilogue]:
        found = _of_part(e, makers.get(node.operand()), node)
        if found is not None:
            flags = (bool(node.attributes.get(name)) for name in ("paired", "together"))
            depth = found.width // int(node.attributes.get("heads", 1))
            groups.setdefault((found.source, *node.inputs[1:], depth, *flags), []).append(found)
    for parts in groups.values():
        parts.sort(key=lambda part: part.start)
        ends = [part.start + part.width for part in parts]
        if len(parts) > 1 and ends[:-1] == [part.start for part in parts[1:]]:
            _join(e, parts)
    if e.nodes == list(graph.nodes):
        return graph
    e.drop_unused()
    return e.finish()


def _apart(e: Rewriter, readers: Mapping[int, list[Node]], node: Node) -> None:
    """Changes the node to write heads on a separate axis, if its reader needs them there and moves
    nothing else."""
    tensor = node.outputs[0]
    read = readers.get(tensor, [])
    if len(e.shape(tensor)) != 3 or tensor in e.needed:
        return
    batch, length, width = e.shape(tensor)
    heads = int(node.attributes.get("heads", 1))
    wanted = heads_of((batch, heads, length, width // heads))
    for view in read:
        apart = view.outputs[0]
        seen = e.view(view)
        # One position with several heads is also several positions with one head, in another shape.
        if seen is None or seen.key != wanted.key:
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


def _of_part(e: Rewriter, maker: Node | None, node: Node) -> _Part | None:
    """Returns a rotary embedding as a part, if its heads are stored side by side in channels of a
    tensor with a batch of one; else None."""
    view = e.view(maker) if maker is not None else None
    given, made = e.shape(node.operand()), e.shape(node.outputs[0])
    if maker is None or view is None or len(given) != 3 or given != made or given[0] != 1:
        return None
    source, width = maker.operand(), given[2]
    shape = e.shape(source)
    if len(shape) != 3 or view.offset + width > shape[2] or (view.offset | width) % 4:
        return None
    fits = part_of(shape, 2, view.offset, width).key == view.key
    return _Part(node, source, view.offset, width) if fits else None


def _join(e: Rewriter, parts: list[_Part]) -> None:
    """Adds the joint node, and a view of its result for each original one."""
    first, origin = parts[0], [part.node for part in parts]
    heads = sum(int(part.node.attributes.get("heads", 1)) for part in parts)
    shape = (1, e.shape(first.source)[1], sum(part.width for part in parts))
    given, made = (e.tensor(shape, like=first.node.outputs[0]) for _ in range(2))
    attributes = {**first.node.attributes, "heads": heads, "joined": True}
    nodes = [
        e.cut(first.source, given, first.start, first.node),
        e.node("rotary", (given, *first.node.inputs[1:]), (made,), origin, **attributes),
    ]
    for part in parts:
        nodes.append(e.cut(made, part.node.outputs[0], part.start - first.start, part.node))
    e.put(nodes, *origin)
