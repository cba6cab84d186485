"""Padding before and after any axis, ranks 0 to 5, by attribute `mode`: "constant" (default),
"reflect" (the edge is not repeated), "symmetric" (it is), "edge" (its value), "wrap"."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.decompose import Steps
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.movement import MAX_AXES, Axis, move
from tflgpu_plugin.ops.table import MOVED, Op

MODES = ("constant", "reflect", "symmetric", "edge", "wrap")


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
    """Raises ValueError with the end of a sentence, also where nothing mirrors so far."""
    assert node.inputs[0] is not None
    added, mode = paddings(graph, node), node.attributes.get("mode", "constant")
    result = _padded(graph, node)
    if added is not None and mode in MODES[1:]:
        given = graph.shape(node.inputs[0])
        if not _reaches(given, added, mode):
            raise ValueError(f"padding of mode {mode} is wider than the shape {list(given)}")
    return [result]


def _padded(graph: Graph, node: Node) -> Shape:
    assert node.inputs[0] is not None
    shape, added = graph.shape(node.inputs[0]), paddings(graph, node)
    if added is None:
        raise ValueError("the paddings are computed at run time; make them a constant")
    if len(added) != len(shape):
        raise ValueError(f"paddings for {len(added)} axes do not fit a tensor of rank {len(shape)}")
    return tuple(int(e + b + a) for e, (b, a) in zip(shape, added, strict=True))


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Constant, non-negative paddings and a constant value; up to 5 axes."""
    try:
        shape = _padded(graph, node)
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
    given = graph.shape(node.inputs[0])
    mode = node.attributes.get("mode", "constant")
    if mode not in MODES:
        return f"Padding of mode {mode} is not supported; use one of {', '.join(MODES)}."
    if added is not None and mode != "constant" and not _reaches(given, added, mode):
        return f"Padding of mode {mode} is wider than the tensor of shape {list(given)}."
    return None


def _reaches(shape: Shape, added: Array, mode: str) -> bool:
    """Whether one copy of the tensor is enough."""
    less = {"reflect": 1, "symmetric": 0, "wrap": 0, "edge": -(1 << 31)}[mode]
    return all(max(sides) <= extent - less for extent, sides in zip(shape, added, strict=True))


def expand(steps: Steps, node: Node) -> bool:
    """Other modes than a constant pick elements of the tensor."""
    mode = node.attributes.get("mode", "constant")
    if mode == "constant":
        return False
    x, amounts = node.inputs[0], steps.data(node.inputs[1])
    assert x is not None and amounts is not None
    axes = [k for k, sides in enumerate(amounts.reshape(-1, 2)) if sides.any()]
    shape = steps.shape(x)
    picked = [_picked(steps, amounts, shape, axis, mode) for axis in axes]
    if axes:
        steps.last("take", x, *picked, axes=tuple(axes))
    else:
        steps.last("reshape", x, None, shape=shape)
    return True


def _picked(steps: Steps, amounts: Array, shape: Shape, axis: int, mode: str) -> int:
    """The indices of a padded axis."""
    sides = tuple(int(n) for n in amounts.reshape(-1, 2)[axis])
    how = {"reflect": "reflect", "symmetric": "symmetric", "edge": "edge", "wrap": "wrap"}[mode]
    return steps.indices(np.pad(np.arange(shape[axis]), sides, mode=how))  # type: ignore[call-overload]


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


OPS = (
    Op("pad", refuse, shapes, lower, "exact", kind="movement", fuses=True, expand=expand,
       keeps="any", errors=MOVED, follows="amounts"),
)  # fmt: skip
