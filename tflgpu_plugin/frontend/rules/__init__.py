"""What keeps nodes off the GPU because of others: an ordered list of rules over a whole graph.

A rule is given a graph and why nodes of it cannot run here, by their ids, and returns the same of
further nodes. Its docstring is on the page of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tflgpu_plugin.frontend.rules import (
    folded_constants,
    host_nodes,
    integer_products,
    pooling_indices,
    quantized_groups,
    states,
    unwritten_constants,
    variables,
)
from tflgpu_plugin.ir.graph import Graph

Refusals = Mapping[int, str]
Rule = Callable[[Graph, Refusals], dict[int, str]]

RULES: tuple[Rule, ...] = (
    variables.rule,
    states.rule,
    host_nodes.rule,
    unwritten_constants.rule,
    integer_products.rule,
    pooling_indices.rule,
    quantized_groups.rule,
    folded_constants.rule,
)


def closed(graph: Graph, refused: Refusals) -> dict[int, str]:
    """Also all that cannot run here without these nodes: the rules, until none finds any more."""
    found = dict(refused)
    while True:
        before = len(found)
        for rule in RULES:
            for node, reason in rule(graph, found).items():
                found.setdefault(node, reason)
        if len(found) == before:
            return found
