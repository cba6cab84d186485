"""Fewer transposes: tensors between two layouts are held in the one that needs less moving.

Around every transpose a region of tensors grows through ops that do not care about the order of
axes (see `relabel`); it is held in the other layout when fewer bytes then move at its border. What
is left over is composed, deduplicated, and dropped where nothing changes place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from tflgpu_plugin.graph import Graph, Node, Shape
from tflgpu_plugin.passes.cleanup import clean, keeps_order
from tflgpu_plugin.passes.editor import Editor, Perm
from tflgpu_plugin.passes.relabel import (
    Held,
    composed,
    inverse,
    permuted,
    relabelled,
    spread,
)

LAUNCH_BYTES = 1 << 14  # a launch costs about as much as moving so many
MAX_ROUNDS = 1000


@dataclass
class _Region:
    """Tensors held by permutations, and the ids of the nodes that work on what is held."""

    held: Held
    nodes: set[int] = field(default_factory=set)


def transposes(graph: Graph) -> Graph:
    """Move, merge and drop transposes; the shapes of inputs and outputs of the graph stay."""
    e = Editor(graph)
    clean(e)
    for _ in range(MAX_ROUNDS):
        if not _improve(e):
            break
        clean(e)
    return e.finish()


def _improve(e: Editor) -> bool:
    """Apply the region that saves most; False when none saves anything."""
    producers, readers = e.producers(), e.readers()
    best: tuple[float, _Region] | None = None
    seen: set[frozenset[tuple[int, Perm]]] = set()
    for tensor, perm in _seeds(e):
        region = _grow(e, tensor, perm, producers, readers)
        key = frozenset(region.held.items())
        if key in seen:
            continue
        seen.add(key)
        gain = _gain(e, region, producers, readers)
        if gain > 0 and (best is None or gain > best[0]):
            best = gain, region
    if best is None:
        return False
    _apply(e, best[1])
    return True


def _seeds(e: Editor) -> Iterator[tuple[int, Perm]]:
    """Each transpose could vanish by holding its result like its input, or the other way round."""
    for node in e.nodes:
        if node.op == "transpose" and node.inputs[0] is not None:
            perm = tuple(node.attributes["perm"])
            yield node.outputs[0], inverse(perm)
            yield node.inputs[0], perm


def _grow(
    e: Editor,
    tensor: int,
    perm: Perm,
    producers: dict[int, Node],
    readers: dict[int, list[Node]],
) -> _Region:
    """Everything that can be held along with `tensor`. A node that would need one tensor held in
    two ways stays outside."""
    region = _Region({tensor: perm})
    waiting = [tensor]
    while waiting:
        current = waiting.pop()
        near = list(readers.get(current, ()))
        if current in producers:
            near.append(producers[current])
        for node in near:
            if node.id in region.nodes:
                continue
            found = spread(e, node, current, region.held[current])
            if found is None or any(region.held.get(t, p) != p for t, p in found.items()):
                continue
            region.nodes.add(node.id)
            waiting += [t for t in found if t not in region.held]
            region.held |= found
    return region


def _price(shape: Shape, perm: Perm) -> float:
    """What a transpose costs, in bytes."""
    if perm == tuple(range(len(perm))):
        return 0
    return 1 if keeps_order(shape, perm) else LAUNCH_BYTES + 4 * prod(shape)


def _gain(
    e: Editor, region: _Region, producers: dict[int, Node], readers: dict[int, list[Node]]
) -> float:
    """Bytes saved by holding the region: transposes at its border before and after."""
    saved = 0.0
    made: set[tuple[int, Perm]] = set()  # transposes after, each needed once
    gone: set[int] = set()
    for tensor, perm in region.held.items():
        shape, producer = e.shape(tensor), producers.get(tensor)
        outside = [n for n in readers.get(tensor, ()) if n.id not in region.nodes]
        turns = [n for n in outside if n.op == "transpose"]
        inside = producer is not None and producer.id in region.nodes
        if inside:
            rest = len(turns) < len(outside) or tensor in e.needed
            saved -= _price(permuted(shape, perm), inverse(perm)) if rest else 0
            for turn in turns:
                change = composed(inverse(perm), tuple(turn.attributes["perm"]))
                made.add((tensor, change))
        elif producer is not None and producer.op == "transpose":
            first = producer.inputs[0]
            assert first is not None
            change = composed(tuple(producer.attributes["perm"]), perm)
            saved -= _price(e.shape(first), change)
            if not outside and tensor not in e.needed:
                gone.add(producer.id)
                saved += _price(e.shape(first), tuple(producer.attributes["perm"]))
            turns = []
        else:
            saved -= _turned_in(shape, perm, turns)
            turns = []
        for turn in turns:
            if turn.id not in gone:
                gone.add(turn.id)
                saved += _price(shape, tuple(turn.attributes["perm"]))
    for tensor, change in made:
        saved -= _price(permuted(e.shape(tensor), region.held[tensor]), change)
    return saved


def _turned_in(shape: Shape, perm: Perm, turns: list[Node]) -> float:
    """The transpose that brings a tensor in, free when the graph has it already."""
    there = any(tuple(turn.attributes["perm"]) == perm for turn in turns)
    return 0 if there else _price(shape, perm)


def _apply(e: Editor, region: _Region) -> None:
    """Rewrite: held tensors get ids of their own, transposes stand at the border."""
    producers, readers = e.producers(), e.readers()
    names = {t: e.tensor(permuted(e.shape(t), p), like=t) for t, p in region.held.items()}
    there: set[int] = set()  # held tensors that have been made
    result: list[Node] = []
    for node in e.nodes:
        if node.id in region.nodes:
            for tensor in node.reads:
                if tensor in names and tensor not in there:
                    result.append(_brought_in(e, tensor, region.held[tensor], names, node))
                    there.add(tensor)
            result.append(relabelled(e, node, region.held, names))
            for tensor in node.outputs:
                there.add(tensor)
                back = e.node("transpose", (names[tensor],), (tensor,), [node],
                              perm=inverse(region.held[tensor]))  # fmt: skip
                result.append(back)
        else:
            result.append(node)
    _ = producers, readers
    e.nodes = result
    lonely = [t for t in names if t not in there]
    for tensor in lonely:
        _hold_alone(e, tensor, region.held[tensor], names[tensor])


def _brought_in(
    e: Editor, tensor: int, perm: Perm, names: dict[int, int], reader: Node
) -> Node:
    """The transpose that makes the held form of a tensor from its logical form."""
    return e.node("transpose", (tensor,), (names[tensor],), [reader], perm=perm)


def _hold_alone(e: Editor, tensor: int, perm: Perm, name: int) -> None:
    """A region of one tensor without nodes changes nothing."""
    del e.tensors[name]


__all__ = ["transposes"]
_ = replace
