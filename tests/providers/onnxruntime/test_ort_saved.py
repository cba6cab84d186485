"""Tests models that onnxruntime saves after its own optimization: random transformers, all of whose
nodes run here, with the CPU provider's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, cpu, node, session
from tflgpu_plugin.harness import onnx as runner

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

WIDTH, HEADS, WORDS, LENGTH = 32, 4, 50, 6
CONTRIB = "com.microsoft:"


class Network:
    """Nodes and seeded constants of a transformer, expressed in several ops as exporters do."""

    def __init__(self) -> None:
        self.chance = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.mask = ""

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, kind)
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.chance.normal(0, shape[0] ** -0.5, shape))

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(op, inputs, [name], **attributes))
        return name

    def layer(self, x: str, inputs: int, outputs: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weights(inputs, outputs)),
                       self.weights(outputs))  # fmt: skip

    def normalized(self, x: str, kind: str) -> str:
        scale = self.constant(self.chance.uniform(0.5, 1.5, WIDTH))
        if kind == "rms":
            square = self.op("ReduceMean", self.op("Pow", x, self.constant(2.0)), axes=[-1])
            root = self.op("Sqrt", self.op("Add", square, self.constant(1e-6)))
            return self.op(
                "Mul", self.op("Mul", x, self.op("Div", self.constant(1.0), root)), scale
            )
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        square = self.op("ReduceMean", self.op("Pow", centred, self.constant(2.0)), axes=[-1])
        root = self.op("Sqrt", self.op("Add", square, self.constant(1e-12)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, root), scale),
                       self.weights(WIDTH))  # fmt: skip

    def heads(self, x: str, perm: list[int]) -> str:
        shape = self.constant((0, 0, HEADS, WIDTH // HEADS), np.int64)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=perm)

    def masking(self) -> str:
        """Adds a mask that is -10000 for words to ignore; returns its name."""
        wide = self.op("Unsqueeze", self.op("Unsqueeze", "mask", axes=[1]), axes=[2])
        real = self.op("Cast", wide, to=1)
        hidden = self.op("Sub", self.constant(1.0), real)
        return self.op("Mul", hidden, self.constant(-10000.0))

    def attention(self, x: str) -> str:
        q, v = (self.heads(self.layer(x, WIDTH, WIDTH), [0, 2, 1, 3]) for _ in range(2))
        k = self.heads(self.layer(x, WIDTH, WIDTH), [0, 2, 3, 1])
        scores = self.op("Div", self.op("MatMul", q, k), self.constant((WIDTH / HEADS) ** 0.5))
        if self.mask:
            scores = self.op("Add", scores, self.mask)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=3), v)
        flat = self.constant((0, 0, WIDTH), np.int64)
        joined = self.op("Reshape", self.op("Transpose", mixed, perm=[0, 2, 1, 3]), flat)
        return self.layer(joined, WIDTH, WIDTH)

    def gelu(self, x: str, kind: str) -> str:
        if kind == "quick":
            return self.op("Mul", x, self.op("Sigmoid", self.op("Mul", x, self.constant(1.702))))
        inner = self.op("Erf", self.op("Div", x, self.constant(2**0.5)))
        whole = self.op("Mul", x, self.op("Add", inner, self.constant(1.0)))
        return self.op("Mul", whole, self.constant(0.5))


def transformer(norm: str, gelu: str, masked: bool = False) -> bytes:
    """Returns a model of word embeddings, two transformer blocks and a dense head."""
    from onnx import TensorProto, helper, numpy_helper

    net = Network()
    net.mask = net.masking() if masked else ""
    x = net.op("Gather", net.weights(WORDS, WIDTH), "ids")
    x = net.normalized(x, norm)
    for _ in range(2):
        x = net.normalized(net.op("Add", net.attention(x), x), norm)
        wide = net.gelu(net.layer(x, WIDTH, 4 * WIDTH), gelu)
        x = net.normalized(net.op("Add", net.layer(wide, 4 * WIDTH, WIDTH), x), norm)
    first = net.op("Gather", x, net.constant(0, np.int64), axis=1)
    y = net.op("Tanh", net.op("Gemm", first, net.weights(WIDTH, 5), net.weights(5)))
    graph = helper.make_graph(
        net.nodes, "transformer",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", LENGTH])
         for name in ("ids", "mask")[: 1 + masked]],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in net.constants.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 12)]
    made = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return bytes(made.SerializeToString())


def saved(content: bytes, path: Path) -> bytes:
    """Returns the model that onnxruntime writes after optimization not specific to a CPU."""
    import onnxruntime

    options = runner.settings()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    runner.opened(content, options)
    return path.read_bytes()


FUSED = {
    ("layer", "erf", True): {"Attention", "SkipLayerNormalization", "BiasGelu", "FusedGemm"},
    ("layer", "erf", False): {"SkipLayerNormalization", "FusedMatMul", "BiasGelu", "FusedGemm"},
    ("rms", "quick", False): {"FusedMatMul", "QuickGelu", "FusedGemm"},
}


@pytest.mark.parametrize(("norm", "gelu", "masked"), FUSED)
def test_all_nodes_of_a_saved_transformer_run(
    norm: str, gelu: str, masked: bool, tmp_path: Path
) -> None:
    content = saved(transformer(norm, gelu, masked), tmp_path / "saved.onnx")
    ours, theirs = session(content, optimize=False), cpu(content, optimize=False)
    nodes = tflgpu_plugin.report(ours).nodes
    assert {node.where for node in nodes} == {"gpu"}
    found = {node.op.removeprefix(CONTRIB) for node in nodes}
    assert found >= FUSED[norm, gelu, masked], f"onnxruntime wrote {sorted(found)}"
    for batch in (1, 3):
        chance = np.random.default_rng(batch)
        feed = {"ids": chance.integers(0, WORDS, (batch, LENGTH))}
        if masked:
            feed["mask"] = chance.integers(0, 2, (batch, LENGTH))
        (wanted,), (got,) = theirs.run(None, feed), ours.run(None, feed)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6)


def single(one: Any, feeds: dict[str, Array], constants: dict[str, Array]) -> bytes:
    """Returns a model of one node of the domain com.microsoft."""
    from onnx import TensorProto, helper, numpy_helper

    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in feeds.items()
    ]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in one.output if name]  # fmt: skip
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([one], "single", given, made, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def agrees(one: Any, feeds: dict[str, Array], constants: dict[str, Array]) -> None:
    """Asserts that the node runs here and gives the CPU provider's result."""
    content = single(one, feeds, constants)
    ours, theirs = session(content, optimize=False), cpu(content, optimize=False)
    assert {node.where for node in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    for got, wanted in zip(ours.run(None, feeds), theirs.run(None, feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_with_a_bias_of_its_scores(heads: int) -> None:
    chance = np.random.default_rng(5)
    feeds = {"x": (2, 5, 6), "bias": (2, heads, 5, 5)}
    given = {name: chance.normal(size=shape).astype(np.float32) for name, shape in feeds.items()}
    constants = {name: chance.normal(size=shape).astype(np.float32)
                 for name, shape in (("w", (6, 24)), ("b", (24,)))}  # fmt: skip
    agrees(node("Attention", ["x", "w", "b", "", "", "bias"], ["y"], domain="com.microsoft",
                num_heads=heads), given, constants)  # fmt: skip


@pytest.mark.parametrize("mask", [None, (2, 5), (2, 5, 5)])
@pytest.mark.parametrize(
    "more",
    [{}, {"unidirectional": 1}, {"scale": 0.2, "mask_filter_value": -3.0},
     {"qkv_hidden_sizes": [8, 8, 12]}],
)  # fmt: skip
def test_attention(mask: Any, more: dict[str, Any]) -> None:
    chance = np.random.default_rng(3)
    width = sum(more.get("qkv_hidden_sizes", (8, 8, 8)))
    feeds = {"x": chance.normal(size=(2, 5, 6)).astype(np.float32)}
    if mask:
        feeds["mask"] = chance.integers(0, 2, mask, np.int32)
    constants = {name: chance.normal(size=shape).astype(np.float32)
                 for name, shape in (("w", (6, width)), ("b", (width,)))}  # fmt: skip
    reads = ["x", "w", "b", *(["mask"] if mask else [])]
    agrees(node("Attention", reads, ["y"], domain="com.microsoft", num_heads=4, **more),
           feeds, constants)  # fmt: skip


@pytest.mark.parametrize(("segments", "places"), [(False, False), (True, False), (True, True)])
def test_embedding(segments: bool, places: bool) -> None:
    chance = np.random.default_rng(4)
    feeds = {"ids": chance.integers(0, 9, (2, 5), np.int32)}
    shapes = {"words": (9, 8), "positions": (7, 8), "gamma": (8,), "beta": (8,)}
    reads = ["ids", "", "words", "positions", "", "gamma", "beta"]
    if segments:
        feeds["kinds"], shapes["segments"] = chance.integers(0, 2, (2, 5), np.int32), (2, 8)
        reads[1], reads[4] = "kinds", "segments"
    if places:
        feeds["places"] = chance.integers(0, 7, (2, 5), np.int32)
        reads += ["", "places"]
    constants = {n: chance.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    one = node("EmbedLayerNormalization", reads, ["y", "", "sum"], domain="com.microsoft",
               epsilon=1e-3)  # fmt: skip
    agrees(one, feeds, constants)
