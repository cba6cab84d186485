"""Tests integers of 4 and 2 bits in ONNX Runtime against its CPU kernels: casts, quantization,
counts that do not fill a byte, and dynamic shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import tflgpu_plugin  # noqa: E402
from tests.support.onnx_models import Array, cpu, session  # noqa: E402
from tflgpu_plugin.harness.onnx_values import results  # noqa: E402
from tflgpu_plugin.ir.packed import PACKED, pack, signed, unpack  # noqa: E402

pytestmark = pytest.mark.adapter
FLOAT = onnx.TensorProto.FLOAT
TYPES = {"uint4": 21, "int4": 22, "uint2": 25, "int2": 26}
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (1, 2, 3, 5), (2, 5, 7, 9)]
each = pytest.mark.parametrize("kind", TYPES)


def model(
    op: str, inputs: dict[str, tuple[int, Any]], result: int, constants: Any = (), **attributes: Any
) -> bytes:
    """Returns a model of one node with inputs of these element types and shapes."""
    info = onnx.helper.make_tensor_value_info
    names = [*inputs, *(held.name for held in constants)]
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    given = [info(name, element, shape) for name, (element, shape) in inputs.items()]
    shape = next(iter(inputs.values()))[1]
    graph = onnx.helper.make_graph([node], "g", given, [info("y", result, shape)], list(constants))
    opsets = [onnx.helper.make_opsetid("", 25)]
    return bytes(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()
    )


def check(content: bytes, *feeds: dict[str, Array]) -> None:
    """Compares the results with those of the CPU kernels; all nodes run on the GPU."""
    made, host = session(content), cpu(content)
    assert not [node.reason for node in tflgpu_plugin.report(made).nodes if node.reason]
    for fed in feeds:
        (found,), (wanted,) = results(made, fed), results(host, fed)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    assert tflgpu_plugin.report(made).host_runs == 0


def stored(kind: str, shape: tuple[int, ...]) -> Array:
    """Returns numbers of the type, each in a byte."""
    generator = np.random.default_rng(len(shape))
    return generator.integers(0, 1 << PACKED[kind], shape).astype(np.uint8)


@each
@pytest.mark.parametrize("shape", SHAPES)
def test_casts_of_all_shapes(kind: str, shape: tuple[int, ...]) -> None:
    number = TYPES[kind]
    check(model("Cast", {"x": (number, shape)}, FLOAT, to=FLOAT), {"x": stored(kind, shape)})
    x = np.asarray(np.random.default_rng(1).uniform(-100, 100, shape), np.float32)
    check(model("Cast", {"x": (FLOAT, shape)}, number, to=number), {"x": x})


@each
def test_floats_round_halves_away_from_zero(kind: str) -> None:
    x = np.arange(-256, 256, dtype=np.float32) / 16
    near = np.concatenate([x, np.nextafter(x, np.float32(-99)), np.nextafter(x, np.float32(99))])
    check(model("Cast", {"x": (FLOAT, near.shape)}, TYPES[kind], to=TYPES[kind]), {"x": near})


@each
@pytest.mark.parametrize("element", [2, 3, 4, 5, 6, 7, 9, 10])
def test_other_types(kind: str, element: int) -> None:
    """8 to 64 bits, bool and float16, in both directions."""
    dtype, number = onnx.helper.tensor_dtype_to_np_dtype(element), TYPES[kind]
    x = np.arange(-40 if element in (3, 5, 6, 7, 10) else 0, 87).astype(dtype)
    check(model("Cast", {"x": (element, x.shape)}, number, to=number), {"x": x})
    given = stored(kind, (4, 9))
    check(model("Cast", {"x": (number, given.shape)}, element, to=element), {"x": given})


@each
def test_one_session_takes_many_shapes(kind: str) -> None:
    content = model("Cast", {"x": (TYPES[kind], ["n", "m"])}, FLOAT, to=FLOAT)
    check(content, *({"x": stored(kind, (n, m))} for n, m in ((1, 1), (3, 5), (7, 9), (2, 8))))
    content = model("Cast", {"x": (FLOAT, ["n", "m"])}, TYPES[kind], to=TYPES[kind])
    feeds = [np.float32(stored(kind, (n, m))) for n, m in ((1, 1), (3, 5), (7, 9), (2, 8))]
    check(content, *({"x": one} for one in feeds))


@each
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("scales", [(), (7,)])
def test_quantized(kind: str, scales: tuple[int, ...], constant: bool) -> None:
    generator, number = np.random.default_rng(3), TYPES[kind]
    x = generator.normal(0, 9, (5, 7)).astype(np.float32)
    scale = generator.uniform(0.3, 2, scales).astype(np.float32)
    zero = np.asarray(stored(kind, scales), np.uint8)
    held = [] if not constant else [onnx.helper.make_tensor(
        "z", number, scales, pack(zero.reshape(-1), PACKED[kind]).tobytes(), raw=True)]  # fmt: skip
    more = {} if constant else {"z": (number, scales)}
    fed = {"s": scale} if constant else {"s": scale, "z": zero}
    inputs = {"x": (FLOAT, x.shape), "s": (FLOAT, scales), **more}
    check(model("QuantizeLinear", inputs, number, held, axis=1), {"x": x, **fed})
    inputs = {"x": (number, x.shape), "s": (FLOAT, scales), **more}
    content = model("DequantizeLinear", inputs, FLOAT, held, axis=1)
    check(content, {"x": stored(kind, x.shape), **fed})


@each
def test_numbers_come_out_of_bytes_as_they_were_packed(kind: str) -> None:
    numbers = stored(kind, (3, 11))
    bits = PACKED[kind]
    found = unpack(pack(numbers, bits), bits, signed(kind))[:, :11]
    assert found.dtype == (np.int8 if signed(kind) else np.uint8)
    np.testing.assert_array_equal(found.view(np.uint8) & ((1 << bits) - 1), numbers)
