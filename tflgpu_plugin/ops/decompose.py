"""Ops that are replaced by other ops before lowering. `Op.decompose` adds the nodes to its
argument, a `Decomposition`, which infers their shapes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import COMPLEX, Array, Editor, Graph, Node, Shape, paired, quantized
from tflgpu_plugin.ir.symbolic import example, is_symbolic
from tflgpu_plugin.ops.lowering import Lowering

MAX_LISTED = 1 << 11  # least number up to which a symbolic number of integers is listed


class Decomposition:
    """The nodes that replace one node, in order. Tensor ids are those of the edited graph."""

    def __init__(self, editor: Editor, node: Node) -> None:
        self.editor, self.node = editor, node
        self.nodes: list[Node] = []

    @property
    def graph(self) -> Graph:
        """Returns the graph with the tensors so far, for functions that need shapes and
        constants."""
        return self.editor.now

    def shape(self, tensor: int) -> Shape:
        return self.editor.shape(tensor)

    def data(self, tensor: int | None) -> Array | None:
        """Returns the value of a constant, None for any other tensor."""
        return self.editor.data(tensor)

    def indices(self, values: Any) -> int:
        """Returns a new constant of axes, extents and the like."""
        return self.editor.indices(values)

    def column(self, first: int, count: int) -> int:
        """Returns the integers from `first` on as [count, 1]. A symbolic number of them is a slice
        of a longer constant."""
        if not is_symbolic((first, count)):
            return self.indices(np.arange(first, first + count).reshape(-1, 1))
        most = max(2 * example(abs(first) + count), MAX_LISTED)
        start, numbers = self.indices([most + first]), self.indices(np.arange(-most, most))
        return self.reshape(self.add("slice", numbers, start, self.indices([count])), (count, 1))

    def number(self, value: Any) -> int:
        """Returns a new float32 constant."""
        return self.editor.constant(np.asarray(value, np.float32))

    def add(self, op: str, *inputs: int | None, **attributes: Any) -> int:
        """Adds a node and returns its result."""
        first = next(tensor for tensor in inputs if tensor is not None)
        made = self.editor.tensor((), like=first)
        if not ops.rows()[op].keeps:
            self._real(made)
        self.put(made, op, *inputs, **attributes)
        return made

    def typed(self, dtype: str, op: str, *inputs: int, **attributes: Any) -> int:
        """Adds a node whose result has this type without quantization, and returns the result."""
        made = self.editor.tensor((), like=inputs[0])
        model = self.editor.tensors[made]
        self.editor.tensors[made] = replace(model, dtype=dtype, quantization=None)
        self.put(made, op, *inputs, **attributes)
        return made

    def _real(self, tensor: int) -> None:
        """Marks an intermediate tensor as float32: it is neither quantized like the operand, nor
        rounded to float16."""
        model = replace(self.editor.tensors[tensor], keep_f32=True)
        if quantized(model):
            model = replace(model, dtype="f32", quantization=None)
        self.editor.tensors[tensor] = model

    def last(self, op: str, *inputs: int | None, **attributes: Any) -> None:
        """Adds the node that computes the result of the replaced node."""
        self.put(self.node.outputs[0], op, *inputs, **attributes)

    def put(self, made: int, op: str, *inputs: int | None, **attributes: Any) -> None:
        """Adds a node whose result is the tensor `made`, for example one of the replaced node's
        results."""
        self.nodes.append(self.editor.node(op, inputs, (made,), [self.node], **attributes))
        (shape,) = ops.rows()[op].shapes(self.graph, self.nodes[-1])
        self.editor.reshaped(made, tuple(shape))

    def many(
        self, op: str, *inputs: int | None, outputs: Iterable[int | None], **attributes: Any
    ) -> tuple[int, ...]:
        """Adds a node with several results and returns these. `outputs` are existing tensors to use
        as results; a result whose entry is None or missing gets a new tensor, like a result of the
        replaced node."""
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
        """Returns a complex tensor as float32 pairs along an additional last axis."""
        held = self.editor.tensors[tensor]
        if held.dtype == COMPLEX:
            self.editor.tensors[tensor] = replace(paired(held), keep_f32=True)
        return tensor

    def reshape(self, tensor: int, shape: Iterable[int]) -> int:
        return self.add("reshape", tensor, None, shape=tuple(shape))


def lower_decomposed(low: Lowering, node: Node) -> None:
    """Raises Unsupported: a node that has a decomposition must not reach lowering."""
    raise Unsupported.of(
        "defect", f"{node.op} was not expanded before it was lowered; please report it.", node.id
    )
