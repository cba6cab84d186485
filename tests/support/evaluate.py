"""Runs a Graph in numpy, for tests of passes: the ops that passes rewrite, nothing more."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conformance.references.nodes import REFERENCES
from tflgpu_plugin.ir.graph import Array, Graph, Node, verify


def evaluate(graph: Graph, values: Mapping[int, Array]) -> dict[int, Array]:
    """The graph's outputs, in float64, for input values by tensor id."""
    known = {t: np.asarray(v) for t, v in values.items()}
    known |= {t: v.data for t, v in graph.tensors.items() if v.data is not None}
    for node in graph.nodes:
        given = [None if t is None else known[t] for t in node.inputs]
        made = run_node(node, given)
        for each in node.epilogue:
            assert each.tensor is None and not each.parameters, "epilogue are not evaluated"
        assert made.shape == graph.shape(node.outputs[0]), (node, made.shape)
        known[node.outputs[0]] = made
    return {t: known[t] for t in graph.outputs}


def compared(
    graph: Graph, made: Graph, rtol: float = 1e-6, atol: float = 0.0, high: float = 1.0
) -> list[str]:
    """The ops of a rewritten graph, after comparing its values with those of the graph before, for
    inputs from -1 to `high`, and the record of merged nodes."""
    verify(made)
    values = {t: np.random.default_rng(t).uniform(-1, high, graph.shape(t)) for t in graph.inputs}
    before, after = evaluate(graph, values), evaluate(made, values)
    for tensor in graph.outputs:
        np.testing.assert_allclose(after[tensor], before[tensor], rtol=rtol, atol=atol)
    kept = {s for node in made.nodes for s in (node.sources or (node.id,))}
    assert kept == {node.id for node in graph.nodes}
    return [node.op for node in made.nodes]


def run_node(node: Node, given: list[Array | None]) -> Array:
    """What one node makes of its inputs."""
    x, attributes = given[0], node.attributes
    assert x is not None
    if node.op == "pool":  # stands for an op that needs its layout
        return np.maximum(x, np.roll(x, 1, axis=min(1, x.ndim - 1)))
    if node.op == "concat":
        return np.concatenate([g for g in given if g is not None], axis=attributes["axis"])
    if node.op == "strided_slice":
        return x[_slices(given, attributes, x.shape)]
    if node.op == "reshape":
        return x.reshape(attributes["shape"])
    if node.op in ("mean", "reduce_mean_square"):
        x = x - np.asarray(given[2]) if len(given) > 2 else x
        x = x if node.op == "mean" else x * x
        axes = tuple(int(a) for a in np.asarray(given[1]).reshape(-1))
        return np.mean(x, axis=axes, keepdims=attributes["keep_dims"])
    if node.op == "fully_connected":
        weights, bias = (np.asarray(g) for g in (given[1], 0 if given[2] is None else given[2]))
        return x @ weights.T + bias
    if node.op == "softmax":
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    plain = {"add": np.add, "mul": np.multiply, "sub": np.subtract, "div": np.divide,
             "tanh": np.tanh, "is_nan": np.isnan, "minimum": np.minimum, "maximum": np.maximum,
             "right_shift": lambda v, bits: v >> np.clip(bits, 0, 31),
             "relu": lambda v: np.maximum(v, 0),
             "prelu": lambda v, a: np.where(v < 0, v * a, v)}  # fmt: skip
    settings = {k: v for k, v in attributes.items() if k != "activation"}
    return np.asarray((plain | REFERENCES)[node.op](*given, **settings))


def _slices(
    given: list[Array | None], attributes: Mapping[str, object], shape: tuple[int, ...]
) -> tuple[slice, ...]:
    begin, end, strides = (np.asarray(g).tolist() for g in given[1:4])
    masks = [int(attributes.get(m, 0)) for m in ("begin_mask", "end_mask")]  # type: ignore[call-overload]
    return tuple(
        slice(None if masks[0] >> k & 1 else b, None if masks[1] >> k & 1 else e, s)
        for k, (b, e, s) in enumerate(zip(begin, end, strides, strict=True))
    )
