"""The graph editor of passes, which treats nodes that only move data as views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Editor, Graph, Node, Tensor
from tflgpu_plugin.ops import movement
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.views import View, part

Perm = tuple[int, ...]


class Rewriter(Editor):
    """An editor of a graph that treats nodes that only move data as views of their inputs."""

    _nodes: list[Node]
    _put: dict[int, list[Node]]  # what comes in place of nodes, by their ids

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._views: dict[int, tuple[Node, dict[int, Tensor], View | None]] = {}

    def view(self, node: Node) -> View | None:
        """Returns the node's result as a view of its input, None for a node that computes. Cached
        for as long as the node and its tensors stay the same."""
        before, had, view = self._views.get(id(node), (None, {}, None))
        if before is not node or any(self.tensors[t] is not seen for t, seen in had.items()):
            moves = not node.epilogue and movement.moves(node)
            used = {t for t in (*node.inputs, *node.outputs) if t is not None} if moves else ()
            view = movement.view_of(self.now, node) if moves else None
            self._views[id(node)] = node, {t: self.tensors[t] for t in used}, view
        return view

    def moving(self, node: Node, source: int, outputs: tuple[int, ...], view: View) -> Node:
        """Returns the node changed to a movement whose result is this view of the tensor
        `source`."""
        whole = view.reshapes(self.shape(source))
        op, attributes = ("reshape", {"shape": view.shape}) if whole else ("view", {"view": view})
        return replace(node, op=op, inputs=(source,), outputs=outputs, attributes=attributes)

    def per_channel(self, tensor: int, result: int) -> Array | None:
        """Returns a float constant as one value per channel of `result`; None if it is not
        constant, or has other values."""
        data, channels = self.data(tensor), self.shape(result)[-1]
        fits = spread(self.now, tensor, result) in ("channel", "scalar")
        if data is None or data.dtype.kind != "f" or not fits:
            return None
        return np.broadcast_to(data.reshape(-1), (channels,))

    def layout(self, op: str, source: int, output: int, *origin: Node, **attributes: Any) -> Node:
        """Returns a new node that only changes the layout of a tensor for the host's nodes."""
        made = self.node(op, (source,), (output,), origin, **attributes)
        return replace(made, layout=True)

    def cut(self, source: int, output: int, start: int, *origin: Node, **attributes: Any) -> Node:
        """Returns a new node that slices channels of a tensor, from `start` on, as many as the
        output has."""
        shape = self.shape(source)
        view = part(shape, len(shape) - 1, start, self.shape(output)[-1])
        return self.layout("view", source, output, *origin, view=view, **attributes)

    def put(self, made: Sequence[Node], *gone: Node) -> None:
        """Replaces nodes of the graph with new ones, at the position of the first. All such changes
        are made together when `nodes` is read next."""
        added = [*made]
        self._put |= {node.id: added for node in gone}

    @property
    def nodes(self) -> list[Node]:
        """Returns the nodes in order."""
        if put := self._put:
            before, self.nodes = self._nodes, []
            for node in before:
                made = put.get(node.id, [node])
                self._nodes += made
                made.clear()  # nothing comes in place of the other ones
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: list[Node]) -> None:
        self._nodes, self._put = nodes, {}
