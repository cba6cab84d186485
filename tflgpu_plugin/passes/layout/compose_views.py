"""Composes consecutive nodes that only move data into one view of the first one's input
(`ops.views`). Pixel shuffles and channel shuffles become one launch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tflgpu_plugin.ir import Graph, Node, geometry, merged
from tflgpu_plugin.ir.symbolic import hashed, is_symbolic
from tflgpu_plugin.ops import movement
from tflgpu_plugin.ops.views import View


def compose_views(graph: Graph) -> Graph:
    """Removes a reshape, transpose or slice if all its readers only move data, too, and can read
    its input directly without more launches."""
    joining = _Joining(graph)
    for node in graph.nodes:
        if node.id in joining.nodes:
            joining.join(joining.nodes[node.id])
    left = [*joining.nodes.values()]
    return graph.with_nodes(left) if len(left) < len(graph.nodes) else graph


@dataclass
class _Joining:
    """A graph that is being changed: the readers of each tensor, and the remaining nodes by id."""

    graph: Graph
    lying: dict[tuple[object, ...], bool] = field(default_factory=dict)  # networks repeat views

    def __post_init__(self) -> None:
        self.needed, self.readers = self.graph.needed(), self.graph.consumers()
        self.nodes = {node.id: node for node in self.graph.nodes}
        self.place = {number: k for k, number in enumerate(self.nodes)}

    def join(self, node: Node) -> None:
        """Removes a movement and lets its readers read its input, if they can."""
        gone, found = [node], dict[int, View]()
        view = movement.view_of(self.graph, node)
        if view is None or not all(map(movement.moves, self.readers.get(node.outputs[0], ()))):
            return
        if not self._launches(node, node) or not self._through(view, gone, found):
            return
        for old in gone:
            self._replace(old)
        first = min(found, key=self.place.__getitem__)  # replaces those gone
        for number, joined in found.items():
            old, attributes = self.nodes[number], {"view": joined}
            made = replace(old, op="view", inputs=node.inputs[:1], attributes=attributes)
            origin = (*gone, old) if number == first else (old,)
            self._replace(old, replace(made, **merged(*origin)))

    def _replace(self, old: Node, made: Node | None = None) -> None:
        """Replaces a node, or removes it."""
        for tensor in old.reads:
            self.readers[tensor].remove(old)
        if made is None:
            del self.nodes[old.id]
            return
        self.nodes[old.id] = made
        for tensor in made.reads:
            self.readers[tensor].append(made)

    def _through(self, view: View, gone: list[Node], found: dict[int, View]) -> bool:
        """Whether all readers of a chain of movements, `gone`, can read the chain's input without
        more launches; the result of the chain is `view` of that input. Stores the view of each
        reader in `found`, and appends movements in between that cost nothing to `gone`."""
        node = gone[-1]
        output = node.outputs[0]
        if node.epilogue or output in self.needed or not self.readers.get(output):
            return False
        for reader in self.readers[output]:
            step = movement.view_of(self.graph, reader)
            joined = None if step is None or _pins(view, step) else view.then(step)
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
        """Returns the number of launches that compute the last node's result as `view` of the first
        node's input (by default the node's own view): 0 if it is stored like the input, or if the
        I/O conversion transposes it."""
        view = view or movement.view_of(self.graph, last)
        assert view is not None
        output, shape = last.outputs[0], self.graph.shape
        inside, stored = geometry(shape(first.operand())), geometry(shape(output))
        key = view.key, hashed(inside), hashed(stored)
        if key not in self.lying:
            self.lying[key] = movement.read(view, inside, stored).in_place(inside, stored)
        turned = output in self.graph.outputs and movement.turned(view, inside)
        return int(bool(last.epilogue) or not (self.lying[key] or turned))


def _pins(view: View, step: View) -> bool:
    """Whether a join would hold for few values of a symbolic position: where it begins between the
    axes into which the first view splits one."""
    return is_symbolic((step.offset,)) and not view.contiguous and len(view.axes) > len(view.shape)
