"""The builder of graphs by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import NUMPY_NAMES, Array, Graph, Node, Quantization, Shape, Tensor, verify

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # channels first, and last again
WINDOW = {"strides": (1, 1), "dilations": (1, 1), "padding": "same", "activation": "none"}
MAP = (1, 4, 4, 8)


class Net:
    """A graph under construction; methods return the numbers of tensors. Shapes of results are
    those that the ops tell."""

    first_node = 0

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.random = np.random.default_rng(5)

    def tensor(
        self,
        shape: Shape = (),
        dtype: str = "f32",
        data: Array | None = None,
        quantization: Quantization | None = None,
        name: str = "",
    ) -> int:
        """Returns a tensor that no node writes yet."""
        number = len(self.tensors)
        self.tensors[number] = Tensor(name or f"t{number}", tuple(shape), dtype, data, quantization)
        return number

    def input(
        self, shape: Shape = (), dtype: str = "f32", quantization: Quantization | None = None
    ) -> int:
        self.inputs.append(self.tensor(shape, dtype, None, quantization))
        return self.inputs[-1]

    def constant(
        self, data: Any, dtype: str | None = None, quantization: Quantization | None = None
    ) -> int:
        """Adds a constant of the array's type, or of `dtype`; float32 from doubles."""
        array = np.asarray(data)
        kind = dtype or (NUMPY_NAMES | {"float64": "f32"})[array.dtype.name]
        return self.tensor(array.shape, kind, array, quantization)

    def drawn(self, *shape: int, low: float = -0.5) -> int:
        """Returns a constant whose mean is not 0."""
        return self.constant(self.random.uniform(low, 1, shape).astype(np.float32))

    def ints(self, *values: int) -> int:
        """Returns a constant of axes, extents and the like."""
        return self.constant(np.array(values, np.int32))

    def number(self, value: float) -> int:
        return self.constant(np.float32(value))

    def node(
        self, op: str, inputs: Sequence[int | None], results: Sequence[int], **attributes: Any
    ) -> None:
        """Adds a node that writes these tensors."""
        number = self.first_node + len(self.nodes)
        self.nodes.append(Node(number, op, tuple(inputs), tuple(results), attributes))

    def op(
        self, op: str, *inputs: int | None, made: Tensor | None = None, **attributes: Any
    ) -> int:
        """Adds a node; its result is like `made`, whose shape is inferred."""
        node = Node(0, op, inputs, (len(self.tensors),), attributes)
        (shape, *_) = ops.rows()[op].shapes(Graph.over(self.tensors, node), node)
        like = made or Tensor("", ())
        result = self.tensor(tuple(shape), like.dtype, None, like.quantization)
        self.node(op, inputs, (result,), **attributes)
        return result

    def shape(self, tensor: int) -> Shape:
        return self.tensors[tensor].shape

    def retyped(self, tensor: int, dtype: str) -> int:
        """Returns the tensor, which has this type from now on."""
        self.tensors[tensor] = replace(self.tensors[tensor], dtype=dtype)
        return tensor

    def turn(self, x: int, perm: tuple[int, ...]) -> int:
        return self.op("transpose", x, perm=perm)

    def reshape(self, x: int, *shape: int) -> int:
        return self.op("reshape", x, None, shape=shape)

    def conv(self, x: int, outputs: int = 8, kernel: int = 1, **more: Any) -> int:
        """Adds a convolution with a bias."""
        weights = self.drawn(outputs, kernel, kernel, self.shape(x)[-1])
        return self.op("conv_2d", x, weights, self.drawn(outputs), **WINDOW | more)

    def dense(self, x: int, outputs: int, **more: Any) -> int:
        weights = self.drawn(outputs, self.shape(x)[-1])
        given = {"keep_num_dims": True, "activation": "none"} | more
        return self.op("fully_connected", x, weights, self.drawn(outputs), **given)

    def binary(self, op: str, a: int, b: int, **more: Any) -> int:
        return self.op(op, a, b, **{"activation": "none"} | more)

    def graph(self, *outputs: int, states: tuple[tuple[int, int], ...] = ()) -> Graph:
        graph = Graph(self.tensors, tuple(self.nodes), tuple(self.inputs), outputs, states)
        verify(graph)
        return graph


class ShapedNet(Net):
    """With results of the shapes that the test tells, for nodes that need be no whole ones."""

    first_node = 10

    def input(
        self, shape: Shape = MAP, dtype: str = "f32", quantization: Quantization | None = None
    ) -> int:
        return super().input(shape, dtype, quantization)

    def op(  # type: ignore[override]
        self, op: str, *inputs: int | None, shape: Shape = MAP, **attributes: Any
    ) -> int:
        made = self.tensor(shape)
        self.node(op, inputs, (made,), **attributes)
        return made

    def run(self, op: str, *inputs: int | None, shape: tuple[int, ...], **attributes: Any) -> int:
        return self.op(op, *inputs, shape=shape, **attributes)

    def same(self, op: str, *inputs: int | None, **attributes: Any) -> int:
        """Adds an op whose result has the shape of its first input."""
        assert inputs[0] is not None
        return self.op(op, *inputs, shape=self.shape(inputs[0]), **attributes)

    def turn(self, x: int, perm: tuple[int, ...]) -> int:
        shape = self.shape(x)
        return self.op("transpose", x, shape=tuple(shape[a] for a in perm), perm=perm)

    def reshape(self, x: int, shape: tuple[int, ...]) -> int:  # type: ignore[override]
        made = self.tensor(shape)
        self.node("reshape", (x, self.ints(*shape)), (made,), shape=shape)
        return made

    def conv(self, x: int, shape: Shape = MAP, **attributes: Any) -> int:  # type: ignore[override]
        """Adds a convolution by zeros, 3 by 3, without a bias."""
        weights = self.constant(np.zeros((shape[-1], 3, 3, 8), np.float32))
        given = {"strides": (1, 1), "dilations": (1, 1), "padding": "same", **attributes}
        return self.op("conv_2d", x, weights, None, shape=shape, **given)

    def pool(self, x: int) -> int:
        """Adds a pool in the layout [N, C, H, W], with the transposes that an importer adds."""
        return self.turn(self.same("pool", self.turn(x, LAST)), FIRST)
