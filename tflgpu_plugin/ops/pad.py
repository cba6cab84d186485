"""Padding before and after any axis, by attribute `mode`: "constant" (default),
"reflect" (the edge is not repeated), "symmetric" (it is), "edge" (its value), "wrap"."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape
from tflgpu_plugin.ops.movement import moving
from tflgpu_plugin.ops.views import View, padded, taken

MODES = ("constant", "reflect", "symmetric", "edge", "wrap")
NEEDS = "Constant, non-negative paddings and a constant value."


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


def views(graph: Graph, node: Node) -> list[View]:
    """Raises ValueError with the end of a sentence, also where nothing mirrors so far."""
    shape, added, value = graph.shape(node.operand()), paddings(graph, node), pad_value(graph, node)
    mode = node.attributes.get("mode", "constant")
    if added is None:
        raise ValueError("the paddings are computed at run time; make them a constant")
    if len(added) != len(shape):
        raise ValueError(f"paddings for {len(added)} axes do not fit a tensor of rank {len(shape)}")
    if added.size and added.min() < 0:
        raise ValueError("paddings must not be negative; cut the tensor with a slice instead")
    if value is None:
        raise ValueError("the pad value must be a constant with one element")
    if mode not in MODES:
        raise ValueError(f"mode {mode} is not supported; use one of {', '.join(MODES)}")
    if mode != "constant" and not _reaches(shape, added, mode):
        raise ValueError(f"padding of mode {mode} is wider than the shape {list(shape)}")
    if mode == "constant":
        return [padded(shape, [(int(before), int(after)) for before, after in added], value)]
    picked = {k: np.pad(np.arange(shape[k]), added[k], mode) for k in np.flatnonzero(added.any(1))}
    return [taken(shape, picked)]


def _reaches(shape: Shape, added: Array, mode: str) -> bool:
    """Whether one copy of the tensor is enough."""
    less = {"reflect": 1, "symmetric": 0, "wrap": 0, "edge": -(1 << 31)}[mode]
    return all(max(sides) <= extent - less for extent, sides in zip(shape, added, strict=True))


OPS = (moving("pad", views, NEEDS, types=("f32", "i32"), fuses=True),)
