"""Evaluates a graph in float64."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

import numpy as np

from conformance.evaluation import nodes as meanings
from conformance.evaluation.numbers import of_data, typed
from tflgpu_plugin.ir import FOLDED, Array, Graph, Node, Tensor
from tflgpu_plugin.passes.common_subexpressions import attributes_key
from tflgpu_plugin.passes.decompose import decompose

Values = Mapping[int, Array]
Meanings = Mapping[str, Callable[[Node, list[Array | None]], Array]]


MAX_KEPT = 1 << 29  # bytes of results


class Memo:
    """Caches the results of nodes, for other forms of the same graph and the same values."""

    def __init__(self) -> None:
        self.found: dict[Hashable, list[Array]] = {}
        self.kept: list[object] = []  # whose ids are in keys
        self.bytes = 0

    def constant(self, held: Tensor) -> Array:
        """Returns the value of a constant."""
        key = id(held.data), held.dtype, held.quantization
        if key not in self.found:
            self.put(key, [of_data(held)], held.data)
        return self.found[key][0] if key in self.found else of_data(held)

    def put(self, key: Hashable, results: list[Array], *kept: object) -> None:
        """Stores results, and the objects whose ids are in their key."""
        self.bytes += sum(result.nbytes for result in results)
        if self.bytes <= MAX_KEPT:
            self.found[key] = results
            self.kept += [*results, *kept]


def evaluate(
    graph: Graph, fed: Values, more: Meanings | None = None, memo: Memo | None = None
) -> dict[int, Array]:
    """Returns the values of outputs and of the sources of states, by tensor id, except a host's
    scratch memory, for values of inputs and states (the real ones that stored numbers represent).
    `more` are meanings of ops that have no row. Raises `meanings.NoMeaning`."""
    known, memo = dict(fed), memo or Memo()
    read = {t for node in graph.nodes for t in node.reads} | graph.needed()
    constants = {
        t: held for t, held in graph.tensors.items() if held.data is not None and t in read
    }
    known |= {t: memo.constant(held) for t, held in constants.items()}
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
            elif node.op not in ("", FOLDED):
                known |= _memorized(graph, node, known, memo)
            for tensor in left.get(place, ()):
                known.pop(tensor, None)
    absent = {t for node in graph.nodes for t in _not_made(node)}
    return {t: known[t] for t in graph.needed() if t in known or t not in absent}


def _not_made(node: Node) -> tuple[int, ...]:
    """Returns those results of a node that an evaluation does not compute."""
    if node.op in ("", FOLDED):
        return node.outputs
    return node.outputs[meanings.COMPUTED.get(node.op, len(node.outputs)) :]


def _memorized(graph: Graph, node: Node, known: Values, memo: Memo) -> dict[int, Array]:
    """Returns the results of a node, from those of an equal one where there was one."""
    given = [known.get(t) if t is not None else None for t in node.inputs]
    steps = [(each.op, each.parameters, id(known.get(each.tensor or 0))) for each in node.epilogue]
    tensors = [graph.tensors[t] for t in (*node.inputs, *node.outputs) if t is not None]
    held = [(t.shape, t.dtype, t.quantization) for t in tensors]
    values = tuple(id(value) for value in given)
    key = node.op, attributes_key(node), values, tuple(steps), tuple(held)
    if key in memo.found:
        return dict(zip(node.outputs, memo.found[key], strict=False))
    made = run_node(graph, node, known)
    operands = [known.get(each.tensor or 0) for each in node.epilogue]
    memo.put(key, [made[t] for t in node.outputs if t in made], *given, *operands)
    return made


def _last_reads(graph: Graph) -> dict[int, list[int]]:
    """Returns, for each index of a node, the tensors that no later node reads, so that their memory
    can be freed."""
    last = {t: k for k, node in enumerate(graph.nodes) for t in node.reads}
    found: dict[int, list[int]] = {}
    for tensor in last.keys() - graph.needed():
        found.setdefault(last[tensor], []).append(tensor)
    return found


def run_node(graph: Graph, node: Node, known: Values) -> dict[int, Array]:
    """Returns the results of a node, by tensor id."""
    if node.op in meanings.BY_DECOMPOSITION:
        return _by_parts(graph, node, known)
    given = [None if t is None else known[t] for t in node.inputs]
    bias = meanings.bias_of(graph, node)
    if bias is not None:
        given[meanings.bias_place(node)] = bias
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
    """Evaluates a node through its decomposition."""
    kept = {t for t in (*node.reads, *node.outputs)}
    tensors = {t: graph.tensors[t] for t in kept}
    given = tuple(t for t in node.reads if tensors[t].data is None)
    part = decompose(Graph(tensors, (node,), given, node.outputs, ids=graph.ids))
    if any(each.op == node.op for each in part.nodes):
        raise meanings.NoMeaning(node.op)
    return evaluate(part, {t: known[t] for t in given})
