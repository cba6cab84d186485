"""`transpose(x): perm`, where axis k of the result is axis perm[k] of x (negative: from the end);
and `view(x): view`, any movement of elements that a pass has composed (see `ops.views`)."""

from __future__ import annotations

from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops.movement import moving
from tflgpu_plugin.ops.views import View, transposed


def order(graph: Graph, node: Node) -> tuple[int, ...]:
    """Returns the permutation, from 0. Raises ValueError if it is not one of this rank."""
    rank = len(graph.shape(node.operand()))
    given = [int(axis) for axis in node.attributes["perm"]]
    perm = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(perm) != list(range(rank)):
        raise ValueError(f"perm {given} does not order the axes of a tensor of rank {rank}")
    return perm


def views(graph: Graph, node: Node) -> list[View]:
    return [transposed(graph.shape(node.operand()), order(graph, node))]


ATTRIBUTES = {"transpose": "perm[]!"}
OPS = (
    moving(
        "transpose",
        views,
        "A permutation of up to 8 axes.",
        fuses=True,
        arranges="order",
        operands="x?",
    ),
    moving(
        "view",
        lambda graph, node: [node.attributes["view"]],
        "A view.",
        fuses=True,
    ),
)
