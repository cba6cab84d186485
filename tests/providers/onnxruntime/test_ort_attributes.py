"""Operators of onnxruntime's own domain get new attributes without a new version: a node with one
that its row does not read stays on the CPU, and says so."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, cpu, session

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

ROWS, WIDE, DEPTH = 4, 32, 16
TOTAL = {"t": np.array(ROWS, np.int32), "pk": np.zeros((1, 1, 0, DEPTH), np.float32)}
CACHE = ["q", "k", "v", "pk", "pv", "s", "t"]


def exists(op: str, name: str) -> bool:
    """Whether this onnxruntime knows the attribute of an operator of its own domain."""
    listed = ort.capi.onnxruntime_pybind11_state.get_all_operator_schema()
    return any(
        one.name == op and one.domain == "com.microsoft" and name in one.attributes
        for one in listed
    )


def model(
    op: str, reads: list[str], made: dict[str, Any], held: dict[str, Array], **attributes: Any
) -> bytes:
    """Returns a model of one node; `reads` that are not held are its inputs."""
    helper = onnx.helper
    node = helper.make_node(op, reads, list(made), domain="com.microsoft", **attributes)

    def info(name: str, shape: Any) -> Any:
        kind = onnx.TensorProto.INT32 if name in WHOLE else onnx.TensorProto.FLOAT
        return helper.make_tensor_value_info(name, kind, shape)

    fed = {name: shape for name, shape in SHAPES.items() if name in reads and name not in held}
    given, results = ([info(*one) for one in each.items()] for each in (fed, made))
    constants = [onnx.numpy_helper.from_array(data, name) for name, data in held.items()]
    graph = helper.make_graph([node], "attributes", given, results, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


WHOLE = ("s", "ids", "count")  # int32
SHAPES = {"q": (1, ROWS, WIDE), "k": (1, ROWS, DEPTH), "v": (1, ROWS, DEPTH), "s": (1,),
          "a": (ROWS, WIDE), "image": (1, 4, 6, 6), "router": (ROWS, 4),
          "ids": (1, 3)}  # fmt: skip


def grouped(**more: Any) -> bytes:
    held = TOTAL | {"pv": TOTAL["pk"]}
    made = {"y": None, "kept keys": None, "kept values": None}
    return model("GroupQueryAttention", CACHE, made, held, num_heads=2, kv_num_heads=1, **more)


def gemm(**more: Any) -> bytes:
    held = {"w": np.eye(WIDE, DEPTH, dtype=np.float32)}
    return model("FusedGemm", ["a", "w"], {"y": None}, held, activation="Relu", **more)


def image(op: str, shape: tuple[int, ...], **more: Any) -> bytes:
    held = {"w": np.linspace(-1, 1, prod(shape)).reshape(shape).astype(np.float32)}
    return model(op, ["image", "w"], {"y": None}, held, pads=[1, 1, 1, 1], kernel_shape=[3, 3],
                 strides=[2, 1], dilations=[1, 1], group=1, auto_pad="NOTSET", **more)  # fmt: skip


def attention(**more: Any) -> bytes:
    held = {"w": np.eye(DEPTH, 3 * DEPTH, dtype=np.float32), "b": np.ones(3 * DEPTH, np.float32)}
    return model("Attention", ["k", "w", "b"], {"y": None}, held, num_heads=2, **more)


def experts(**more: Any) -> bytes:
    held = {"w": np.linspace(-1, 1, 4 * WIDE * WIDE).reshape(4, WIDE, WIDE).astype(np.float32)}
    return model("MoE", ["a", "router", "w", "", "w"], {"y": None}, held, k=2,
                 activation_type="silu", **more)  # fmt: skip


def packed(**more: Any) -> bytes:
    held = {"places": np.arange(ROWS, dtype=np.int32)[None], "ends": np.array([0, ROWS], np.int32)}
    reads = ["a", "a", "a", "", "places", "ends"]
    return model("PackedMultiHeadAttention", reads, {"y": None}, held, num_heads=2, **more)


def feed(opened: Any) -> dict[str, Array]:
    chance = np.random.default_rng(1)
    given = {name: chance.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    given |= {"s": np.array([ROWS - 1], np.int32), "ids": np.array([[0, 1, 3]], np.int32)}
    return {one.name: given[one.name] for one in opened.get_inputs()}


def reason(data: bytes) -> str:
    """Compares a run with the CPU's; returns why the node stays there, or ""."""
    ours, theirs = session(data, force=1), cpu(data)
    for found, wanted in zip(
        ours.run(None, feed(ours)), theirs.run(None, feed(theirs)), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    (placed,) = tflgpu_plugin.report(ours).nodes
    assert (placed.where == "gpu") == (not placed.reason)
    return placed.reason or ""


def test_attributes_that_are_read() -> None:
    assert not reason(grouped()) and not reason(grouped(causal=1, local_window_size=2))
    assert not reason(gemm()) and not reason(gemm(alpha=2.0))


def test_attributes_that_tools_write() -> None:
    """onnxruntime's optimizer keeps all attributes of a Conv; other tools write some that mean
    nothing for a node."""
    assert not reason(image("FusedConv", (8, 4, 3, 3), activation="Relu"))
    assert not reason(grouped(do_rotary=0, rotary_interleaved=1))
    assert not reason(attention(do_rotary=0, rotary_embedding_dim=DEPTH))
    assert not reason(experts(swiglu_fusion=1, swiglu_limit=7.0, activation_alpha=1.702))


@pytest.mark.parametrize(
    "data", [image("NhwcConv", (8, 3, 3, 6)), packed(mask_filter_value=-10000.0)],
    ids=["NhwcConv", "PackedMultiHeadAttention"])  # fmt: skip
def test_operators_without_a_kernel_on_the_cpu(data: bytes) -> None:
    (placed,) = tflgpu_plugin.report(session(data, force=1)).nodes
    assert placed.where == "gpu"


def test_embeddings_that_state_the_type_of_their_mask() -> None:
    """onnxruntime's kernels do not read it."""
    held = {"words": np.eye(4, 8), "places": np.eye(4, 8)[::-1], "scale": np.ones(8),
            "bias": np.zeros(8)}  # fmt: skip
    constants = {name: data.astype(np.float32) for name, data in held.items()}
    constants["mask"] = np.array([[1, 1, 0]], np.int32)
    reads = ["ids", "", "words", "places", "", "scale", "bias", "mask"]
    made = {"y": None, "count": None}
    assert not reason(model("EmbedLayerNormalization", reads, made, constants, mask_index_type=1))


def test_attributes_that_are_not_read() -> None:
    name = "activation_gamma"
    assert not reason(gemm(**{name: 0.0}))
    assert reason(gemm(**{name: 0.5})).startswith(
        f"The attribute {name} of com.microsoft:FusedGemm"
    )


@pytest.mark.skipif(not exists("GroupQueryAttention", "causal"), reason="an older onnxruntime")
def test_attention_that_is_not_causal() -> None:
    assert "causal attention" in reason(grouped(causal=0))
