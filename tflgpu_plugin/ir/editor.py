"""A graph while it is changed: new tensors and nodes, uses renamed, nothing left over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape, Tensor


class Editor:
    """Tensors and nodes of a graph, to be changed and made a graph again."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors: dict[int, Tensor] = dict(graph.tensors)
        self.nodes: list[Node] = list(graph.nodes)
        self.needed = graph.needed()
        self.now = Graph.over(self.tensors)
        self._ids = graph.next_ids()

    def shape(self, tensor: int) -> Shape:
        return self.tensors[tensor].shape

    def data(self, tensor: int | None) -> Array | None:
        """The value of a constant, None for anything else."""
        return None if tensor is None else self.tensors[tensor].data

    def add(self, tensor: Tensor) -> int:
        """Give a tensor an id of its own."""
        made = self._ids.tensor
        self._ids = self._ids._replace(tensor=made + 1)
        self.tensors[made] = tensor
        return made

    def tensor(self, shape: Shape, like: int) -> int:
        """A new value of this shape. All else that is known of the tensor `like` holds for it, too,
        but that the host keeps it, and how many of its elements are meant."""
        return self.add(
            replace(self.tensors[like], shape=shape, data=None, variable=False, counted=None)
        )

    def reshaped(self, tensor: int, shape: Shape) -> None:
        """Give a tensor another shape."""
        self.tensors[tensor] = replace(self.tensors[tensor], shape=shape)

    def constant(self, data: Any, dtype: str = "f32", name: str = "") -> int:
        """A new constant of values that stand nowhere yet. See `moved` for those that do."""
        array = np.asarray(data)
        return self.add(Tensor(name, array.shape, dtype, array))

    def moved(self, tensor: int, move: Callable[[Array], Array]) -> int | None:
        """A new constant that has the elements of another one in other places (`move` takes any
        array of its shape). All else that is known of the tensor is kept, its quantization, too.
        None where there is no quantization along an axis that says the same of the result."""
        held = self.tensors[tensor]
        assert held.data is not None
        data = np.asarray(move(held.data))  # a view where it can be: weights are large
        found = quantization.moved(held.quantization, held.shape, move)
        if (found is None) != (held.quantization is None):
            return None
        return self.add(
            replace(held, shape=data.shape, data=data, quantization=found, variable=False)
        )

    def indices(self, values: Any) -> int:
        """A new int32 constant: axes, shapes, paddings."""
        return self.constant(np.asarray(values, np.int32), dtype="i32")

    def node(
        self,
        op: str,
        inputs: Iterable[int | None],
        outputs: Iterable[int],
        origin: Iterable[Node],
        **attributes: Any,
    ) -> Node:
        """A new node that stands for parts of other nodes (it is not put in order)."""
        origin = tuple(origin)
        number = self._ids.node
        self._ids = self._ids._replace(node=number + 1)
        return Node(
            id=number,
            op=op,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            attributes=attributes,
            name=origin[0].name,
            host_op=origin[0].host_op,
            **merged(*origin),
        )

    def producers(self) -> dict[int, Node]:
        return self.graph.with_nodes(self.nodes).producers()

    def readers(self) -> dict[int, list[Node]]:
        return self.graph.with_nodes(self.nodes).consumers()

    def rename(self, names: Mapping[int, int]) -> None:
        """Let every reader of a key read its value instead."""
        if names:
            self.nodes = [renamed(node, names) for node in self.nodes]

    def drop_unused(self) -> None:
        """Remove nodes whose results nothing reads; the host's nodes they stand for go to a
        neighbour."""
        read = set(self.needed)
        kept: list[Node] = []
        gone: list[Node] = []
        for node in reversed(self.nodes):
            if read.isdisjoint(node.outputs):
                gone.append(node)
            else:
                kept.append(node)
                read.update(node.reads)
        if gone:
            self.nodes = kept[::-1]
            self.credit(gone)

    def credit(self, gone: Iterable[Node]) -> None:
        """Keep the host's nodes that removed ones, the last of them first, stand for: with the
        producer of an input, else with any neighbour; where that is removed, with its own. What a
        node stands for already is kept."""
        known = {source for node in self.nodes for source in (node.sources or (node.id,))}
        place = {t: k for k, node in enumerate(self.nodes) for t in node.outputs}
        reader = {t: k for k, node in enumerate(self.nodes) for t in node.reads}
        added: dict[int, list[Node]] = {}
        waiting = list(gone)[::-1]
        while waiting:
            left: list[Node] = []
            for node in waiting:
                sides = (place, node.reads), (reader, node.outputs), (reader, node.reads)
                near = [where[t] for where, tensors in sides for t in tensors if t in where]
                if not near and len(left) < len(waiting) - 1:
                    left.append(node)
                    continue
                k = near[0] if near else 0
                if not known.issuperset(node.sources or (node.id,)):
                    added.setdefault(k, []).append(node)
                place |= dict.fromkeys(node.outputs, k)
                reader |= dict.fromkeys(node.reads, k)
            waiting = left
        for k, nodes in added.items():
            if self.nodes:
                self.nodes[k] = replace(self.nodes[k], **merged(self.nodes[k], *nodes))

    def finish(self) -> Graph:
        """The graph as it is now, without tensors that nothing uses."""
        used = {t for node in self.nodes for t in (*node.reads, *node.outputs)}
        used |= {t for t in (*self.graph.inputs, *self.graph.outputs)}
        used |= {t for pair in self.graph.states for t in pair}
        kept = {t: tensor for t, tensor in self.tensors.items() if t in used}
        return replace(self.graph, tensors=kept, nodes=tuple(self.nodes), ids=self._ids)


def renamed(node: Node, names: Mapping[int, int]) -> Node:
    """The node with other inputs."""
    if not names.keys() & set(node.reads):
        return node
    inputs = tuple(t if t is None else names.get(t, t) for t in node.inputs)
    epilogue = tuple(
        each if each.tensor is None else replace(each, tensor=names.get(each.tensor, each.tensor))
        for each in node.epilogue
    )
    return replace(node, inputs=inputs, epilogue=epilogue)


def merged(*nodes: Node) -> dict[str, Any]:
    """What a node that stands for all of these remembers of them: the host nodes whose work it
    does, ascending. A change of layout adds nothing to other work.
    """
    working = [node for node in nodes if not node.layout]
    counted = working or nodes
    found = {source for node in counted for source in (node.sources or (node.id,))}
    return {"sources": tuple(sorted(found)), "layout": not working}
