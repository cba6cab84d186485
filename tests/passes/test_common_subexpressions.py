"""Tests the pass that merges equal nodes. No adapter is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.evaluate import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import Graph, Quantization, verify
from tflgpu_plugin.ops.views import part
from tflgpu_plugin.passes.common_subexpressions import share_common_subexpressions


def compared(graph: Graph) -> list[str]:
    """Returns the ops that are left, after comparing the values and the record of merged nodes."""
    made = share_common_subexpressions(graph)
    verify(made)
    values = {t: np.random.default_rng(t).uniform(-1, 1, graph.shape(t)) for t in graph.inputs}
    before, after = evaluate(graph, values), evaluate(made, values)
    for tensor in graph.outputs:
        np.testing.assert_array_equal(after[tensor], before[tensor])
    kept = {s for node in made.nodes for s in (node.sources or (node.id,))}
    assert kept == {node.id for node in graph.nodes}
    return [node.op for node in made.nodes]


def test_chains_of_equal_nodes() -> None:
    n = ShapedNet()
    x, other = n.input((2, 6)), n.input((2, 6))
    ends = [n.same("tanh", n.same("add", x, other)) for _ in range(3)]
    made = [n.same("mul", end, n.input((2, 6))) for end in ends]
    assert compared(n.graph(*made)) == ["add", "tanh", "mul", "mul", "mul"]


def test_constants_that_repeat_one() -> None:
    """Exporters write tables of angles again for each layer; 0 and -0 are two values."""
    n, table = ShapedNet(), np.arange(40, dtype=np.float32).reshape(10, 4)
    near, zero = table.copy(), np.where(table == 0, -table, table)
    near[9, 3] = 0
    x = n.input((10, 4))
    made = [n.same("mul", x, n.constant(each)) for each in (table, near, table.copy(), zero)]
    assert compared(n.graph(*(n.same("tanh", y) for y in made))).count("mul") == 3


@pytest.mark.parametrize(
    "form", ["order", "attribute", "view", "type", "host", "quantized", "state"]
)
def test_others_stay(form: str) -> None:
    n = ShapedNet()
    x, other = n.input((2, 6)), n.input((2, 6))
    pairs = ((x, other), (other, x) if form == "order" else (x, other))
    if form == "view":
        made = [n.run("view", x, shape=(2, 3), view=part((2, 6), 1, k, 3)) for k in (0, 3)]
    elif form == "attribute":
        made = [n.run("concat", x, other, shape=shape, axis=axis)
                for axis, shape in enumerate(((4, 6), (2, 12)))]  # fmt: skip
    else:
        made = [n.same("sub", *pair) for pair in pairs]
    ends = [n.same("relu", t) if k else n.same("neg", t) for k, t in enumerate(made)]
    graph = n.graph(*ends)
    tensors = dict(graph.tensors)
    if form == "type":
        tensors[made[1]] = replace(tensors[made[1]], keep_f32=True)
    if form == "host":
        tensors[made[1]] = replace(tensors[made[1]], host_dtype="f64")
    if form == "quantized":
        tensors[x] = replace(tensors[x], quantization=Quantization((1.0,), (0,)))
    graph = replace(graph, tensors=tensors, states=((x, ends[0]),) if form == "state" else ())
    assert share_common_subexpressions(graph) == graph


def test_views_and_outputs() -> None:
    """Equal views are merged; outputs stay."""
    n = ShapedNet()
    x = n.input((2, 6))
    made = [n.run("view", x, shape=(2, 3), view=part((2, 6), 1, 3, 3)) for _ in range(2)]
    ends = [n.same("relu", t) for t in made]
    assert compared(n.graph(*ends)) == ["view", "relu", "relu"]
