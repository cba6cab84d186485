"""Quantized groups of a model: an operator between the DequantizeLinear nodes that it reads and the
QuantizeLinear nodes that read it. onnxruntime fuses such a group on the CPU, so it goes to the GPU
as a whole or not at all, and what crosses an island's border is in 8 bits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .snapshot import HostNode, Snapshot

SPLIT = "It belongs to a quantized group of which another node stays on the CPU."


class Units:
    """The groups of one snapshot. `known` are nodes whose results are constants: they are nobody's
    neighbours."""

    def __init__(self, snapshot: Snapshot, known: Collection[int]) -> None:
        self.nodes = {node.id: node for node in snapshot.nodes}
        self.writer = {name: node.id for node in snapshot.nodes for name in node.writes}
        self.readers: dict[str, list[int]] = {}
        for node in snapshot.nodes:
            for name in node.reads:
                self.readers.setdefault(name, []).append(node.id)
        self.outputs = set(snapshot.outputs)
        self.known = known
        self.opened = {
            name
            for node in snapshot.nodes
            if node.op == "DequantizeLinear" and node.id not in known
            for name in node.writes
        }

    def whole(self, chosen: Collection[int]) -> set[int]:
        """The chosen nodes without groups that are not complete."""
        found = set(chosen)
        while self.opened:
            torn = {number for number in found if self._is_torn(self.nodes[number], found)}
            if not torn:
                break
            found -= torn
        return found

    def _is_torn(self, node: HostNode, chosen: set[int]) -> bool:
        if node.id in self.known:
            return False
        if node.op == "DequantizeLinear":
            name = node.writes[0]
            return name not in self.outputs and not chosen.issuperset(self.readers.get(name, ()))
        if node.op == "QuantizeLinear":
            maker = self.nodes.get(self.writer.get(node.reads[0], -1))
            return maker is not None and maker.id not in chosen and self._quantized(maker)
        if not self._quantized(node):
            return False
        before = {self.writer[name] for name in node.reads if name in self.opened}
        return not chosen.issuperset(before) or any(
            self.nodes[reader].op == "QuantizeLinear" and reader not in chosen
            for name in node.writes
            for reader in self.readers.get(name, ())
        )

    def _quantized(self, node: HostNode) -> bool:
        """It reads what a DequantizeLinear makes."""
        return not self.opened.isdisjoint(node.reads)

    def late(self, groups: Sequence[set[int]]) -> list[set[int]]:
        """Groups in execution order: a DequantizeLinear goes to the only one that reads it."""
        places: Mapping[int, int] = {n: k for k, group in enumerate(groups) for n in group}
        found = [set(group) for group in groups]
        for name in self.opened:
            number = self.writer[name]
            wanted = {places.get(reader) for reader in self.readers.get(name, ())}
            here = places.get(number)
            if here is None or name in self.outputs or len(wanted) != 1:
                continue
            (there,) = wanted
            if there is not None and there != here:
                found[here].discard(number)
                found[there].add(number)
        return [group for group in found if group]
