"""A graph while passes change it, which know what its nodes do that only move data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Editor, Graph, Node, Tensor
from tflgpu_plugin.ops import movement
from tflgpu_plugin.ops.lowering import spread
from tflgpu_plugin.ops.views import View

Perm = tuple[int, ...]


class Rewriter(Editor):
    """An editor of a graph that sees nodes as views of their inputs."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._views: dict[int, tuple[Node, dict[int, Tensor], View | None]] = {}

    def view(self, node: Node) -> View | None:
        """What a node does that moves data, and nothing else; worked out once for the tensors that
        it has.
        """
        before, had, view = self._views.get(id(node), (None, {}, None))
        if before is not node or any(self.tensors[t] is not seen for t, seen in had.items()):
            moves = not node.epilogue and movement.moves(node)
            used = {t for t in (*node.inputs, *node.outputs) if t is not None} if moves else ()
            view = movement.view_of(self.now, node) if moves else None
            self._views[id(node)] = node, {t: self.tensors[t] for t in used}, view
        return view

    def moving(self, node: Node, source: int, outputs: tuple[int, ...], view: View) -> Node:
        """The node as this view of a tensor."""
        whole = view.reshapes(self.shape(source))
        op, attributes = ("reshape", {"shape": view.shape}) if whole else ("view", {"view": view})
        return replace(node, op=op, inputs=(source,), outputs=outputs, attributes=attributes)

    def per_channel(self, tensor: int, result: int) -> Array | None:
        """A constant of floats that spreads over a result, as a value for each of its channels;
        None for anything else."""
        data, channels = self.data(tensor), self.shape(result)[-1]
        fits = spread(self.now, tensor, result) in ("channel", "scalar")
        if data is None or data.dtype.kind != "f" or not fits:
            return None
        return np.broadcast_to(data.reshape(-1), (channels,))

    def layout(self, op: str, source: int, output: int, *origin: Node, **attributes: Any) -> Node:
        """A new node that only brings a tensor into another layout for nodes of the host."""
        made = self.node(op, (source,), (output,), origin, **attributes)
        return replace(made, layout=True)

    def put(self, made: Sequence[Node], *gone: Node) -> None:
        """New nodes in place of others, where the first of these stands."""
        numbers = {node.id for node in gone}
        place = next(k for k, node in enumerate(self.nodes) if node.id in numbers)
        kept = [node for node in self.nodes[place:] if node.id not in numbers]
        self.nodes[place:] = [*made, *kept]
