"""Reshape (also squeeze and expand_dims): the same elements in row-major order. The shape is input
1, or one of the attributes `shape` (both may contain one -1), `squeeze` (axes of extent 1 to
remove; none: all of them) and `expand` (an axis of extent 1 to add)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tflgpu_plugin.ir import COMPLEX, Graph, Node, NotConstant, Shape, ShapeError
from tflgpu_plugin.ir.symbolic import integer, larger
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.movement import ANY, moving
from tflgpu_plugin.ops.views import View, identity


def requested(graph: Graph, node: Node) -> Shape | None:
    """Returns the requested shape, in which -1 may occur; None if it is not constant."""
    if "squeeze" in node.attributes:
        return squeezed(graph.shape(node.operand()), node.attributes["squeeze"])
    if "expand" in node.attributes:
        return expanded(graph.shape(node.operand()), node.attributes["expand"])
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        value = graph.constant(node.inputs[1])
        return None if value is None else tuple(map(integer, value.reshape(-1)))
    return tuple(map(integer, node.attributes["shape"]))


def squeezed(shape: Shape, axes: Sequence[int]) -> Shape:
    """Returns `shape` without these axes (negative: from the end). Raises ValueError if one does
    not have extent 1."""
    removed = {axis % len(shape) if shape else 0 for axis in axes}
    if any(not -len(shape) <= axis < len(shape) or shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {list(axes)} of shape {list(shape)} are not all of extent 1")
    return tuple(e for k, e in enumerate(shape) if k not in removed and (axes or e != 1))


def expanded(shape: Shape, axis: int) -> Shape:
    """Returns `shape` with one more axis (negative: from the end). Raises ValueError if it is out
    of range."""
    if not -len(shape) - 1 <= axis <= len(shape):
        raise ValueError(f"there is no axis {axis} to add to shape {list(shape)}")
    at = axis % (len(shape) + 1)
    return (*shape[:at], 1, *shape[at:])


def resolve(wanted: Shape, count: int) -> Shape:
    """Returns `wanted` with -1 replaced so that the shape has `count` elements. Raises ValueError
    if that is impossible, ShapeError if because of the count."""
    free = [axis for axis, extent in enumerate(wanted) if extent == -1]
    known = prod(extent for extent in wanted if extent != -1)
    if len(free) > 1 or any(extent < -1 for extent in wanted):
        raise ValueError(
            f"shape {list(wanted)} may hold one -1 and otherwise extents of at least 0"
        )
    shape = tuple(count // larger(known, 1) if extent == -1 else extent for extent in wanted)
    if prod(shape) != count:
        raise ShapeError(f"{count} elements do not fit shape {list(wanted)}")
    return shape


def views(graph: Graph, node: Node) -> list[View]:
    wanted = requested(graph, node)
    if wanted is None:
        raise NotConstant("the new shape is computed at run time; make it a constant")
    return [identity(resolve(wanted, prod(graph.shape(node.operand()))))]


def decompose(steps: Decomposition, node: Node) -> bool:
    """Reshapes complex tensors as pairs, which keep their axis."""
    out = node.outputs[0]
    if steps.graph.tensors[out].dtype != COMPLEX:
        return False
    shape = steps.shape(steps.pairs(out))
    steps.last("reshape", steps.pairs(node.operand()), None, shape=shape)
    return True


ATTRIBUTES = "shape[]~ squeeze[]~ expand~"
OPS = (
    moving(
        "reshape",
        views,
        "A shape that is known when the model is prepared.",
        types=(*ANY, COMPLEX),
        decompose=decompose,
        arranges="shape",
        operands="x?",
    ),
)
