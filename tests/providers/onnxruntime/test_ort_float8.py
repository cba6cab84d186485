"""Tests floats of 8 bits in ONNX Runtime: casts bit by bit against onnxruntime's CPU kernels, and
quantization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import tflgpu_plugin  # noqa: E402
from conformance.onnx_node_tests import FLOATS_OF_8_BITS  # noqa: E402
from tests.support.onnx_models import Array, cpu, session  # noqa: E402
from tflgpu_plugin.harness.onnx_values import results  # noqa: E402
from tflgpu_plugin.ir import FLOAT8, float8  # noqa: E402

FLOAT = onnx.TensorProto.FLOAT
TYPES = {"f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20}
NUMPY = dict(zip(TYPES, FLOATS_OF_8_BITS, strict=True))
ALL = np.arange(256, dtype=np.uint8)
each = pytest.mark.parametrize("kind", TYPES)
adapter = pytest.mark.adapter


def numbers() -> Array:
    """Returns float32 numbers of every exponent: ties, their neighbours, special values."""
    halves = np.outer(2.0 ** np.arange(-30, 20), 1 + np.arange(32) / 32).astype(np.float32)
    near = [halves, np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(1e9))]
    ends = np.array([0.0, 1e-40, 3e38, np.inf, np.nan], np.float32)
    found = np.concatenate([*(one.reshape(-1) for one in near), ends])
    return np.concatenate([found, -found])


def model(op: str, inputs: dict[str, tuple[int, Any]], result: int, **attributes: Any) -> bytes:
    """Returns a model of one node with inputs of these element types and shapes."""
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node(op, list(inputs), ["y"], **attributes)
    given = [info(name, element, shape) for name, (element, shape) in inputs.items()]
    shape = next(iter(inputs.values()))[1]
    graph = onnx.helper.make_graph([node], "g", given, [info("y", result, shape)])
    made = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )
    return bytes(made.SerializeToString())


def ours(content: bytes, feeds: dict[str, Array]) -> Array:
    """Returns what the plugin computes, which runs all nodes."""
    made = session(content)
    assert not [node.reason for node in tflgpu_plugin.report(made).nodes if node.reason]
    (found,) = results(made, feeds)
    assert tflgpu_plugin.report(made).host_runs == 0
    return np.asarray(found)


@adapter
@each
def test_numbers_become_the_bits_of_the_cpu_kernels(kind: str) -> None:
    x = numbers()
    content = model("Cast", {"x": (FLOAT, x.shape)}, TYPES[kind], to=TYPES[kind])
    (wanted,) = results(cpu(content), {"x": x})
    np.testing.assert_array_equal(ours(content, {"x": x}), wanted)


@adapter
@each
def test_numbers_that_are_too_large_become_infinity_or_nan(kind: str) -> None:
    """onnxruntime's kernels differ from the standard between the greatest number and the next power
    of two."""
    x = numbers()
    content = model("Cast", {"x": (FLOAT, x.shape)}, TYPES[kind], to=TYPES[kind], saturate=0)
    found = ours(content, {"x": x})
    with np.errstate(all="ignore"):
        wanted = x.astype(NUMPY[kind]).astype(np.float32)
    np.testing.assert_array_equal(float8.values(found, kind), wanted)


@adapter
@each
def test_bits_become_the_numbers_of_the_cpu_kernels(kind: str) -> None:
    content = model("Cast", {"x": (TYPES[kind], ALL.shape)}, FLOAT, to=FLOAT)
    (wanted,) = results(cpu(content), {"x": ALL})
    np.testing.assert_array_equal(ours(content, {"x": ALL}), wanted)


@adapter
@pytest.mark.parametrize("element", [2, 3, 6, 7, 9, 10, 16])
def test_other_types_are_cast_by_way_of_float32(element: int) -> None:
    """uint8, int8, int32, int64, bool, float16, bfloat16, in both directions."""
    kind = {9: bool, 16: np.uint16}.get(element) or onnx.helper.tensor_dtype_to_np_dtype(element)
    x = (ALL.astype(np.uint16) << 7 if element == 16 else ALL).astype(kind)
    there = model("Cast", {"x": (element, x.shape)}, 17, to=17)
    (wanted,) = results(cpu(there), {"x": x})
    np.testing.assert_array_equal(ours(there, {"x": x}), wanted)
    finite = ALL[:0x60]
    back = model("Cast", {"x": (17, finite.shape)}, element, to=element)
    (wanted,) = results(cpu(back), {"x": finite})
    np.testing.assert_array_equal(ours(back, {"x": finite}), wanted)


@adapter
@each
@pytest.mark.parametrize("scales", [(), (7,)])
def test_quantized(kind: str, scales: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(0, 300, (5, 7)).astype(np.float32)
    scale = generator.uniform(0.3, 2, scales).astype(np.float32)
    zero = np.zeros(scales, np.uint8)
    inputs = {"x": (FLOAT, x.shape), "s": (FLOAT, scales), "z": (TYPES[kind], scales)}
    content = model("QuantizeLinear", inputs, TYPES[kind], axis=1)
    (wanted,) = results(cpu(content), {"x": x, "s": scale, "z": zero})
    np.testing.assert_array_equal(ours(content, {"x": x, "s": scale, "z": zero}), wanted)
    inputs = {"x": (TYPES[kind], x.shape), "s": (FLOAT, scales), "z": (TYPES[kind], scales)}
    content = model("DequantizeLinear", inputs, FLOAT, axis=1)
    (real,) = results(cpu(content), {"x": wanted, "s": scale, "z": zero})
    np.testing.assert_array_equal(ours(content, {"x": wanted, "s": scale, "z": zero}), real)


@each
def test_bits_of_constants(kind: str) -> None:
    with np.errstate(all="ignore"):
        wanted = ALL.view(NUMPY[kind]).astype(np.float32)
        nearest = numbers().astype(NUMPY[kind]).astype(np.float32)
    np.testing.assert_array_equal(float8.values(ALL, kind), wanted)
    found = float8.values(float8.bits(numbers(), kind, saturates=False), kind)
    np.testing.assert_array_equal(found, nearest)
    saturated = float8.values(float8.bits(numbers(), kind, saturates=True), kind)
    assert np.nanmax(np.abs(saturated)) == float8.values(np.uint8(FLOAT8[kind].greatest), kind)


@adapter
@each
def test_constant_weights_in_8_bits(kind: str) -> None:
    """A product with weights that a DequantizeLinear and a Cast make of constants."""
    helper = onnx.helper
    weights = np.random.default_rng(1).integers(0, 0x70, (6, 5)).astype(np.uint8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["a"]),
        helper.make_node("Cast", ["w"], ["b"], to=FLOAT),
        helper.make_node("MatMul", ["x", "a"], ["c"]),
        helper.make_node("MatMul", ["x", "b"], ["d"]),
        helper.make_node("Add", ["c", "d"], ["y"]),
    ]
    held = [
        helper.make_tensor("w", TYPES[kind], weights.shape, weights.tobytes(), raw=True),
        helper.make_tensor("s", FLOAT, (), [0.5]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", FLOAT, (3, 6))], [info("y", FLOAT, (3, 5))], held
    )
    opsets = [helper.make_opsetid("", 21)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    content = bytes(made.SerializeToString())
    x = np.random.default_rng(2).normal(size=(3, 6)).astype(np.float32)
    wanted = x @ (1.5 * float8.values(weights, kind))
    np.testing.assert_allclose(ours(content, {"x": x}), wanted, rtol=1e-4, atol=1e-5)
