"""A chain of reshapes and transposes is one movement: axes are split into parts that the whole
chain keeps together, and the parts change place once.

The result is a transpose of a view of its input (attributes view and shape, see `ops.transpose`).
Pixel shuffles and channel shuffles become one launch this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tflgpu_plugin.ir.graph import Graph, Node, Shape, geometry
from tflgpu_plugin.ops.movement import MAX_AXES
from tflgpu_plugin.passes.layout.cleanup import is_plain, keeps_order
from tflgpu_plugin.passes.rewriter import Editor
from tflgpu_plugin.passes.sources import merged


def join_moves(graph: Graph) -> Graph:
    """Chains of two or more plain reshapes and transposes with one reader each, where one movement
    can do it."""
    e = Editor(graph)
    readers = e.readers()
    place: dict[int, Node] = {}  # what stands for the last node of a chain
    gone: set[int] = set()
    for node in graph.nodes:
        if node.id in gone or not _moves(node):
            continue
        chain = [node]
        while (following := _following(e, chain[-1], readers)) is not None:
            chain.append(following)
        turns = sum(n.op == "transpose" for n in chain)
        if len(chain) < 2 or not turns or not _worth(e, chain, turns):
            continue
        joined = _joined(e, chain)
        if joined is not None:
            gone |= {n.id for n in chain}
            place[joined.id] = joined
    if not place:
        return graph
    e.nodes = [place.get(n.id, n) for n in e.nodes if n.id in place or n.id not in gone]
    return e.finish()


def _moves(node: Node) -> bool:
    return is_plain(node, "transpose") or is_plain(node, "reshape")


def _following(e: Editor, node: Node, readers: dict[int, list[Node]]) -> Node | None:
    output = node.outputs[0]
    found = readers.get(output, [])
    if len(found) != 1 or output in e.needed or not _moves(found[0]):
        return None
    return found[0] if found[0].inputs[0] == output else None


def _worth(e: Editor, chain: Sequence[Node], turns: int) -> bool:
    """More than one launch, as it is: free reshapes before or after one transpose stay."""
    launches = turns
    for node in chain:
        source = node.inputs[0]
        assert source is not None
        if node.op == "reshape":
            same = geometry(e.shape(source)) == geometry(e.shape(node.outputs[0]))
            launches += not same
        else:
            launches -= keeps_order(e.shape(source), tuple(node.attributes["perm"]))
    return launches > 1


@dataclass(eq=False)
class _Part:
    """A piece of an axis; it may be split into an outer and an inner piece."""

    extent: int
    pieces: list[_Part]


def _leaves(parts: Sequence[_Part]) -> list[_Part]:
    return [leaf for p in parts for leaf in (_leaves(p.pieces) if p.pieces else [p])]


def _grouped(parts: list[_Part], shape: Shape) -> list[list[_Part]] | None:
    """The parts of each axis of a shape with the same elements; splits parts where an axis ends
    inside one. None when it cannot be."""
    waiting = list(reversed(_leaves(parts)))
    axes: list[list[_Part]] = []
    for extent in shape:
        axis: list[_Part] = []
        left = extent
        while left > 1:
            part = waiting.pop()
            if left % part.extent == 0:
                axis.append(part)
                left //= part.extent
                continue
            if part.extent % left:
                return None
            part.pieces = [_Part(left, []), _Part(part.extent // left, [])]
            waiting += reversed(part.pieces)
        axes.append(axis)
    return axes


def _joined(e: Editor, chain: Sequence[Node]) -> Node | None:
    """One transpose of a view for the chain, None when it would have too many axes."""
    source = chain[0].inputs[0]
    assert source is not None
    start = [_Part(extent, []) for extent in e.shape(source) if extent > 1]
    order = list(start)
    for node in chain:
        assert node.inputs[0] is not None
        axes = _grouped(order, e.shape(node.inputs[0]))
        if axes is None:
            return None
        if node.op == "transpose":
            order = [part for axis in node.attributes["perm"] for part in axes[axis]]
        else:
            order = [part for axis in axes for part in axis]
    before, after = _leaves(start), _leaves(order)
    runs = _runs(before, after)
    if len(runs) > MAX_AXES:
        return None
    begins = sorted(before.index(run[0]) for run in runs)
    view = {before.index(run[0]): prod(part.extent for part in run) for run in runs}
    return replace(
        chain[-1],
        op="transpose",
        inputs=(source,),
        attributes={
            "view": tuple(view[begin] for begin in begins),
            "perm": tuple(begins.index(before.index(run[0])) for run in runs),
            "shape": e.shape(chain[-1].outputs[0]),
        },
        **merged(*chain),
    )


def _runs(before: list[_Part], after: list[_Part]) -> list[list[_Part]]:
    """Parts that follow each other on both sides, in the order after."""
    runs: list[list[_Part]] = []
    for part in after:
        if runs and before.index(part) == before.index(runs[-1][-1]) + 1:
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs
