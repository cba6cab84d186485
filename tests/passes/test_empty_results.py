"""Tests tensors without elements, in both frontends and in the pass that handles them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import onnx_models as onnx, shape_models, small_models
from tests.support.interpreters import gpu, places, same
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Target
from tflgpu_plugin.passes.empty_results import drop_empty_results


def graph(batch: int) -> Graph:
    """Returns the graph of relu(x) joined with y; the relu is also an output."""
    n = Net()
    x, y = n.input((batch, 4)), n.input((2, 4))
    kept = n.op("relu", x)
    return n.graph(kept, n.op("concat", kept, y, axis=0, activation="none"))


def test_nothing_is_done_for_what_is_empty() -> None:
    full, none = graph(1), graph(0)
    assert drop_empty_results(full) is full
    trimmed = drop_empty_results(none)
    assert [(node.op, node.inputs) for node in trimmed.nodes] == [("concat", (1,))]
    assert (trimmed.inputs, trimmed.outputs) == (none.inputs, none.outputs)


def test_a_plan_has_ports_for_what_is_empty() -> None:
    plan = compiler.compile(graph(0), Target())
    assert [(port.shape, port.bytes) for port in plan.inputs] == [((0, 4), 0), ((2, 4), 32)]
    assert [(port.shape, port.bytes) for port in plan.outputs] == [((0, 4), 0), ((2, 4), 32)]


MODELS = [
    small_models.one_partition,
    small_models.two_partitions,
    small_models.resized_between_partitions,
    lambda: small_models.two_partitions(read_by_both=True),
    small_models.joined,
    shape_models.in_the_middle,
]


@pytest.mark.adapter
@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("host", hosts.installed())
@pytest.mark.parametrize("build", MODELS)
def test_a_batch_of_none(host: str, build: Any) -> None:
    """A batch of none gives the CPU's results, and a later batch its own."""
    model = build()
    interpreter, made = gpu(model, host)
    before = places(made)
    for batch in (0, 2, 0, 1):
        interpreter.resize_tensor_input(0, (batch, 6, 5, 3))
        interpreter.allocate_tensors()
        same(interpreter, model, host)
        assert places(made) == before
    assert all(partition.failures == 0 for partition in tflgpu_plugin.report(made).partitions)


@pytest.mark.adapter
def test_a_batch_of_none_in_onnxruntime() -> None:
    chance = np.random.default_rng(3)
    weights = chance.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32)
    nodes = [
        onnx.node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        onnx.node("Concat", ["c", "z"], ["both"], axis=0),
        onnx.node("Relu", ["both"], ["y"]),
    ]
    inputs = {"x": ("n", 3, 6, 5), "z": ("m", 4, 6, 5)}
    model = onnx.model(nodes, inputs, {"y": None, "c": None}, {"w": weights})
    ours, theirs = onnx.session(model), onnx.cpu(model)
    for first, second in ((0, 2), (1, 0), (0, 0), (1, 2)):
        shapes = {"x": (first, 3, 6, 5), "z": (second, 4, 6, 5)}
        feed = {k: chance.uniform(-1, 1, s).astype(np.float32) for k, s in shapes.items()}
        for got, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, atol=1e-5)
    tflgpu_plugin.assert_used(ours)


def beside_a_network(kind: str) -> bytes:
    """Returns a graph that may find nothing, beside layers for which passes make tensors."""
    chance = np.random.default_rng(1)
    weights = chance.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32)
    nodes = [
        onnx.node("Conv", ["x", "w"], ["c"]),
        onnx.node("Relu", ["c"], ["r"]),
        onnx.node("Relu", ["c"], ["again"]),
        onnx.node("Add", ["r", "again"], ["s"]),
        onnx.node("GlobalAveragePool", ["s"], ["feature"]),
    ]
    inputs, outputs = {"x": (1, 3, 8, 8), "boxes": (6, 4)}, {"feature": None, "found": None}
    if kind == "gather":
        nodes.append(onnx.node("Gather", ["boxes", "keep"], ["found"], axis=0))
        return onnx.model(nodes, {**inputs, "keep": ("n",)}, outputs, {"w": weights},
                          kinds={"keep": np.int64})  # fmt: skip
    ends = {"from": np.array([4], np.int64), "axis": np.array([1], np.int64)}
    nodes.append(onnx.node("Slice", ["boxes", "from", "from", "axis"], ["found"]))
    return onnx.model(nodes, inputs, outputs, {"w": weights, **ends})


@pytest.mark.adapter
@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("kind", ["gather", "slice"])
def test_what_finds_nothing_in_onnxruntime(kind: str, optimize: bool) -> None:
    """Its output has the empty shape, not that of a tensor that passes have added."""
    model = beside_a_network(kind)
    ours = onnx.session(model, optimize=optimize)
    theirs, chance = onnx.cpu(model, optimize), np.random.default_rng(2)
    for count in (2, 0, 3) if kind == "gather" else (0,):
        feed = {"x": chance.uniform(0, 1, (1, 3, 8, 8)), "boxes": chance.uniform(0, 1, (6, 4))}
        feed = {name: value.astype(np.float32) for name, value in feed.items()}
        feed |= {"keep": np.arange(count)} if kind == "gather" else {}
        onnx.compare(ours, theirs, feed)
    tflgpu_plugin.assert_used(ours)


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
def test_what_finds_nothing_in_tflite(host: str) -> None:
    model, shape = Model(), (1, 8, 8, 3)
    x, boxes = model.input("x", shape), model.input("boxes", (5, 4))
    features = small_models.conv(model, x, shape)
    scaled = model.constant(np.full((1, 1, 1, 4), 2, np.float32))
    product = small_models.binary(model, "MUL", features, scaled, (1, 8, 8, 4))
    begin, size = (model.constant(np.array(pair, np.int32)) for pair in ((5, 0), (0, 4)))
    model.output(model.op("SLICE", [boxes, begin, size], "SliceOptions", {}, shape=(0, 4)))
    model.output(product)
    content = model.to_bytes()
    interpreter, made = gpu(content, host)
    for seed in range(2):
        same(interpreter, content, host, seed)
    assert set(places(made).values()) == {"gpu"}
