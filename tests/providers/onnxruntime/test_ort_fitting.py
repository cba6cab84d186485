"""Inputs of a run with extents that do not fit the constants of a node: onnxruntime reports an
error; inputs are neither broadcast nor truncated. The next run is on the GPU again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, Shape, compare, cpu, model, node, places, session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

MS = "com.microsoft"


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


class Node(NamedTuple):
    """A node whose input x is open in every axis; a shape of x that fits, and some that do not."""

    op: str
    fits: Sequence[int]
    others: Sequence[Sequence[int]]
    constants: Mapping[str, Array]
    outputs: int = 1
    domain: str = ""
    attributes: Mapping[str, Any] = {}


W, C = {"w": floats(5, 4)}, {"c": floats(4)}
MOMENTS = {name: np.abs(floats(3)) + 1 for name in ("s", "b", "m", "v")}
LAST = {"s": floats(8), "b": floats(8)}
CELL = {"w": floats(1, 3, 4), "r": floats(1, 3, 3), "": np.zeros(0), "_": np.zeros(0)}
NODES = {
    "Gemm": Node("Gemm", (3, 5), [(3, 1), (3, 10), (1, 15), (5, 2)], W | C),
    "Gemm, transposed": Node(
        "Gemm", (5, 3), [(1, 3), (10, 3), (1, 5)], W | C, attributes={"transA": 1}
    ),
    "Gemm, a bias of more columns": Node("Gemm", (3, 5), [], {"w": floats(5, 1)} | C),
    "FusedGemm": Node(
        "FusedGemm", (3, 5), [(3, 10), (1, 15)], W | C, domain=MS, attributes={"activation": "Relu"}
    ),
    "BatchNormalization": Node("BatchNormalization", (2, 3, 4), [(2, 1, 4), (2, 6, 4)], MOMENTS),
    "InstanceNormalization": Node(
        "InstanceNormalization", (2, 3, 4), [(2, 1, 4), (2, 6, 4)],
        {name: MOMENTS[name] for name in "sb"},
    ),
    "LayerNormalization": Node("LayerNormalization", (2, 3, 8), [(2, 3, 1)], LAST),
    "LayerNormalization and its mean": Node(
        "LayerNormalization", (2, 3, 8), [(2, 3, 1)], LAST, outputs=2
    ),
    "SimplifiedLayerNormalization": Node(
        "SimplifiedLayerNormalization", (2, 3, 8), [(2, 3, 1)], {"s": LAST["s"]}
    ),
    "SkipLayerNormalization": Node(
        "SkipLayerNormalization", (2, 3, 8), [(2, 3, 1), (1, 3, 8), (2, 1, 8)],
        {"k": floats(2, 3, 8)} | LAST, domain=MS,
    ),
    "BiasGelu": Node("BiasGelu", (2, 3, 8), [(2, 3, 1)], {"b": LAST["b"]}, domain=MS),
    "FastGelu": Node("FastGelu", (2, 3, 8), [(2, 3, 1)], {"b": LAST["b"]}, domain=MS),
    "RNN, states of another batch": Node(
        "RNN", (2, 3, 4), [(2, 1, 4), (2, 2, 4)], CELL | {"h": floats(1, 3, 3)},
        attributes={"hidden_size": 3},
    ),
    "RNN, states of two directions": Node(
        "RNN", (2, 3, 4), [], CELL | {"h": floats(2, 3, 3)}, attributes={"hidden_size": 3}
    ),
    "QuantizeLinear": Node(
        "QuantizeLinear", (2, 3), [(3, 2)], {"s": MOMENTS["s"], "z": np.zeros(3, np.uint8)}
    ),
}  # fmt: skip


def built(one: Node) -> bytes:
    """Returns the model; a constant without elements stands for an absent input."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    axes: Shape = [f"n{axis}" for axis in range(len(one.fits))]
    there = {name: data for name, data in one.constants.items() if data.size}
    reads = ["x", *(name if name in there else "" for name in one.constants)]
    writes = [f"y{k}" for k in range(one.outputs)]
    made = helper.make_node(one.op, reads, writes, domain=one.domain, **one.attributes)
    kind = onnx.TensorProto.UINT8 if one.op == "QuantizeLinear" else onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [made], "test",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, axes)],
        [helper.make_tensor_value_info(name, kind, None) for name in writes],
        [numpy_helper.from_array(data, name) for name, data in there.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def told(one: Any, x: Array) -> list[Array] | str:
    """Returns the results of a run, or its error without the node's name."""
    try:
        return list(one.run(None, {"x": x}))
    except Exception as error:
        return str(error).split("Status Message:")[-1]


@pytest.mark.parametrize("name", NODES)
def test_extents_that_do_not_fit_are_the_hosts_error(name: str) -> None:
    one = NODES[name]
    data = built(one)
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    for shape in (one.fits, *one.others, one.fits):
        got, wanted = told(ours, floats(*shape)), told(theirs, floats(*shape))
        if isinstance(got, str) or isinstance(wanted, str):
            assert got == wanted, (name, shape)
            continue
        for a, b in zip(got, wanted, strict=True):
            assert a.shape == b.shape, (name, shape)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert tflgpu_plugin.report(ours).runs == 2 or not one.others


def test_rows_that_only_fill_a_part_of_the_last_block() -> None:
    """The weights of a partial block are there, but the host multiplies K numbers only."""
    one = Node(
        "MatMulNBits", (2, 20), [(2, 21), (2, 19), (2, 32), (2, 16)],
        {"w": np.full((3, 2, 8), 0x5A, np.uint8), "s": np.ones((3, 2), np.float32)}, domain=MS,
        attributes={"K": 20, "N": 3, "bits": 4, "block_size": 16},
    )  # fmt: skip
    ours, theirs = session(built(one)), cpu(built(one))
    for shape in one.others:
        wanted = told(theirs, floats(*shape))
        assert isinstance(wanted, str) and told(ours, floats(*shape)) == wanted
    (got,), (wanted,) = told(ours, floats(*one.fits)), told(theirs, floats(*one.fits))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inner", [40, 2560])
@pytest.mark.parametrize("rows", ["rows", 3])
def test_an_open_extent_that_is_an_attribute(inner: int, rows: int | str) -> None:
    count = -(-inner // 16)
    held = {"w": np.full((3, count, 4), 0x5A, np.uint8), "s": np.ones((3, count), np.float32)}
    made = node("MatMulNBits", ["x", "w", "s"], ["y"], domain=MS, K=inner, N=3, bits=2,
                block_size=16)  # fmt: skip
    data = model([made], {"x": (rows, "inner")}, {"y": None}, held)
    ours = session(data)
    assert places(ours) == {"com.microsoft:MatMulNBits": "gpu"}
    compare(ours, cpu(data), {"x": floats(3, inner)}, 1e-5)
