"""Composes consecutive nodes that only move data into one view of the first one's input
(`ops.views`). Pixel shuffles and channel shuffles become one launch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tflgpu_plugin.ir import Graph, Node, geometry, merged
from tflgpu_plugin.ops import movement
from tflgpu_plugin.ops.views import View


def compose_views(graph: Graph) -> Graph:
    """Removes a reshape, transpose or slice that only such nodes read, if these can read its input
    directly without more launches."""
    joining, k = _Joining(graph, graph.consumers()), 0
    while k < len(joining.graph.nodes):
        if not joining.join(joining.graph.nodes[k]):
            k += 1
    return joining.graph


@dataclass
class _Joining:
    graph: Graph
    readers: dict[int, list[Node]]
    lying: dict[tuple[object, ...], bool] = field(default_factory=dict)  # networks repeat views

    def join(self, node: Node) -> bool:
        """Removes a movement and lets its readers read its input. Returns whether it did."""
        graph, gone, found = self.graph, [node], dict[int, View]()
        view = movement.view_of(graph, node)
        if view is None or not all(map(movement.moves, self.readers.get(node.outputs[0], ()))):
            return False
        if not self._launches(node, node) or not self._through(view, gone, found):
            return False
        made: dict[int, Node | None] = dict.fromkeys(n.id for n in gone)
        for n in graph.nodes:
            if n.id in found:
                read = replace(
                    n, op="view", inputs=node.inputs[:1], attributes={"view": found[n.id]}
                )
                made[n.id] = replace(read, **merged(*gone, n))
                gone = []  # one node replaces these
        nodes = [made.get(n.id, n) for n in graph.nodes]
        self.graph = graph.with_nodes([n for n in nodes if n is not None])
        self.readers = self.graph.consumers()
        return True

    def _through(self, view: View, gone: list[Node], found: dict[int, View]) -> bool:
        """Whether all readers of the last node of `gone`, whose result is this view of the first
        node's input, can read that input with no more launches. Stores the view of each reader in
        `found`, and appends movements in between that cost nothing to `gone`."""
        node = gone[-1]
        output = node.outputs[0]
        if node.epilogue or output in self.graph.needed() or output not in self.readers:
            return False
        for reader in self.readers[output]:
            step = movement.view_of(self.graph, reader)
            joined = None if step is None else view.then(step)
            if joined is None or len(joined.simple.axes) > movement.MAX_JOINED:
                return False
            if output != reader.inputs[0] or any(each.tensor == output for each in reader.epilogue):
                return False
            if self._launches(gone[0], reader, joined) <= self._launches(reader, reader):
                found[reader.id] = joined
                continue
            gone.append(reader)
            if not self._through(joined, gone, found):
                return False
        return True

    def _launches(self, first: Node, last: Node, view: View | None = None) -> int:
        """Returns the number of launches for the last node's result as a view of the first one's
        input (by default the node's own view): 0 if it is stored like the input, or the I/O
        conversion transposes it."""
        view = view or movement.view_of(self.graph, last)
        assert view is not None
        output, shape = last.outputs[0], self.graph.shape
        inside, stored = geometry(shape(first.operand())), geometry(shape(output))
        key = view.key, inside, stored
        if key not in self.lying:
            self.lying[key] = movement.read(view, inside, stored).in_place(inside, stored)
        turned = output in self.graph.outputs and movement.turned(view, inside)
        return int(bool(last.epilogue) or not (self.lying[key] or turned))
