"""Reduces transposes by choosing a layout for each tensor.

Around every transpose a region of tensors grows through ops that work with any order of axes; its
layout is changed if the transposes at its edges then move fewer bytes. Remaining transposes are
joined, deduplicated, and dropped if they move nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.symbolic import example
from tflgpu_plugin.ops.views import transposed
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.layout.cleanup import clean, reshapes_for_transposes
from tflgpu_plugin.passes.layout.propagate import Held, inverse, permuted, relabelled, spread
from tflgpu_plugin.passes.rewriter import Perm, Rewriter

LAUNCH_BYTES = 1 << 14  # moving this many bytes takes about as long as a launch
MAX_ROUNDS = 1000


@dataclass
class _Region:
    """Tensors to be stored with permuted axes (see `propagate`), and the ids of the nodes that then
    work on the permuted tensors."""

    held: Held
    nodes: set[int] = field(default_factory=set)


def reduce_transposes(graph: Graph) -> Graph:
    """Moves, merges and drops transposes; inputs and outputs of the graph keep their shapes."""
    if not any(ops.arranges(node) == "order" for node in graph.nodes):
        return graph
    e = Rewriter(graph)
    clean(e)
    for _ in range(MAX_ROUNDS):
        if not _improve(e):
            break
        clean(e)
    reshapes_for_transposes(e)
    clean(e)
    return e.finish()


def _improve(e: Rewriter) -> bool:
    """Changes the layout of those regions that save the most bytes and do not touch each other.
    Returns False if none saves anything."""
    uses = DefUse(e)
    found: dict[frozenset[tuple[int, Perm]], tuple[float, _Region]] = {}
    for tensor, perm in _seeds(e):
        region = _grow(uses, tensor, perm)
        key = frozenset(region.held.items())
        if key not in found:
            found[key] = _gain(uses, region), region
    touched: set[int] = set()
    chosen = []
    for gain, region in sorted(found.values(), key=lambda pair: -pair[0]):
        near = _near(uses, region)
        if gain > 0 and not near & touched:
            touched |= near
            chosen.append(region)
    nodes = {node.id: node for node in e.nodes}
    place = {number: k for k, number in enumerate(nodes)}
    for region in chosen:
        _apply(e, region, [nodes[number] for number in sorted(region.nodes, key=place.__getitem__)])
    return bool(chosen)


def _beside(uses: DefUse, tensor: int) -> list[Node]:
    """Returns the nodes that read a tensor, and the one that makes it."""
    producer = uses.producer.get(tensor)
    return [*uses.readers.get(tensor, ()), *([] if producer is None else [producer])]


def _near(uses: DefUse, region: _Region) -> set[int]:
    """Returns the tensors of a region, and those on the other side of the transposes at its
    edges."""
    beside = [node for tensor in region.held for node in _beside(uses, tensor)]
    turns = [node for node in beside if ops.arranges(node) == "order"]
    return {*region.held, *(t for n in turns for t in (*n.reads, *n.outputs))}


def _seeds(e: Rewriter) -> Iterator[tuple[int, Perm]]:
    """Yields tensors, each with the permutation that makes an adjacent transpose unnecessary."""
    for node in e.nodes:
        if ops.arranges(node) == "order" and node.inputs[0] is not None:
            perm = tuple(node.attributes["perm"])
            yield node.outputs[0], inverse(perm)
            yield node.inputs[0], perm


def _grow(uses: DefUse, tensor: int, perm: Perm) -> _Region:
    """Returns the largest region around a tensor in which all tensors can be permuted together.
    Excludes a node that would need one tensor in two layouts."""
    region = _Region({tensor: perm})
    waiting = [tensor]
    while waiting:
        current = waiting.pop()
        for node in _beside(uses, current):
            seen = node.id in region.nodes
            found = None if seen else spread(uses.e, node, current, region.held[current])
            if found is None or any(region.held.get(t, p) != p for t, p in found.items()):
                continue
            region.nodes.add(node.id)
            waiting += [t for t in found if t not in region.held]
            region.held |= found
    return region


def _price(shape: Shape, perm: Perm) -> int:
    """Returns the cost of a transpose in bytes: those that it writes, and a number that stands for
    its launch."""
    if perm == tuple(range(len(perm))):
        return 0
    return 1 if transposed(shape, perm).contiguous else LAUNCH_BYTES + 4 * prod(shape)


@heuristic
def _gain(uses: DefUse, region: _Region) -> int:
    """Returns how much cheaper the transposes at a region's edges become if its layout is changed
    (see `_price`)."""
    e, saved = uses.e, 0
    made: set[tuple[int, Perm]] = set()  # transposes that would be needed, each counted once
    gone: set[int] = set()
    for tensor, perm in region.held.items():
        shape, producer = e.shape(tensor), uses.producer.get(tensor)
        outside = [n for n in uses.readers.get(tensor, ()) if n.id not in region.nodes]
        turns = [n for n in outside if ops.arranges(n) == "order"]
        inside = producer is not None and producer.id in region.nodes
        if inside:
            rest = len(turns) < len(outside) or tensor in e.needed
            saved -= _price(permuted(shape, perm), inverse(perm)) if rest else 0
            for turn in turns:
                change = permuted(inverse(perm), tuple(turn.attributes["perm"]))
                made.add((tensor, change))
        elif producer is not None and ops.arranges(producer) == "order":
            first = producer.operand()
            change = permuted(tuple(producer.attributes["perm"]), perm)
            saved -= _price(e.shape(first), change)
            if not outside and tensor not in e.needed:
                gone.add(producer.id)
                saved += _price(e.shape(first), tuple(producer.attributes["perm"]))
            turns = []
        else:  # needs a transpose into the region, free if it exists already
            there = any(tuple(turn.attributes["perm"]) == perm for turn in turns)
            saved -= 0 if there else _price(shape, perm)
            turns = []
        for turn in turns:
            if turn.id not in gone:
                gone.add(turn.id)
                saved += _price(shape, tuple(turn.attributes["perm"]))
    for tensor, change in made:
        saved -= _price(permuted(e.shape(tensor), region.held[tensor]), change)
    return int(example(saved))


def _apply(e: Rewriter, region: _Region, nodes: Sequence[Node]) -> None:
    """Rewrites a region, whose nodes are given in order: permuted tensors get new ids. Transposes
    into the region are added for tensors that are computed outside, transposes back for those
    computed inside; `clean` drops the unused ones."""
    inside = {t for node in nodes for t in (*node.reads, *node.outputs)}
    names = {
        t: e.tensor(permuted(e.shape(t), p), like=t) for t, p in region.held.items() if t in inside
    }
    there: set[int] = set()  # held tensors made so far
    for node in nodes:
        result: list[Node] = []
        for tensor in node.reads:
            if tensor in names and tensor not in there:
                perm = region.held[tensor]
                result.append(e.node("transpose", (tensor,), (names[tensor],), [node], perm=perm))
                there.add(tensor)
        result.append(relabelled(e, node, region.held, names))
        for tensor in node.outputs:
            perm = inverse(region.held[tensor])
            result.append(e.node("transpose", (names[tensor],), (tensor,), [node], perm=perm))
            there.add(tensor)
        e.put(result, node)
