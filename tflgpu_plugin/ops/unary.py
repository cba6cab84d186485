"""Elementwise ops of one operand: the fused step of the same name (`kernels.POSTS`) over a copy."""

from __future__ import annotations

from tflgpu_plugin.graph import Graph, Node, Shape
from tflgpu_plugin.kernels import POSTS
from tflgpu_plugin.lowering import Lowering
from tflgpu_plugin.ops import Op
from tflgpu_plugin.ops.movement import empty_refusal, grid
from tflgpu_plugin.target import Target


def shapes(graph: Graph, node: Node) -> list[Shape]:
    assert node.inputs[0] is not None
    return [graph.shape(node.inputs[0])]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Any shape with at least one element."""
    return empty_refusal(graph, node, shapes(graph, node)[0])


def lower(low: Lowering, node: Node) -> None:
    assert node.inputs[0] is not None
    stored = low.geometry(node.outputs[0])
    low.dispatch(
        "unary",
        node,
        {"x": low.stored(node.inputs[0])},
        {"y": node.outputs[0]},
        grid(stored.vectors),
        {"vectors": stored.vectors, "spatial": stored.spatial, "quads": stored.quads},
        {"expression": POSTS[node.op]},
    )


def row(name: str, accuracy: str = "transcendental") -> Op:
    """An op from the fused step of its name."""
    return Op(name, refuse, shapes, lower, accuracy, fuses=True)


OPS = (
    row("relu", "exact"),
    row("relu6", "exact"),
    row("relu_n1_to_1", "exact"),
    row("logistic"),
    row("tanh"),
    row("exp"),
)
