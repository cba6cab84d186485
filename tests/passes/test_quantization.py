"""Tests arithmetic on quantization levels, the passes that use it, and small quantized models in
hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.cases import seeded
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, places
from tests.support.net import Net
from tflgpu_plugin import engine
from tflgpu_plugin.compile import precision
from tflgpu_plugin.importer import rules
from tflgpu_plugin.ir import Array, Graph, Node, Quantization, Refusal, Target, Tensor, quantization
from tflgpu_plugin.ops.lowering import Access, Constant, Kernel, Lowering
from tflgpu_plugin.passes import pipeline as passes
from tflgpu_plugin.passes.quant import requantize
from tflgpu_plugin.passes.quant.dequantize import dequantize, widen
from tflgpu_plugin.passes.quant.fake_quantization import fake_quantize

COARSE, FINER = Quantization((0.5,), (3,)), Quantization((0.01,), (-128,))
HALF = np.arange(12, dtype=np.float16).reshape(3, 4)


# ---- numbers -------------------------------------------------------------------------------------


def test_dequantize_per_channel() -> None:
    data = np.array([[1, 2], [3, 4]], np.int8)
    values = quantization.dequantize(data, Quantization((0.5, 2.0), (1, 0), 1))
    np.testing.assert_array_equal(values, np.array([[0.0, 4.0], [1.0, 8.0]], np.float32))


def test_levels() -> None:
    assert quantization.levels(Tensor("", (1,), "u8", quantization=COARSE)) == (0.5, -3, 252)
    assert quantization.levels(Tensor("", (1,), "i8", quantization=FINER)) == (0.01, 0, 255)


@pytest.mark.parametrize(
    ("factor", "parts"), [(0.3, 2.0), (0.5, 1.0), (0.49, 2.0), (0.01, 64.0), (1.7, 1.0)]
)
def test_fraction(factor: float, parts: float) -> None:
    assert quantization.fraction(factor) == parts


def test_fixed_point() -> None:
    factors = np.array([0.5, 0.3, 1e-4, 3.0, 1 - 2.0**-40, 1e-12])
    fractions, shifts = quantization.fixed_point(factors)
    assert fractions.max() < 2**31 and (shifts >= -31).all()
    found = fractions * 2.0 ** (shifts - 31)
    np.testing.assert_allclose(found[:5], factors[:5], rtol=2**-30)
    assert found[5] == 0


# ---- passes --------------------------------------------------------------------------------------


def half_weights(result: Mapping[str, Any] | None = None) -> Graph:
    """Returns a graph of float16 weights, a dequantize node, and a layer with these weights."""
    n = Net()
    x = n.input((1, 4))
    weights = n.op("dequantize", n.constant(HALF))
    flat = {"keep_num_dims": False, "activation": "none"}
    return n.graph(n.op("fully_connected", x, weights, None, **flat))


def test_a_dequantized_constant_is_part_of_its_reader() -> None:
    graph = dequantize(half_weights())
    (node,) = graph.nodes
    assert (node.op, node.sources) == ("fully_connected", (0, 1))
    weights = graph.constant(2)
    assert weights is not None and weights.dtype == np.float32
    np.testing.assert_array_equal(weights, HALF)


def test_a_constant_for_both_sides_stays_on_the_cpu() -> None:
    """The CPU runs the node that computes the constant, and the layer has a copy."""
    graph = widen(half_weights())
    assert graph.constant(2) is not None
    reader = Node(2, "", (2,), (4,))
    tensors = {**graph.tensors, 4: Tensor("z", (3, 4))}
    whole = replace(graph, tensors=tensors, nodes=(*graph.nodes, reader), outputs=(3, 4))
    refused = {2: Refusal("operator.unknown", "Not here.")}
    assert rules.closed(whole, refused) == refused | {0: rules.COPIED}
    part = engine.partition.extract(whole, {1})
    assert part.inputs == (0,)


def layer(weights: Array, own: Quantization, bias: Array | None = None) -> Graph:
    n, finer = Net(), Tensor("", (), "i8", quantization=FINER)
    x, w = n.input((1, 4), "i8", COARSE), n.constant(weights, "i8", own)
    b = n.tensor((3,), "i32", bias)
    flat = {"keep_num_dims": False, "activation": "relu6"}
    y = n.op("fully_connected", x, w, b, made=finer, **flat)
    return n.graph(n.op("reshape", y, None, made=finer, shape=(1, 3)))


def test_a_layer_computes_in_whole_numbers() -> None:
    weights = np.arange(12, dtype=np.int8).reshape(3, 4)
    own = Quantization((0.1, 0.2, 0.4), (0, 0, 0))
    bias = np.array([1, -5000, 70_000_000], np.int32)
    graph = passes.run(layer(weights, own, bias))
    node = graph.nodes[0]
    (step,) = node.epilogue
    assert step.op == "requantize" and step.tensor is not None
    found = graph.constant(node.inputs[1])
    assert found is not None
    np.testing.assert_array_equal(found, weights)
    rows = graph.constant(step.tensor)
    assert rows is not None
    assert not (rows[0] % requantize.BIAS_UNIT).any()
    np.testing.assert_allclose(rows[0] + rows[1], bias, rtol=2**-23)  # it was float32 in between
    assert step.parameters[2:4] == (0.0, 255.0)  # relu6 is wider than the levels, which begin at 0


def test_moves_need_no_simulator() -> None:
    graph = passes.run(layer(np.ones((3, 4), np.int8), COARSE, np.zeros(3, np.int32)))
    assert not graph.nodes[-1].epilogue and graph.nodes[-1].op == "reshape"


def test_an_op_without_steps_gets_a_node() -> None:
    n, finer = Net(), Tensor("", (), "u8", quantization=FINER)
    x, y = n.input((1, 4), "u8", COARSE), n.input((1, 4), "u8", FINER)
    joined = n.op("concat", x, y, made=finer, axis=1, activation="none")
    graph = fake_quantize(n.graph(n.op("reshape", joined, None, made=finer, shape=(1, 8))))
    assert [node.op for node in graph.nodes] == ["concat", "quantize", "reshape"]
    assert len({node.id for node in graph.nodes}) == 3
    assert graph.nodes[1].outputs == (2,) and graph.tensors[graph.nodes[1].inputs[0]].dtype == "f32"


# ---- through hosts -------------------------------------------------------------------------------


def chain() -> bytes:
    """Returns a model of QUANTIZE, arithmetic with other scales, and DEQUANTIZE, which is a single
    launch when fused."""
    model, shape = Model(), (1, 9, 9, 3)
    x = model.input("x", shape)
    scaled = [Quantization((0.02,), (-100,)), Quantization((0.013,), (7,)), COARSE]
    value = model.op("QUANTIZE", [x], shape=shape, dtype="i8", name="stored")
    model.tensors[value].quantization = scaled[0]
    for op, options, own in (("MUL", "MulOptions", scaled[1]), ("SUB", "SubOptions", scaled[2])):
        other = model.constant(np.int8([[[[30, -40, 50]]]]))
        model.tensors[other].quantization = Quantization((0.05,), (4,))
        none = {"fusedActivationFunction": "NONE"}
        value = model.op(op, [value, other], options, none, shape=shape, dtype="i8", version=2)
        model.tensors[value].quantization = own
    model.output(model.op("DEQUANTIZE", [value], shape=shape, version=2, name="real"))
    return model.to_bytes()


def half(shared: bool = False) -> bytes:
    """Returns a model of a layer with float16 weights; with `shared`, a node on the CPU reads them,
    too."""
    model = Model()
    x = model.input("x", (2, 4))
    stored = model.constant(seeded(3, 4).astype(np.float16))
    weights = model.op("DEQUANTIZE", [stored], shape=(3, 4), version=3, name="weights")
    options = {"fusedActivationFunction": "NONE"}
    layer = [x, weights, None]
    y = model.op("FULLY_CONNECTED", layer, "FullyConnectedOptions", options, shape=(2, 3), name="y")
    model.output(y)
    if shared:
        model.output(model.op("SQUARE", [weights], shape=(3, 4), name="up"))
    return model.to_bytes()


def answers(model: bytes, host: str, options: Mapping[str, Any] | None = None) -> Any:
    """Returns (expected, got, where each node is, the report) for one input."""
    cpu = hosts.interpreter(model, host)
    shapes = [tuple(d["shape"]) for d in cpu.get_input_details()]
    feed = [np.random.default_rng(3).uniform(-2, 2, s).astype(np.float32) for s in shapes]
    interpreter, made = gpu(model, host, **dict(options or {}))
    expected, got = hosts.run_on_cpu(model, [feed], host)[0], hosts.invoke(interpreter, [feed])[0]
    return expected, got, places(made), tflgpu_plugin.report(made)


on_adapter = pytest.mark.adapter
each_host = pytest.mark.parametrize("host", hosts.installed())


@on_adapter
@pytest.mark.usefixtures("resolver")
@each_host
def test_a_chain_over_several_scales(host: str) -> None:
    expected, got, where, _ = answers(chain(), host)
    assert set(where.values()) == {"gpu"}
    np.testing.assert_array_equal(expected[0], got[0])


@on_adapter
@each_host
def test_quantized_models_are_an_option(host: str) -> None:
    expected, got, where, report = answers(chain(), host, {"enable_quantized_inference": False})
    assert set(where.values()) == {"cpu"}
    np.testing.assert_array_equal(expected[0], got[0])
    assert {node.refusal_code for node in report.nodes} == {"option.quantized"}


@on_adapter
@pytest.mark.usefixtures("resolver")
@each_host
@pytest.mark.parametrize("edition", ["all", "documented", "documented-2019"])
def test_half_weights(host: str, edition: str) -> None:
    """This holds in every edition: a constant is no operation."""
    expected, got, where, _ = answers(half(), host, {"capabilities": edition})
    assert where == {"weights": "gpu", "y": "gpu"}
    np.testing.assert_allclose(expected[0], got[0], rtol=1e-5, atol=1e-6)


@on_adapter
@pytest.mark.usefixtures("resolver")
@each_host
def test_half_weights_that_the_cpu_reads_too(host: str) -> None:
    expected, got, where, _ = answers(half(shared=True), host)
    assert where == {"weights": "cpu", "y": "gpu", "up": "cpu"}
    np.testing.assert_allclose(expected[0], got[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(expected[1], got[1])


def test_weights_of_float_layers_become_whole() -> None:
    """For a float input and 8-bit weights, the scale becomes an epilogue op between the sum and the
    bias."""
    stored = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    for scales in ((0.5,), (0.5, 0.25, 0.125)):
        base = layer_of(stored)
        own = Quantization(scales, (0,) * len(scales))
        tensors = dict(base.tensors) | {
            1: Tensor("w", (3, 4), "i8", stored, own), 3: Tensor("b", (3,), data=np.ones(3, "f4")),
        }  # fmt: skip
        node = replace(base.nodes[0], inputs=(0, 1, 3))
        graph = passes.run(widen(replace(base, tensors=tensors, nodes=(node,))))
        (layer,) = graph.nodes
        assert [each.op for each in layer.epilogue] == ["mul", "add"]
        np.testing.assert_array_equal(graph.constant(layer.inputs[1]), stored)
        factor = layer.epilogue[0]
        given = factor.parameters if factor.tensor is None else graph.constant(factor.tensor)
        np.testing.assert_array_equal(given, scales)


def test_whole_weights_lie_in_bytes() -> None:
    """They take a quarter of the memory, whatever their range is, with the same values."""
    for least in (-128, -200):
        weights = np.full((3, 4), least + 255, np.int16)
        weights[1] = least
        low = Lowering(passes.run(layer_of(weights)), Target())
        constant = low.constant(
            1, "rows", vectors=3, pack=lambda data: np.asarray(data, np.float32), half=True
        )
        (start,) = precision.byte_constants(launched(low, constant)).values()
        (stored,) = precision.bytes_from(constant.pack, start)
        assert stored.dtype == np.uint8 and stored.nbytes == constant.vectors * 4
        np.testing.assert_array_equal(stored + start, weights)


def test_what_is_read_one_by_one_stays_in_float32() -> None:
    low = Lowering(layer_of(np.ones((3, 4), np.int16)), Target())
    constant = low.constant(1, vectors=3, pack=lambda data: data, half=True)
    assert precision.byte_constants(launched(low, constant, view=1)) == {}


def layer_of(weights: Array) -> Graph:
    n = Net()
    x, w = n.input((1, 4)), n.constant(weights, "f32")
    flat = {"keep_num_dims": False, "activation": "none"}
    return n.graph(n.op("fully_connected", x, w, None, **flat))


def launched(low: Lowering, constant: Constant, view: int = 4) -> Lowering:
    low.dispatch(
        Kernel("fully_connected"),
        low.graph.nodes[0],
        {"w": Access(constant, view)},
        {"y": 2},
        (1, 1, 1),
    )
    return low
