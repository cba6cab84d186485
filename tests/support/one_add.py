"""Graphs of one ADD, and the decision whether it is supported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tflgpu_plugin.importer.support import support
from tflgpu_plugin.ir import Graph, Node, Quantization, Shape, Target, Tensor
from tflgpu_plugin.providers.tflite import ops

TARGET = Target()
QUANTIZATION = Quantization((0.5,), (3,))


def add(version: int = 1, dtype: str = "f32", shape: Shape = (2, 3), **more: Any) -> Graph:
    """Returns a graph of one ADD of x and y."""
    tensors = {k: Tensor(name, shape, dtype) for k, name in enumerate(("x", "y", "sum"))}
    form = ops.HOST_OPS["ADD"]
    node = Node(0, "add", (0, 1), (2,), {"activation": "none"}, "sum", "ADD", version, form, **more)
    return Graph(tensors, (node,), (0, 1), (2,))


def ask(graph: Graph, target: Target = TARGET, edition: str = "all") -> str | None:
    return support(graph, graph.nodes[0], target, edition)


def quantized(version: int = 2, dtype: str = "i8", op: str = "add", **others: Any) -> Graph:
    """Returns a graph of one node with 8-bit tensors; `others` gives some of them (x, y, sum)
    another quantization."""
    graph = add(version, dtype)
    tensors = {
        k: replace(tensor, quantization=others.get(tensor.name, QUANTIZATION))
        for k, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors, nodes=(replace(graph.nodes[0], op=op),))
