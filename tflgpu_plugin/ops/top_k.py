"""`top_k(x, k constant): axis, largest` (defaults: the last, true): the k largest (smallest)
elements along an axis, in order, and their indices; of equal elements the first comes first."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from tflgpu_plugin.ir import INT32, Graph, Node, Refusal, Shape, Target, is_integer
from tflgpu_plugin.ir.symbolic import integer
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Access, Kernel, Lowering
from tflgpu_plugin.ops.movement import workgroups
from tflgpu_plugin.ops.table import Errors, Op

MAX_ROW = MAX_LOOP_ROUNDS * WORKGROUP  # elements


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires a constant k of at most the number of elements."""
    shape, k = graph.shape(node.operand()), graph.constant(node.inputs[1])
    if not shape or prod(shape) == 0:
        return Refusal("shape.empty", f"An input of {list(shape)} has no elements to choose from.")
    axis = int(node.attributes.get("axis", -1))
    if not -len(shape) <= axis < len(shape):
        return Refusal(
            "attribute.invalid", f"Axis {axis} is out of range for an input of rank {len(shape)}."
        )
    if k is None or k.size != 1:
        return Refusal(
            "constant.required", "k, the number of elements to select, must be one constant number."
        )
    wanted = integer(k.reshape(-1)[0])
    if not 0 <= wanted <= shape[axis] or wanted > MAX_LOOP_ROUNDS:
        said = f"{wanted} elements cannot be selected from {shape[axis]}."
        return Refusal("constant.invalid", said)
    if shape[axis] > MAX_ROW:
        said = f"Selecting from {shape[axis]:,} elements is over the limit of {MAX_ROW:,}."
        return Refusal("shape.too_large", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of elements and indices: the input's with k elements along the axis."""
    shape, k = list(graph.shape(node.operand())), graph.constant(node.inputs[1])
    assert k is not None
    shape[int(node.attributes.get("axis", -1))] = integer(k.reshape(-1)[0])
    return [tuple(shape)] * 2


def lower(low: Lowering, node: Node) -> None:
    """Records one launch over [rows, elements]."""
    (rows, count), out = low.graph.shape(node.operand()), low.geometry(node.outputs[0])
    together = 8 if count < 256 else WORKGROUP
    largest = bool(node.attributes.get("largest", True))
    held = is_integer(low.graph.tensors[node.operand()])
    worst: object = -inf if largest else inf
    if held:
        worst = np.int32(INT32.min if largest else INT32.max)
    low.loops(node, out.channels * (-(-count // together) + together.bit_length() + 2))
    low.dispatch(
        Kernel(
            "top_k",
            {
                "rows": rows, "count": count, "stride": low.geometry(node.operand()).slices * 4,
                "slices": out.slices, "wanted": out.channels, "lanes": together, "worst": worst,
            },
            {"better": ">" if largest else "<", "whole": held},
        ),
        node,
        {"x": Access(low.stored(node.operand()), 1)},
        {"out": node.outputs[0], "indices": node.outputs[1]},
        workgroups(rows * together),
    )  # fmt: skip


def decompose(steps: Decomposition, node: Node) -> bool:
    """Transposes and reshapes to rows along the last of two axes."""
    shape = steps.shape(node.operand())
    axis = int(node.attributes.get("axis", -1)) % len(shape)
    if len(shape) == 2 and axis == 1:
        return False
    perm = (*(k for k in range(len(shape)) if k != axis), axis)
    moved = steps.add("transpose", node.operand(), perm=perm)
    x = steps.reshape(moved, (prod(shape) // shape[axis], shape[axis]))
    largest = node.attributes.get("largest", True)
    found = steps.many("top_k", x, node.inputs[1], outputs=(), largest=largest)
    back = tuple(sorted(range(len(shape)), key=perm.__getitem__))
    for output, made in zip(node.outputs, found, strict=True):
        there = (*(shape[k] for k in perm[:-1]), steps.shape(made)[1])
        steps.put(output, "transpose", steps.reshape(made, there), perm=back)
    return True


def _work(graph: Graph, node: Node) -> int:
    return prod(graph.shape(node.operand())) * shapes(graph, node)[0][-1]


ATTRIBUTES = "axis largest"
OPS = (
    Op("top_k", refuse, shapes, lower, "exact", types=("f32", "i32"), work=_work, kind="choice",
       decompose=decompose, operands="xx", errors=Errors(choice=1), same_quantization=True),
)  # fmt: skip
