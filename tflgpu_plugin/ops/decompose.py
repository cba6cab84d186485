"""Ops that are made of other ops: `Op.decompose` lists the nodes that stand for one, before
lowering.

Its argument, a `Decomposition`, adds nodes and works out their shapes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import COMPLEX, Array, Editor, Graph, Node, Shape, paired, quantized
from tflgpu_plugin.ops.lowering import Lowering


class Decomposition:
    """Nodes that replace one node, in order. Tensors are ids of the edited graph."""

    def __init__(self, editor: Editor, node: Node) -> None:
        self.editor, self.node = editor, node
        self.nodes: list[Node] = []

    @property
    def graph(self) -> Graph:
        """The tensors so far, for functions that ask a graph for shapes and constants."""
        return self.editor.now

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

    def add(self, op: str, *inputs: int | None, **attributes: Any) -> int:
        """A further node; returns its result."""
        first = next(tensor for tensor in inputs if tensor is not None)
        made = self.editor.tensor((), like=first)
        if not ops.rows()[op].keeps:
            self._real(made)
        self.put(made, op, *inputs, **attributes)
        return made

    def typed(self, dtype: str, op: str, *inputs: int) -> int:
        """A further node whose result is of plain numbers of this type."""
        made = self.editor.tensor((), like=inputs[0])
        model = self.editor.tensors[made]
        self.editor.tensors[made] = replace(model, dtype=dtype, quantization=None)
        self.put(made, op, *inputs)
        return made

    def _real(self, tensor: int) -> None:
        """Marks an intermediate tensor as real: not quantized like the operand, and not rounded."""
        model = replace(self.editor.tensors[tensor], wide=True)
        if quantized(model):
            model = replace(model, dtype="f32", quantization=None)
        self.editor.tensors[tensor] = model

    def last(self, op: str, *inputs: int | None, **attributes: Any) -> None:
        """The node whose result is that of the whole."""
        self.put(self.node.outputs[0], op, *inputs, **attributes)

    def put(self, made: int, op: str, *inputs: int | None, **attributes: Any) -> None:
        """The node that makes this tensor, for example one of the results of the whole."""
        self.nodes.append(self.editor.node(op, inputs, (made,), [self.node], **attributes))
        (shape,) = ops.rows()[op].shapes(self.graph, self.nodes[-1])
        self.editor.reshaped(made, tuple(shape))

    def many(
        self, op: str, *inputs: int | None, outputs: Iterable[int | None], **attributes: Any
    ) -> tuple[int, ...]:
        """A node with several results: these tensors, and new ones (None, and at the end) like the
        results of the whole. Returns all."""
        whole, given = self.node.outputs, list(outputs)
        node = self.editor.node(op, inputs, (), [self.node], **attributes)
        shapes = ops.rows()[op].shapes(self.graph, node)
        given += [None] * (len(shapes) - len(given))
        made = tuple(
            self.editor.tensor((), like=whole[min(k, len(whole) - 1)]) if tensor is None else tensor
            for k, tensor in enumerate(given)
        )
        self.nodes.append(replace(node, outputs=made))
        for tensor, shape in zip(made, shapes, strict=True):
            self.editor.reshaped(tensor, tuple(shape))
        return made

    def pairs(self, tensor: int) -> int:
        """The tensor, whose complex numbers are float32 pairs on a further axis from now on."""
        held = self.editor.tensors[tensor]
        if held.dtype == COMPLEX:
            self.editor.tensors[tensor] = replace(paired(held), wide=True)
        return tensor

    def reshape(self, tensor: int, shape: Iterable[int]) -> int:
        return self.add("reshape", tensor, None, shape=tuple(shape))


def lower_decomposed(low: Lowering, node: Node) -> None:
    """In place of a lowering: such a node never gets there."""
    raise Unsupported.of(
        "defect", f"{node.op} was not expanded before it was lowered; please report it.", node.id
    )
