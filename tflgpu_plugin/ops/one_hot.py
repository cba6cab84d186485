"""`one_hot(indices, depth constant, on, off): axis, wraps` inserts an axis of `depth` elements
before `axis` of the indices (-1: last): `on` at the index, `off` elsewhere. With `wraps` negative
indices count from the end; an index out of range gives only `off`."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, NotConstant, Refusal, Shape, Target
from tflgpu_plugin.ir.symbolic import integer
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.movement import ANY
from tflgpu_plugin.ops.pick import refuse_indices
from tflgpu_plugin.ops.table import Op, unplanned
from tflgpu_plugin.ops.views import axis_of


def _axis(graph: Graph, node: Node) -> int:
    return axis_of(node.attributes["axis"], len(graph.shape(node.operand())) + 1)


def shapes(graph: Graph, node: Node) -> list[Shape]:
    shape, depth = graph.shape(node.operand()), graph.constant(node.inputs[1])
    if depth is None or depth.size != 1 or depth.reshape(-1)[0] < 0:
        raise NotConstant("the depth must be one constant number, not negative")
    axis = _axis(graph, node)
    return [(*shape[:axis], integer(depth.reshape(-1)[0]), *shape[axis:])]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires a constant depth; one value for on and one for off."""
    if found := unplanned(node.op, shapes, graph, node):
        return found
    if any(prod(graph.shape(node.operand(k))) != 1 for k in (2, 3)):
        return Refusal("shape.mismatch", "one_hot takes one value for on and one for off.")
    return refuse_indices(graph, node, 0)


def decompose(steps: Decomposition, node: Node) -> bool:
    """Compares the indices with the numbers 0 to depth - 1 along the new axis."""
    (shape,), axis = shapes(steps.graph, node), _axis(steps.graph, node)
    outer, depth, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    indices = steps.reshape(node.operand(), (outer, 1, inner))
    found = steps.typed("bool", "equal", indices, steps.column(0, depth))
    if node.attributes.get("wraps"):
        below = steps.typed("bool", "equal", indices, steps.column(-depth, depth))
        found = steps.typed("bool", "logical_or", found, below)
    on, off = (steps.reshape(node.operand(k), (1,)) for k in (2, 3))
    there = steps.reshape(found, shape)
    steps.last("where", there, on, off)
    return True


ATTRIBUTES = "axis! wraps"
OPS = (
    Op("one_hot", refuse, shapes, lower_decomposed, "exact", types=ANY,
       kind="composite", operands="xxxx", decompose=decompose, same_quantization=True),
)  # fmt: skip
