"""Padding with a constant value, before and after any axis, ranks 0 to 5."""

from __future__ import annotations

from tflgpu_plugin.graph import Array, Graph, Node, Shape
from tflgpu_plugin.lowering import Lowering
from tflgpu_plugin.ops import Op
from tflgpu_plugin.ops.movement import MAX_AXES, Axis, empty_refusal, move
from tflgpu_plugin.target import Target


def paddings(graph: Graph, node: Node) -> Array | None:
    """[rank, 2]: elements added before and after each axis; None when they are not constant."""
    value = graph.constant(node.inputs[1])
    return None if value is None else value.reshape(-1, 2)


def pad_value(graph: Graph, node: Node) -> float | None:
    """The value of added elements (0 without input 2); None when it is not constant."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return 0.0
    value = graph.constant(node.inputs[2])
    return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


def shapes(graph: Graph, node: Node) -> list[Shape]:
    assert node.inputs[0] is not None
    shape, added = graph.shape(node.inputs[0]), paddings(graph, node)
    if added is None:
        raise ValueError("the paddings are computed at run time; make them a constant")
    if len(added) != len(shape):
        raise ValueError(f"paddings for {len(added)} axes do not fit a tensor of rank {len(shape)}")
    return [tuple(int(e + b + a) for e, (b, a) in zip(shape, added, strict=True))]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Constant, non-negative paddings and a constant value; up to 5 axes."""
    try:
        (shape,) = shapes(graph, node)
    except ValueError as error:
        return f"Padding cannot be planned: {error}."
    added = paddings(graph, node)
    if added is not None and added.size and added.min() < 0:
        return "Paddings must not be negative; cut the tensor with a slice instead."
    if len(shape) > MAX_AXES:
        return f"Padding takes rank {MAX_AXES} at most, not {len(shape)}; reshape the tensor."
    if pad_value(graph, node) is None:
        return "The pad value must be a constant with one element."
    assert node.inputs[0] is not None
    return empty_refusal(graph, node, graph.shape(node.inputs[0]))


def lower(low: Lowering, node: Node) -> None:
    assert node.inputs[0] is not None
    shape, target = low.graph.shape(node.inputs[0]), low.graph.shape(node.outputs[0])
    added, value = paddings(low.graph, node), pad_value(low.graph, node)
    assert added is not None and value is not None
    before = [int(first) for first, _ in added]
    if shape == target and not node.posts:
        low.alias(node.outputs[0], node.inputs[0])
        return
    axes = [Axis(target[k], k, start=-b, low=b, high=b + shape[k]) for k, b in enumerate(before)]
    move(low, node, axes, value=value)


OPS = (Op("pad", refuse, shapes, lower, "exact", fuses=True),)
