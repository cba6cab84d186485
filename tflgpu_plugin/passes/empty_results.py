"""Removes nodes whose results have no elements, and empty operands of concatenations."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node


def drop_empty_results(graph: Graph) -> Graph:
    """Removes nodes whose results have no elements. Empty inputs and outputs of the graph stay, but
    no node reads or makes them."""
    if all(0 not in tensor.shape for tensor in graph.tensors.values()):
        return graph
    nodes = [_without_empty_parts(graph, node) for node in graph.nodes if not idle(graph, node)]
    return graph.with_nodes(nodes)


def idle(graph: Graph, node: Node) -> bool:
    """Whether all results of a node have no elements, and no state depends on the node."""
    op = ops.rows().get(node.op)
    if op is None or op.states or not node.outputs:
        return False
    return all(0 in graph.shape(tensor) for tensor in node.outputs)


def _without_empty_parts(graph: Graph, node: Node) -> Node:
    if not ops.traits(node.op).joins:
        return node
    parts = tuple(t for t in node.inputs if t is not None and 0 not in graph.shape(t))
    return replace(node, inputs=parts)
