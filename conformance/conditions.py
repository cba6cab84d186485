"""Applies the conditions of rows to handwritten nodes."""

from __future__ import annotations

from tflgpu_plugin.importer import row_conditions, support
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.imported import Table
from tflgpu_plugin.importer.model import HostNode, Value
from tflgpu_plugin.importer.tensors import Tensors
from tflgpu_plugin.ir import Graph, HostOp, Node, Refusal, Target


def seen(graph: Graph, node: Node) -> Builder:
    """Returns a node of our op in the form in which its row's conditions read it, with inputs in
    the order of the row."""
    assert isinstance(node.row, HostOp)
    keys = [None if t is None else str(t) for t in node.inputs]
    results = tuple(map(str, node.outputs))
    host = HostNode(
        node.id, node.host_op, "", node.version, node.name, tuple(keys), results,
        attributes=node.attributes,
    )  # fmt: skip
    values = {
        str(t): Value(tensor.name, tensor.dtype, tensor.shape, quantization=tensor.quantization)
        for t, tensor in graph.tensors.items()
    }
    return Builder(host, node.row, Tensors(dict(graph.tensors)), node.inputs, Table({}), values)


def by_row(graph: Graph, node: Node) -> Refusal | None:
    """Returns why a node does not meet the roles of its operands or its row's conditions; None if
    it meets them."""
    assert isinstance(node.row, HostOp)
    return row_conditions.unmet((*row_conditions.BY_ROLES, *node.row.conditions), seen(graph, node))


def refusal(graph: Graph, node: Node, target: Target, edition: str = "all") -> Refusal | None:
    """Returns why a node of our op cannot run: its row has no such version, or the judge refuses
    it."""
    own = row_conditions.version(seen(graph, node)) if node.row is not None else None
    return own or support.support(graph, node, target, edition)
