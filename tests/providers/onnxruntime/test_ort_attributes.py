"""Operators of onnxruntime's own domain get new attributes without a new version: a node with one
that its row does not read stays on the CPU, and says so."""

from __future__ import annotations

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
    kind = onnx.TensorProto
    given = [helper.make_tensor_value_info(name, kind.INT32 if name == "s" else kind.FLOAT, shape)
             for name, shape in SHAPES.items() if name in reads and name not in held]  # fmt: skip
    results = [helper.make_tensor_value_info(n, kind.FLOAT, shape) for n, shape in made.items()]
    constants = [onnx.numpy_helper.from_array(data, name) for name, data in held.items()]
    graph = helper.make_graph([node], "attributes", given, results, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


SHAPES = {"q": (1, ROWS, WIDE), "k": (1, ROWS, DEPTH), "v": (1, ROWS, DEPTH), "s": (1,),
          "a": (ROWS, WIDE)}  # fmt: skip


def grouped(**more: Any) -> bytes:
    held = TOTAL | {"pv": TOTAL["pk"]}
    made = {"y": None, "kept keys": None, "kept values": None}
    return model("GroupQueryAttention", CACHE, made, held, num_heads=2, kv_num_heads=1, **more)


def gemm(**more: Any) -> bytes:
    held = {"w": np.eye(WIDE, DEPTH, dtype=np.float32)}
    return model("FusedGemm", ["a", "w"], {"y": None}, held, activation="Relu", **more)


def feed(opened: Any) -> dict[str, Array]:
    chance = np.random.default_rng(1)
    given = {name: chance.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    given["s"] = np.array([ROWS - 1], np.int32)
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


def test_attributes_that_are_not_read() -> None:
    name = "activation_gamma"
    assert not reason(gemm(**{name: 0.0}))
    assert reason(gemm(**{name: 0.5})).startswith(
        f"The attribute {name} of com.microsoft:FusedGemm"
    )


@pytest.mark.skipif(not exists("GroupQueryAttention", "causal"), reason="an older onnxruntime")
def test_attention_that_is_not_causal() -> None:
    assert "causal attention" in reason(grouped(causal=0))
