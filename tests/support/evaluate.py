"""Evaluates handwritten graphs in numpy around a pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conformance.evaluation import graphs
from conformance.evaluation.numbers import typed
from tflgpu_plugin.ir import Array, Graph, Node, verify

LEAST = -0.3  # of values that are fed: few are negative, and their mean is not near 0


def evaluate(graph: Graph, values: Mapping[int, Array]) -> dict[int, Array]:
    """Returns the graph's outputs, in float64, for input values by tensor id."""
    fed = {t: typed(np.asarray(v), graph.tensors[t]) for t, v in values.items()}
    return graphs.evaluate(graph, fed, {"pool": _pool})


def _pool(node: Node, given: list[Any]) -> Array:
    """Returns max pooling: a stand-in for an op that needs its layout."""
    (x,) = given
    return np.maximum(x, np.roll(x, 1, axis=min(1, x.ndim - 1)))


def compared(
    graph: Graph, made: Graph, rtol: float = 1e-6, atol: float = 0.0, high: float = 1.0
) -> list[str]:
    """Returns the ops of a rewritten graph, after comparing its values with those of the graph
    before, for inputs up to `high`, and the record of merged nodes."""
    verify(made)
    values = {
        t: np.random.default_rng(t).uniform(LEAST, high, graph.shape(t)) for t in graph.inputs
    }
    before, after = evaluate(graph, values), evaluate(made, values)
    for tensor in graph.outputs:
        np.testing.assert_allclose(after[tensor], before[tensor], rtol=rtol, atol=atol)
    kept = {s for node in made.nodes for s in (node.sources or (node.id,))}
    assert kept == {node.id for node in graph.nodes}
    return [node.op for node in made.nodes]
