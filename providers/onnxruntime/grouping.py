"""Groups the nodes of onnxruntime into convex partitions, each with the shape arithmetic that it
needs, and extracts the graph of each partition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain

from tflgpu_plugin.ir import Graph, Node, Tensor
from tflgpu_plugin.providers import Imported, partition

from .ops import HOST_OPS
from .snapshot import Snapshot


class Grouping:
    """Groups the nodes of one imported graph, `reading`. `members` maps the node ids of each
    partition to the ids of the host's nodes; `dynamic` is whether shapes may change between runs.
    `divided` are nodes that the groups lack because of an input with a default (`_divided`), and
    `lists` the values that are lists of tensors: these do not pass between partition and host."""

    def __init__(self, snapshot: Snapshot, reading: Imported, dynamic: bool) -> None:
        self.snapshot, self.reading, self.dynamic = snapshot, reading, dynamic
        self.members: dict[frozenset[int], frozenset[int]] = {}
        self._writer = {name: node.id for node in snapshot.nodes for name in node.writes}
        self._hosts, self._keeping = self._host_graph(), self._keeping_nodes()
        self._sharing = self._shared_defaults()
        self.divided: set[int] = set()
        self.lists = {name for name, t in reading.ids.items() if t in reading.sequences}

    def group(self, ids: Sequence[int]) -> list[list[int]]:
        """Returns the nodes `ids` in convex groups, in execution order. A node whose shape
        arithmetic cannot be in its group is left out."""
        wanted = set(ids)
        nodes = [node for node in self.reading.graph.nodes if node.id in wanted]
        chosen = {node.sources[0] for node in nodes}
        groups = []
        for hosts in self._late(self._convex(chosen | self.reading.arithmetic)):
            group = [node.id for node in nodes if node.sources[0] in hosts]
            if group:
                self.members[frozenset(group)] = frozenset(hosts)
                groups.append(group)
        return groups

    def extract(self, graph: Graph, ids: Collection[int]) -> Graph:
        """Returns the graph of the nodes `ids`, which `group` returned as a group. Its outputs are
        those of the host's fused node."""
        outside = self.outputs(self.members[frozenset(ids)])
        wanted = tuple(self.reading.ids[name] for name in outside)
        return partition.extract(replace(graph, outputs=wanted), ids)

    def outputs(self, hosts: Collection[int]) -> tuple[str, ...]:
        """Returns the results of these host nodes that other nodes read or the model outputs."""
        nodes, leaving = self.snapshot.nodes, self._leaving([hosts])
        made = (name for node in nodes if node.id in hosts for name in node.writes)
        return tuple(name for name in made if name in leaving)

    def _leaving(self, groups: Sequence[Collection[int]]) -> set[str]:
        """Returns the values that leave the group that computes them, because nodes outside of it
        read them or the model outputs them."""
        group_of = {number: k for k, group in enumerate(groups) for number in group}
        at = {name: group_of.get(number) for name, number in self._writer.items()}
        pairs = ((node.id, name) for node in self.snapshot.nodes for name in node.reads)
        read = (name for number, name in pairs if at.get(name) != group_of.get(number))
        return {*self.snapshot.outputs, *read}

    def _convex(self, supported: set[int]) -> list[set[int]]:
        """Returns convex groups of the host nodes `supported`. Misplaced nodes are removed and the
        groups formed again until all shape arithmetic is in the group of its readers, and all
        readers of a default are in groups."""
        self.divided = set()
        while True:
            found = partition.groups(self._hosts, supported, self._keeping)
            groups = self._sunk([set(group) for group in found])
            leaving = self._leaving(groups)
            misplaced = {node for group in groups for node in self._misplaced(group, leaving)}
            if not misplaced:
                misplaced = self._divided(set().union(*groups))
                self.divided |= misplaced
            if not misplaced:
                return groups
            supported = supported - misplaced

    def _sunk(self, groups: list[set[int]]) -> list[set[int]]:
        """Returns the groups with each node of shape arithmetic in the group of its readers, if
        they are all in one later than where it could run first."""
        place = {number: k for k, group in enumerate(groups) for number in group}
        readers: dict[str, set[int | None]] = {name: {None} for name in self.snapshot.outputs}
        for node in reversed(self.snapshot.nodes):
            here, wanted = place.get(node.id), set[int | None]()
            if node.id in self.reading.arithmetic and here is not None:
                wanted.update(*(readers.get(name, ()) for name in node.writes))
            if len(wanted) == 1 and (there := wanted.pop()) is not None and there != here:
                groups[place[node.id]].discard(node.id)
                groups[there].add(node.id)
                place[node.id] = there
            for name in node.reads:
                readers.setdefault(name, set()).add(place.get(node.id))
        return [group for group in groups if group]

    def _keeping_nodes(self) -> set[int]:
        """Returns the nodes that preserve a count. Shape arithmetic that depends on the count is
        among them only with all of its readers, and its readers only with it, since they are in
        one group."""
        keeping, arithmetic = {*self.reading.keeping}, self.reading.arithmetic
        readers: dict[str, set[int | None]] = {name: {None} for name in self.snapshot.outputs}
        for node in self.snapshot.nodes:
            for name in node.reads:
                readers.setdefault(name, set()).add(node.id)
        told = [node for node in self.snapshot.nodes if node.id in arithmetic & keeping
                and not self.reading.counted.keys().isdisjoint(node.writes)]  # fmt: skip
        together = [{node.id, *chain(*(readers.get(name, ()) for name in node.writes))}
                    for node in told]  # fmt: skip
        while split := [nodes for nodes in together if not nodes <= keeping and nodes & keeping]:
            keeping.difference_update(*split)
        return keeping

    def _shared_defaults(self) -> list[set[int]]:
        """Returns the nodes that read an input with a default, for each one that several read."""
        readers: dict[str, set[int]] = {}
        for node in self.snapshot.nodes:
            for name in node.reads:
                if self.snapshot.values[name].default:
                    readers.setdefault(name, set()).add(node.id)
        return [nodes for nodes in readers.values() if len(nodes) > 1]

    def _divided(self, inside: set[int]) -> set[int]:
        """Returns those of the nodes `inside` that read an input with a default which others read,
        too. onnxruntime copies such a default for our nodes (TransformerMemcpy), and a run that
        gives another value does not reach the copy."""
        return {n for nodes in self._sharing if not nodes <= inside for n in nodes & inside}

    def _late(self, groups: Sequence[set[int]]) -> list[set[int]]:
        """Returns `groups` in which each DequantizeLinear is in the group of its readers, if these
        are all in one group, so that tensors between partitions have 8 bits."""
        group_of = {number: k for k, group in enumerate(groups) for number in group}
        found = [set(group) for group in groups]
        rows = ((node, HOST_OPS.get(node.title)) for node in self.snapshot.nodes)
        opening = [node for node, row in rows if row is not None and row.bounds == "opens"]
        readers = {node.writes[0]: set[int | None]() for node in opening}
        for node in self.snapshot.nodes if readers else ():
            for name in readers.keys() & node.reads:
                readers[name].add(group_of.get(node.id))
        for node in opening:
            name, here = node.writes[0], group_of.get(node.id)
            wanted = readers[name]
            if here is None or name in self.snapshot.outputs or len(wanted) != 1:
                continue
            (there,) = wanted
            if there is not None and there != here and node.id not in self.reading.arithmetic:
                found[here].discard(node.id)
                found[there].add(node.id)
        return [group for group in found if group]

    def _misplaced(self, group: set[int], leaving: set[str]) -> set[int]:
        """Returns the nodes that cannot stay in `group`: shape arithmetic whose result is needed
        outside, too, nodes that share a sequence with nodes outside, and with dynamic shapes also
        nodes that read shape arithmetic from outside.
        Returns all nodes of a group that consists of shape arithmetic only."""
        arithmetic = self.reading.arithmetic
        if group <= arithmetic:
            return group
        found = set()
        for node in self.snapshot.nodes:
            if node.id not in group:
                continue
            sources = {self._writer.get(name) for name in node.reads} & arithmetic
            inner = leaving.isdisjoint(node.writes)
            lists = self.lists.intersection(node.reads)
            shared = not inner and (
                node.id in arithmetic
                or not self.lists.isdisjoint(leaving.intersection(node.writes))
            )
            alone = any(self._writer.get(name) not in group for name in lists)
            if shared or alone or (self.dynamic and not sources <= group):
                found.add(node.id)
        return found

    def _host_graph(self) -> Graph:
        numbers = {name: k for k, name in enumerate(self.snapshot.values)}
        # Groups need to know which node counts, not which tensor has the count.
        first = {node.id: numbers[node.writes[0]] for node in self.snapshot.nodes if node.writes}
        counted = {name: (0, first[node]) for name, node in self.reading.counted.items()}
        tensors = {k: Tensor(name, (), counted=counted.get(name)) for name, k in numbers.items()}
        nodes = [
            Node(
                node.id,
                node.op,
                tuple(numbers[name] for name in node.reads),
                tuple(numbers[name] for name in node.writes),
            )
            for node in self.snapshot.nodes
        ]
        return Graph(tensors, tuple(nodes), (), ())
