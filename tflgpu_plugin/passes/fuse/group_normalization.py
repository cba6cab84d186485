"""Replaces group normalization as exporters write it, an instance normalization of a tensor
reshaped to [batch, values, groups] and back, by one op on the original tensor."""

from __future__ import annotations

from itertools import islice
from math import prod

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.axes import Axis
from tflgpu_plugin.ops.normalization import groups_pay
from tflgpu_plugin.ops.views import View, row_strides, through, transposed
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Perm, Rewriter


def fuse_group_normalization(graph: Graph) -> Graph:
    """Replaces an instance normalization of reshaped groups by a group normalization."""
    if not any(node.op == "instance_normalization" for node in graph.nodes):
        return graph
    e = Rewriter(graph)
    uses = DefUse(e)
    for node in graph.nodes:
        if node.op == "instance_normalization" and not node.epilogue and uses.plain(node):
            _replace(uses, node)
    if e.nodes == list(graph.nodes):
        return graph
    e.drop_unused()
    return e.finish()


def _replace(uses: DefUse, node: Node) -> None:
    e = uses.e
    shape = e.shape(node.operand())
    if len(shape) != 3 or not _bare(e, node):
        return
    for tensor, turned in _tensors(uses, node.operand(), shape[2]):
        given = e.shape(tensor)
        given = (given[0], *given[2:], given[1]) if turned else given
        first = (0, len(given) - 1, *range(1, len(given) - 1))  # channels first
        wanted = transposed(given, first)
        last = _back(uses, node, _grouped(given, shape[2]), wanted)
        if last is not None and groups_pay(given, shape[2]):
            _put(e, node, last, tensor, turned, given, first)
            return


def _put(
    e: Rewriter, node: Node, last: Node, tensor: int, turned: bool, given: Shape, first: Perm
) -> None:
    """Replaces the last node of a match by the op, on a tensor with channels last, followed by a
    transpose to the original layout. If `turned`, the original tensor has its channels first, so it
    is transposed before the op, too."""
    attributes = {"groups": e.shape(node.operand())[2]}
    attributes["epsilon"] = node.attributes.get("epsilon", 1e-5)
    made, nodes = e.tensor(given, like=node.outputs[0]), list[Node]()
    if turned:
        source, tensor = tensor, e.tensor(given, like=tensor)
        perm = (0, *range(2, len(given)), 1)
        nodes.append(e.node("transpose", (source,), (tensor,), [node], perm=perm))
    nodes += [
        e.node("standardize_groups", (tensor,), (made,), [node, last], **attributes),
        e.node("transpose", (made,), last.outputs, [last], perm=first),
    ]
    e.put(nodes, last)


def _tensors(uses: DefUse, tensor: int, groups: int) -> list[tuple[int, bool]]:
    """Returns the tensors that the op could normalize, each with whether its channels come first.
    Tensors with channels last, which need no transpose, precede the others; earlier tensors precede
    later ones."""
    last, first = list[int](), list[int]()
    for source, view, _ in islice(uses.sources(tensor), 1, None):
        given = uses.e.shape(source)
        if len(given) > 2 and view.key == _grouped(given, groups).key:
            last.append(source)
        elif len(given) > 2 and given[1] > groups and view.key == _grouped(given, groups, 1).key:
            first.append(source)
    return [*((t, False) for t in last[::-1]), *((t, True) for t in first[::-1])]


def _bare(e: Rewriter, node: Node) -> bool:
    """Whether a normalization has no scale and bias, or only ones and zeros."""
    scale, bias = (*node.inputs[1:], None, None)[:2]
    kept = [(scale, 1), (bias, 0)]
    found = [(e.data(tensor), value) for tensor, value in kept if tensor is not None]
    return all(data is not None and bool(np.all(data == value)) for data, value in found)


def _grouped(shape: Shape, groups: int, at: int = -1) -> View:
    """Returns the view of [batch, ..., channels], or of a tensor with channels on axis `at`, as
    [batch, values of a group, groups]. The values of a group are in the order of its channels."""
    batch, *values = map(Axis, shape, row_strides(shape))
    lane = values.pop(at if at < 0 else at - 1)
    each = lane.extent // groups if lane.extent % groups == 0 else 0
    axes = (batch, Axis(each, lane.stride), *values, Axis(groups, each * lane.stride))
    return View((batch.extent, each * prod(axis.extent for axis in values), groups), axes)


def _back(uses: DefUse, node: Node, view: View, wanted: View) -> Node | None:
    """Follows the nodes after `node` that only move data. The result of `node` is `view` of a
    tensor; returns the node whose result is the `wanted` view of the same tensor."""
    while (reader := uses.reader(node.outputs[0])) is not None:
        further = through(view, uses.e.view(reader))
        if further is None:
            return None
        node, view = reader, further
        if view.key == wanted.key:
            return node
    return None
