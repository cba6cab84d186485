"""Replaces ops that are defined by other ops with those ops (`Op.decompose`)."""

from __future__ import annotations

from tflgpu_plugin import ops
from tflgpu_plugin.errors import blaming
from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.passes.rewriter import Rewriter


def decompose(graph: Graph) -> Graph:
    """Replaces ops that are defined by other ops with those (`Op.decompose`) until none is left."""
    if not any(ops.rows()[node.op].decompose for node in graph.nodes):
        return graph
    e = Rewriter(graph)
    waiting, done = list(reversed(graph.nodes)), list[Node]()
    while waiting:
        node = waiting.pop()
        if (rule := ops.rows()[node.op].decompose) is None:
            done.append(node)
            continue
        steps = Decomposition(e, node)
        with blaming(node):
            expanded = rule(steps, node)
        if expanded:
            waiting += reversed(steps.nodes)
        else:
            done.append(node)
    e.nodes = done
    return e.finish()
