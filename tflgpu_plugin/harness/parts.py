"""Selects the nodes of a model that compute a tensor from others."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar

Tensor = TypeVar("Tensor", bound=Hashable)
Nodes = Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]]  # what each node reads and writes


def part(
    nodes: Nodes[Tensor], varying: Collection[Tensor], sources: Collection[Tensor], result: Tensor
) -> tuple[list[Tensor], list[int]]:
    """Returns the inputs and the nodes, by their places, of the part of a model that computes
    `result`. It begins at `sources`, or at the model's inputs where `result` does not depend on
    `sources` alone. `varying` are the tensors that depend on the model's inputs, these included;
    all others belong to the part, and so do nodes without inputs and results, which initialize
    variables."""
    maker = {tensor: place for place, (_, results) in enumerate(nodes) for tensor in results}
    kept = {place for place, (reads, results) in enumerate(nodes) if not (reads or results)}
    taken, pending = dict[Tensor, None](), [result]
    while pending:
        tensor = pending.pop()
        place = maker.get(tensor)
        if tensor in varying and (place is None or (tensor in sources and tensor != result)):
            taken[tensor] = None
        elif place is not None and place not in kept:
            kept.add(place)
            pending += nodes[place][0]
    return [tensor for tensor in taken if maker.get(tensor) not in kept], sorted(kept)


def before(nodes: Nodes[Tensor], tensors: Collection[Tensor]) -> set[Tensor]:
    """Returns the tensors that the nodes computing these tensors read. Tensors that no node
    computes are returned unchanged."""
    maker = {tensor: reads for reads, results in nodes for tensor in results}
    return {source for tensor in tensors for source in maker.get(tensor, (tensor,))}
