"""Elementwise ops of two operands with numpy broadcasting. One more op is one more row in `OPS`."""

from __future__ import annotations

from functools import partial

from tflgpu_plugin.graph import Graph, Node, Shape
from tflgpu_plugin.kernels import POSTS
from tflgpu_plugin.lowering import Lowering
from tflgpu_plugin.ops import Op
from tflgpu_plugin.ops.elementwise import broadcast, broadcast_refusal, lower_pair
from tflgpu_plugin.target import Target

ACTIVATIONS = ("relu", "relu_n1_to_1", "relu6", "tanh")


def shapes(graph: Graph, node: Node) -> list[Shape]:
    first, second = node.inputs[:2]
    assert first is not None and second is not None
    return [broadcast(graph.shape(first), graph.shape(second))]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Shapes that broadcast together; up to rank 5 unless nothing but a value is spread."""
    activation = node.attributes.get("activation", "none")
    if activation not in ("none", *ACTIVATIONS):
        known = ", ".join(ACTIVATIONS)
        return f"The fused activation {activation} is not supported; use one of {known}."
    return broadcast_refusal(graph, node)


def row(name: str, expression: str | None = None, types: tuple[str, ...] = ("f32",)) -> Op:
    """An op from its WGSL for vec4 `v` and `e`, the operands; default: the step of that name."""
    lower = partial(_lower, expression=expression or POSTS[name])
    return Op(name, refuse, shapes, lower, "elementwise", types=types, fuses=True)


def _lower(low: Lowering, node: Node, expression: str) -> None:
    lower_pair(low, node, expression)


OPS = (
    row("add"),
    row("sub"),
    row("mul"),
    row("maximum"),
    row("minimum"),
    row("logical_and", "v * e", types=("bool",)),  # stored as 0.0 and 1.0
)
