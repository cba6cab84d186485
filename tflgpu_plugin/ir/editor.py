"""Edits a graph: adds tensors and nodes, renames uses, removes what is unused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.symbolic import symbolic


class Editor:
    """The tensors and nodes of a graph while it is edited; `finish` returns the edited graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors: dict[int, Tensor] = dict(graph.tensors)
        self.nodes: list[Node] = list(graph.nodes)
        self.needed = graph.needed()
        self.now = Graph.over(self.tensors)
        self.shape, self.data = self.now.shape, self.now.constant
        self._ids = graph.next_ids()

    def add(self, tensor: Tensor) -> int:
        """Adds a tensor under a new id and returns the id."""
        made = self._ids.tensor
        self._ids = self._ids._replace(tensor=made + 1)
        self.tensors[made] = tensor
        return made

    def tensor(self, shape: Shape, like: int) -> int:
        """Returns the id of a new tensor of this shape. It has all other properties of the tensor
        `like`, but is neither a constant nor a variable, and has no `counted`."""
        return self.add(
            replace(self.tensors[like], shape=shape, data=None, variable=False, counted=None)
        )

    def reshaped(self, tensor: int, shape: Shape) -> None:
        """Changes the shape of a tensor."""
        self.tensors[tensor] = replace(self.tensors[tensor], shape=shape)

    def constant(self, data: Any, dtype: str = "f32", name: str = "") -> int:
        """Returns the id of a new constant with new values (elements of another: see `moved`)."""
        array = np.asarray(data)
        return self.add(Tensor(name, array.shape, dtype, array))

    def moved(self, tensor: int, move: Callable[[Array], Array]) -> int | None:
        """Returns the id of a new constant that has the elements of the constant `tensor` at other
        positions; `move` takes any array of its shape. All other properties of the tensor are kept,
        including its quantization. Returns None if the result is not quantized along one axis."""
        held = self.tensors[tensor]
        assert held.data is not None
        data = np.asarray(move(held.data))  # a view where possible: weights are large
        found = quantization.moved(held.quantization, held.shape, move)
        if (found is None) != (held.quantization is None):
            return None
        return self.add(
            replace(held, shape=data.shape, data=data, quantization=found, variable=False)
        )

    def indices(self, values: Any) -> int:
        """Returns the id of a new int32 constant, such as axes, a shape or paddings, of which some
        may be symbolic."""
        array = np.asarray(values)
        return self.constant(array if symbolic(array) else np.asarray(values, np.int32), "i32")

    def node(
        self,
        op: str,
        inputs: Iterable[int | None],
        outputs: Iterable[int],
        origin: Iterable[Node],
        **attributes: Any,
    ) -> Node:
        """Returns a new node, still to be inserted, that does work of the nodes `origin`."""
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
        return Graph.over(self.tensors, *self.nodes).producers()

    def readers(self) -> dict[int, list[Node]]:
        return Graph.over(self.tensors, *self.nodes).consumers()

    def rename(self, names: Mapping[int, int]) -> None:
        """Replaces the input k of nodes by names[k]."""
        if names:
            self.nodes = [renamed(node, names) for node in self.nodes]

    def drop_unused(self) -> None:
        """Removes nodes whose results nothing reads, and credits their host nodes to neighbours."""
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
        """Moves the host nodes (`sources`) of each removed node to one remaining node, so that
        reports still list them: the producer of one of its inputs, else a reader of one of its
        outputs, else another reader of one of its inputs, else the first node. A neighbour that is
        itself removed stands for the node that got its host nodes. Nothing is moved if all host
        nodes of a removed node belong to remaining nodes already. `gone` lists the removed nodes in
        reverse order."""
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
        """Returns the graph as it is now, without unused tensors."""
        used = {t for node in self.nodes for t in (*node.reads, *node.outputs)}
        used |= {t for t in (*self.graph.inputs, *self.graph.outputs)}
        used |= {t for pair in self.graph.states for t in pair}
        kept = {t: tensor for t, tensor in self.tensors.items() if t in used}
        return replace(self.graph, tensors=kept, nodes=tuple(self.nodes), ids=self._ids)


def renamed(node: Node, names: Mapping[int, int]) -> Node:
    """Returns the node with the input names[k] instead of k."""
    if not names.keys() & set(node.reads):
        return node
    inputs = tuple(t if t is None else names.get(t, t) for t in node.inputs)
    epilogue = tuple(
        each if each.tensor is None else replace(each, tensor=names.get(each.tensor, each.tensor))
        for each in node.epilogue
    )
    return replace(node, inputs=inputs, epilogue=epilogue)


def merged(*nodes: Node) -> dict[str, Any]:
    """Returns the fields `sources` and `layout` of a node that replaces `nodes`: the host nodes
    whose work it does, ascending, and whether it only changes a layout. Nodes that only change a
    layout add no sources to those of others."""
    working = [node for node in nodes if not node.layout]
    counted = working or nodes
    found = {source for node in counted for source in (node.sources or (node.id,))}
    return {"sources": tuple(sorted(found)), "layout": not working}
