"""Replaces activations that limit values by one clip step with limits in the uniform block, so that
nodes that differ in nothing else share a pipeline: compiling pipelines of convolutions dominates
the start."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tflgpu_plugin import ops
from tflgpu_plugin.ir import EpilogueOp, Graph, Node


def unify_activations(graph: Graph) -> Graph:
    """Replaces different activations that limit values by clip steps, so that layers share
    pipelines. Results stay bit-identical: a clip step keeps NaN, as these activations do."""
    nodes = graph.nodes
    for op in {node.op: None for node in nodes if ops.weights(node)}:
        forms = {_form(node) for node in nodes if node.op == op and _bias_first(node)}
        if len(forms) > 1:
            nodes = tuple(_limited(node) if node.op == op else node for node in nodes)
    return graph.with_nodes(nodes)


def _bias_first(node: Node) -> bool:
    """Whether an epilogue is a bias followed by at most one activation that limits values."""
    first, *rest = node.epilogue or (EpilogueOp(""),)
    cut = not rest or ops.traits(_form(node)).limits is not None
    return first.op == "add" and first.tensor is not None and cut


def _form(node: Node) -> str:
    return node.epilogue[1].op if len(node.epilogue) == 2 else ""


def _limited(node: Node) -> Node:
    if not _bias_first(node):
        return node
    low, high = ops.traits(_form(node)).limits or (-inf, inf)
    return replace(node, epilogue=(node.epilogue[0], EpilogueOp("clip", None, (low, high))))
