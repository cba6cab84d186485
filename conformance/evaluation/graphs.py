"""A graph, evaluated in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from conformance.evaluation import nodes as meanings
from conformance.evaluation.numbers import of_data, typed
from tflgpu_plugin.ir.graph import FOLDED, Array, Graph, Node
from tflgpu_plugin.ops.table import BIAS
from tflgpu_plugin.passes.decompose import decompose

Values = Mapping[int, Array]
Meanings = Mapping[str, Callable[[Node, list[Array | None]], Array]]


def evaluate(graph: Graph, fed: Values, more: Meanings | None = None) -> dict[int, Array]:
    """The values of outputs and of the sources of states, by tensor id, for those of inputs and
    states (numbers that stored ones stand for). `more` are meanings of ops that have no row. Raises
    `meanings.NoMeaning`."""
    known = dict(fed)
    known |= {t: of_data(held) for t, held in graph.tensors.items() if held.data is not None}
    known |= {
        t: typed(np.zeros(held.shape), held)
        for t, held in graph.tensors.items()
        if 0 in held.shape and t not in known
    }
    left = _last_reads(graph)
    with np.errstate(all="ignore"):
        for place, node in enumerate(graph.nodes):
            if more and node.op in more:
                given = [None if t is None else known[t] for t in node.inputs]
                known[node.outputs[0]] = more[node.op](node, given)
            elif node.op != FOLDED and node.refusal is None:
                known |= run_node(graph, node, known)
            for tensor in left.get(place, ()):
                known.pop(tensor, None)
    return {t: known[t] for t in graph.needed()}


def _last_reads(graph: Graph) -> dict[int, list[int]]:
    """Tensors that nothing reads after the node at a place: their memory is wanted."""
    last = {t: k for k, node in enumerate(graph.nodes) for t in node.reads}
    found: dict[int, list[int]] = {}
    for tensor in last.keys() - graph.needed():
        found.setdefault(last[tensor], []).append(tensor)
    return found


def run_node(graph: Graph, node: Node, known: Values) -> dict[int, Array]:
    """The results of a node, by tensor id."""
    if node.op in meanings.BY_DECOMPOSITION:
        return _by_parts(graph, node, known)
    given = [None if t is None else known[t] for t in node.inputs]
    bias = meanings.bias_of(graph, node)
    if bias is not None:
        given[BIAS] = bias
    results = meanings.run(graph, node, given)
    found = dict(zip(node.outputs, results, strict=False))
    first = node.outputs[0]
    for tensor, value in found.items():
        steps = node if tensor == first else replace(node, epilogue=(), outputs=(tensor,))
        made = meanings.finished(graph, steps, np.asarray(value), known)
        if made.shape != graph.shape(tensor):
            raise ValueError(f"{node.op} makes {made.shape}, not {graph.shape(tensor)}")
        found[tensor] = made
    return found


def _by_parts(graph: Graph, node: Node, known: Values) -> dict[int, Array]:
    """Of a node that is made of others."""
    kept = {t for t in (*node.reads, *node.outputs)}
    tensors = {t: graph.tensors[t] for t in kept}
    given = tuple(t for t in node.reads if tensors[t].data is None)
    part = decompose(Graph(tensors, (node,), given, node.outputs, ids=graph.ids))
    if any(each.op == node.op for each in part.nodes):
        raise meanings.NoMeaning(node.op)
    return evaluate(part, {t: known[t] for t in given})
