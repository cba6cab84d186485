"""Places in a window: which element a pooling took, for an unpooling to put a value back there.

Each host numbers them in its own way: XNNPACK keeps bits of a whole number in a float tensor,
MediaPipe's own kernel a float with a fraction. So they stay among nodes that run here: a pooling
and the unpoolings that read its places run here together, or none of them does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tflgpu_plugin.ir.graph import Node, Tensor

POOL, UNPOOL = "max_pool_places", "max_unpool"
PLACES = 1  # position among the outputs of the one, and the inputs of the other
READ = "Its places in windows are read by more than unpoolings; hosts number them differently."
FOREIGN = "Its places must be those of a pooling on the GPU; hosts number them differently."

Groups = tuple[tuple[int, ...], ...]


def settle(
    nodes: Sequence[Node], tensors: dict[int, Tensor], visible: Collection[int]
) -> tuple[list[Node], Groups]:
    """The nodes, with a refusal where places are not among nodes that may run here, and which of
    them must run together. `visible` are tensors that the user reads; places are marked in
    `tensors`.
    """
    makers = {n.outputs[PLACES]: n for n in nodes if n.op == POOL and n.refusal is None}
    readers: dict[int, list[Node]] = {place: [] for place in makers}
    for node in nodes:
        for tensor in makers.keys() & set(node.reads):
            readers[tensor].append(node)
    kept = {
        place
        for place, reading in readers.items()
        if place not in visible and all(_only_unpools(node, place) for node in reading)
    }
    for place in kept:
        tensors[place] = replace(tensors[place], wide=True)
    groups = (tuple(n.id for n in (makers[place], *readers[place])) for place in sorted(kept))
    return [_settled(node, kept) for node in nodes], tuple(groups)


def _only_unpools(node: Node, place: int) -> bool:
    """The node reads these places as such, and nothing else of them."""
    reads = [k for k, tensor in enumerate(node.inputs) if tensor == place]
    return node.op == UNPOOL and node.refusal is None and reads == [PLACES]


def _settled(node: Node, kept: Collection[int]) -> Node:
    if node.refusal is not None:
        return node
    if node.op == POOL and node.outputs[PLACES] not in kept:
        return replace(node, refusal=READ)
    if node.op == UNPOOL and node.inputs[PLACES] not in kept:
        return replace(node, refusal=FOREIGN)
    return node
