"""Ops that are made of other ops: `Op.expand` lists the nodes that stand for one, before lowering.

An expansion is a function of `Steps`, which adds nodes and works out their shapes, and of the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape
from tflgpu_plugin.ir.quantization import quantized
from tflgpu_plugin.ops.lowering import Lowering, Refused

if TYPE_CHECKING:
    from tflgpu_plugin.passes.rewriter import Editor


class Steps:
    """Nodes that replace one node, in order. Tensors are ids of the edited graph."""

    def __init__(self, editor: Editor, node: Node) -> None:
        self.editor, self.node = editor, node
        self.nodes: list[Node] = []

    def shape(self, tensor: int) -> Shape:
        return self.editor.shape(tensor)

    def data(self, tensor: int | None) -> Array | None:
        """The value of a constant, None for anything else."""
        return self.editor.data(tensor)

    def indices(self, values: Any) -> int:
        """A new constant of axes, extents and the like."""
        return self.editor.indices(values)

    def number(self, value: Any) -> int:
        """A new float32 constant."""
        return self.editor.constant(np.asarray(value, np.float32))

    def moved(self, tensor: int, data: Array) -> int:
        """A new constant of the elements of another one, in another order. Scales by index of an
        axis are not kept."""
        grid = self.editor.tensors[tensor].quantization
        if grid is None or len(grid.scale) != 1:
            return self.number(data)
        return self.editor.tensor(data.shape, like=tensor, data=data)

    def add(self, op: str, *inputs: int | None, **attributes: Any) -> int:
        """A further node; returns its result."""
        first = next(tensor for tensor in inputs if tensor is not None)
        made = self.editor.tensor((), like=first)
        if not ops.rows()[op].keeps:
            self._real(made)
        self._put(op, inputs, made, attributes)
        return made

    def _real(self, tensor: int) -> None:
        """What lies in between is not on the grid of the operand, nor to be rounded."""
        model = replace(self.editor.tensors[tensor], wide=True)
        if quantized(model):
            model = replace(model, dtype="f32", quantization=None)
        self.editor.tensors[tensor] = model

    def last(self, op: str, *inputs: int | None, **attributes: Any) -> None:
        """The node whose result is that of the whole."""
        self._put(op, inputs, self.node.outputs[0], attributes)

    def last_of_many(
        self, op: str, *inputs: int | None, first: bool = True, **attributes: Any
    ) -> tuple[int, ...]:
        """A node with all results of the whole but, unless `first`, the first one, for which a
        further node is to come. Returns its results; what the whole lacks is made."""
        outputs = list(self.node.outputs)
        like = next(tensor for tensor in inputs if tensor is not None)
        if not first:
            outputs[0] = self.editor.tensor((), like=like)
        node = self.editor.node(op, inputs, outputs, [self.node], **attributes)
        view = Graph(self.editor.tensors, (), (), ())
        shapes = ops.rows()[op].shapes(view, node)
        outputs += [self.editor.tensor((), like=like) for _ in shapes[len(outputs) :]]
        self.nodes.append(replace(node, outputs=tuple(outputs)))
        for tensor, shape in zip(outputs, shapes, strict=True):
            self.editor.reshaped(tensor, tuple(shape))
        return tuple(outputs)

    def reshape(self, tensor: int, shape: Iterable[int]) -> int:
        return self.add("reshape", tensor, None, shape=tuple(shape))

    def _put(
        self, op: str, inputs: Iterable[int | None], made: int, attributes: dict[str, Any]
    ) -> None:
        node = self.editor.node(op, inputs, (made,), [self.node], **attributes)
        self.nodes.append(node)
        view = Graph(self.editor.tensors, (), (), ())
        (shape,) = ops.rows()[op].shapes(view, node)
        self.editor.reshaped(made, tuple(shape))


def lower_expanded(low: Lowering, node: Node) -> None:
    """In place of a lowering: such a node never gets there."""
    raise Refused(node.id, f"{node.op} was not expanded before it was lowered; please report it.")
