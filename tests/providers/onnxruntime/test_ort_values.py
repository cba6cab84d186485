"""Tests results of quantized ONNX nodes, imported without onnxruntime and run in numpy, against the
formulas of their operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.evaluation import nodes
from tests.support.onnx_nodes import MS, F, Node, rows
from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Graph, Node as Made

CHANCE = np.random.default_rng(11)


def stored(*shape: int, kind: Any = np.uint8) -> Array:
    limits = np.iinfo(kind)
    return CHANCE.integers(limits.min, limits.max + 1, shape).astype(kind)


def scales(*shape: int) -> Array:
    return CHANCE.uniform(0.01, 0.1, shape).astype(F)


def computed(node: Node, *fed: Array) -> list[Array]:
    """Returns the results, integers as stored numbers. `fed` are the inputs that are not
    constants."""
    reading = node.read()
    assert not reading.refusals, reading.refusals
    graph, waiting = reading.graph, iter(fed)
    known = {reading.ids[name]: next(waiting) for name in node.snapshot.inputs}
    known |= {t: one.data for t, one in graph.tensors.items() if one.data is not None}
    for made in graph.nodes:
        known[made.outputs[0]] = _computed(graph, made, known)
    return [known[reading.ids[name]] for name in node.snapshot.outputs]


def _computed(graph: Graph, made: Made, known: dict[int, Array]) -> Array:
    given = [None if t is None else known[t] for t in made.inputs]
    x, result = given[0], graph.tensors[made.outputs[0]]
    assert x is not None
    if made.op == "dequantize":
        held = graph.tensors[made.inputs[0] or 0].quantization
        assert held is not None and len(held.scale) == 1
        return (x.astype(np.float64) - held.zero_point[0]) * held.scale[0]
    if made.op == "quantize":
        held, limits = result.quantization, np.iinfo(NUMPY_DTYPES[result.dtype])
        assert held is not None and len(held.scale) == 1
        whole = np.round(x / np.float64(F(held.scale[0]))) + held.zero_point[0]
        return np.clip(whole, limits.min, limits.max).astype(NUMPY_DTYPES[result.dtype])
    if made.op == "cast":
        return x.astype(NUMPY_DTYPES[result.dtype])
    if made.op == "reshape":
        return x.reshape(result.shape)
    return nodes.run(graph, made, given)[0]


@pytest.mark.parametrize(
    ("direction", "version", "wanted"),
    [
        (b"LEFT", 28, [0, 4, 0, -(2**31), -8, 0]),
        (b"RIGHT", 28, [-1, 1, 0, 0, -2, -1]),
        (b"RIGHT", 11, [-4, 1, 0, 0, -2, -1]),
    ],
)
def test_all_bits_go_where_there_are_not_so_many(
    direction: bytes, version: int, wanted: list[int]
) -> None:
    """Shifting negative numbers right by all bits gives -1 (BitShift-28)."""
    x, by = np.int32([-4, 2, 7, 1, -4, -1]), np.int32([-1, 1, 32, 31, 1, 40])
    if version < 28:
        by = np.maximum(by, 0)
    node = Node("BitShift", ("i32", (6,)), ("i32", (6,)), version=version, direction=direction,
                kinds=["i32"])  # fmt: skip
    (y,) = computed(node, x, by)
    assert y.tolist() == wanted


def real(numbers: Array, scale: Any, zero: Any, axis: int = -1) -> Array:
    """Returns scale * (stored - zero); scale and zero may be arrays along an axis."""
    shape = [1] * numbers.ndim
    if np.size(scale) > 1 or np.size(zero) > 1:
        shape[axis] = max(np.size(scale), np.size(zero))
    part = [np.broadcast_to(np.ravel(one), np.prod(shape)).reshape(shape) for one in (scale, zero)]
    return part[0].astype(np.float64) * (numbers.astype(np.float64) - part[1])


def again(values: Array, scale: Any, zero: Any, axis: int = -1) -> Array:
    shape = [1] * values.ndim
    if np.size(scale) > 1:
        shape[axis] = np.size(scale)
    limits = np.iinfo(np.asarray(zero).dtype)
    whole = np.round(values / np.reshape(scale, shape)) + np.reshape(
        zero, shape if np.size(zero) > 1 else ()
    )
    return np.clip(whole, limits.min, limits.max)


def near(found: Array, wanted: Array, steps: int = 1) -> None:
    """Asserts that stored numbers are equal, or one step off next to halves."""
    assert found.shape == wanted.shape
    assert np.abs(found.astype(np.float64) - wanted).max(initial=0) <= steps
    assert (found != wanted).mean() < 0.05


A, B = stored(3, 5), stored(5, 4, kind=np.int8)
SA, SB, SY = F(0.03), scales(4), F(0.5)
ZA, ZB, ZY = np.uint8(7), stored(4, kind=np.int8), np.uint8(90)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_products_of_stored_numbers(known: bool, several: bool) -> None:
    """There are zero points along rows of the first factor, and scales and zero points along
    columns of the second."""
    za = stored(3) if several else ZA
    sb, zb = (SB, ZB) if several else (SB[0], ZB[0])
    wanted = real(A, SA, ZA, 0) @ real(B, sb, zb, 1)
    last: Any = B if known else ("i8", (5, 4))
    node = Node("QLinearMatMul", ("u8", (3, 5)), SA, ZA, last, sb, zb,
                SY, ZY, kinds=["u8"])  # fmt: skip
    near(computed(node, A, *([] if known else [B]))[0], again(wanted, SY, ZY))
    node = Node("MatMulInteger", ("u8", (3, 5)), last, za, zb, kinds=["i32"])
    sums = real(A, 1, za, 0) @ real(B, 1, zb, 1)
    np.testing.assert_array_equal(computed(node, A, *([] if known else [B]))[0], sums)
    bias = rows(4)
    node = Node(f"{MS}:MatMulIntegerToFloat", ("u8", (3, 5)), last, SA, SB, za, zb, bias)
    found = computed(node, A, *([] if known else [B]))[0]
    np.testing.assert_allclose(found, sums * SA * SB + bias, rtol=1e-5)


def test_products_of_more_axes() -> None:
    a, b = stored(2, 3, 5), stored(2, 5, 4, kind=np.int8)
    sb, zb = np.tile(scales(1, 1, 4), (2, 1, 1)), np.zeros((2, 1, 4), np.int8)
    given = [("u8", a.shape), SA, np.uint8(7), ("i8", b.shape), sb, zb, SY, ZY]
    node = Node("QLinearMatMul", *given, kinds=["u8"])
    wanted = (SA * (a.astype(float) - 7)) @ (sb * b.astype(float))
    near(computed(node, a, b)[0], again(wanted, SY, ZY))
    node = Node("MatMulInteger", ("u8", a.shape), ("i8", b.shape), kinds=["i32"])
    np.testing.assert_array_equal(computed(node, a, b)[0], a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_layer_of_stored_numbers(transposed: int) -> None:
    """Its bias has the scale of a product, and is also multiplied by alpha."""
    weights, bias = (B.T if transposed else B), stored(4, kind=np.int8).astype(np.int32) * 9
    zero, alpha = np.int8(3), 0.5
    sums = real(A, SA, ZA) @ real(B, SB, zero, 1) + bias * (SA * SB.astype(np.float64))
    given = [("u8", (3, 5)), SA, ZA, weights, SB, np.full(4, zero), bias]
    node = Node(f"{MS}:QGemm", *given, alpha=alpha, transB=transposed)
    np.testing.assert_allclose(computed(node, A)[0], alpha * sums, rtol=1e-5, atol=1e-5)
    node = Node(f"{MS}:QGemm", *given, SY, ZY, alpha=alpha, transB=transposed, kinds=["u8"])
    near(computed(node, A)[0], again(alpha * sums, SY, ZY))
    open_bias = [*given[:-1], ("i32", (4,))]
    node = Node(f"{MS}:QGemm", *open_bias, alpha=alpha, transB=transposed)
    np.testing.assert_allclose(computed(node, A, bias)[0], alpha * sums, rtol=1e-5, atol=1e-5)


def test_convolutions_of_stored_numbers() -> None:
    """Convolutions of one pixel are products with the weights of each output."""
    x, w = stored(1, 5, 1, 1), stored(4, 5, 1, 1, kind=np.int8)
    bias, zero = np.array([100, -200, 300, 5], np.int32), np.zeros(4, np.int8)
    flat = real(w[:, :, 0, 0], SB, zero, 0) @ real(x[0, :, 0, 0], SA, ZA)
    wanted = (flat + bias * (SA * SB.astype(np.float64))).reshape(1, 4, 1, 1)
    node = Node("QLinearConv", ("u8", x.shape), SA, ZA, w, SB, zero, SY, ZY, bias, kinds=["u8"])
    near(computed(node, x)[0], again(wanted, SY, ZY))
    for zeros in (np.array([3], np.int8), np.int8(-2)):
        sums = (w[:, :, 0, 0].astype(int) - zeros) @ (x[0, :, 0, 0].astype(int) - 7)
        for last, fed in ((w, (x,)), (("i8", w.shape), (x, w))):
            node = Node("ConvInteger", ("u8", x.shape), last, ZA, zeros, kinds=["i32"])
            np.testing.assert_array_equal(computed(node, *fed)[0].ravel(), sums)


def test_products_with_a_range_of_their_own() -> None:
    x = CHANCE.uniform(-2, 3, (3, 5)).astype(F)
    scale = (x.max() - x.min()) / 255
    zero = np.round(-x.min() / scale)
    a = np.clip(np.round(x / scale) + zero, 0, 255)
    wanted = (a - zero) @ (B.astype(int) - ZB) * (scale * SB) + rows(4)
    for last, fed in ((B, (x,)), (("i8", B.shape), (x, B))):
        node = Node(f"{MS}:DynamicQuantizeMatMul", (3, 5), last, SB, ZB, rows(4))
        np.testing.assert_allclose(computed(node, *fed)[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("axis", "count"), [(0, 3), (1, 4), (-1, 4), (1, 1)])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16])
def test_scales_along_an_axis(axis: int, count: int, known: bool, kind: Any) -> None:
    x, numbers = CHANCE.normal(0, 1, (3, 4)).astype(F), stored(3, 4, kind=kind)
    scale, zero = scales(count) * 5, (stored(count, kind=kind) // 4).astype(kind)
    name = {"uint8": "u8", "int8": "i8", "int16": "i16"}[zero.dtype.name]
    given = [scale, zero] if known else [(count,), (name, (count,))]
    fed = [] if known else [scale, zero]
    node = Node("QuantizeLinear", (3, 4), *given, axis=axis, kinds=[name])
    near(computed(node, x, *fed)[0], again(x, scale, zero, axis))
    node = Node("DequantizeLinear", (name, (3, 4)), *given, axis=axis)
    wanted = real(numbers, scale, zero, axis)
    np.testing.assert_allclose(computed(node, numbers, *fed)[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("axis", "block", "shape"), [(1, 2, (3, 2)), (0, 3, (1, 4)), (-1, 4, (3, 1))]
)
def test_scales_of_blocks(known: bool, axis: int, block: int, shape: tuple[int, ...]) -> None:
    x, numbers = CHANCE.normal(0, 1, (3, 4)).astype(F), stored(3, 4)
    scale, zero = scales(*shape) * 5, stored(*shape) // 4
    given = [scale, zero] if known else [shape, ("u8", shape)]
    fed = [] if known else [scale, zero]
    wide, shift = (np.repeat(one, block, axis).astype(float) for one in (scale, zero))
    settings = {"axis": axis, "block_size": block}
    node = Node("QuantizeLinear", (3, 4), *given, **settings, kinds=["u8"])
    near(computed(node, x, *fed)[0], np.clip(np.round(x / wide) + shift, 0, 255))
    node = Node("DequantizeLinear", ("u8", (3, 4)), *given, **settings)
    found = computed(node, numbers, *fed)[0]
    np.testing.assert_allclose(found, wide * (numbers - shift), rtol=1e-5, atol=1e-5)


def test_elements_of_stored_numbers() -> None:
    a, b = stored(3, 4), stored(3, 4)
    x, y = real(a, SA, ZA), real(b, F(0.05), np.uint8(100))
    both = [("u8", (3, 4)), SA, ZA, ("u8", (3, 4)), F(0.05), np.uint8(100)]
    result, scale, zero = (F(0.06), np.uint8(80)), F(0.06), np.uint8(80)
    for op, wanted in (("QLinearAdd", x + y), ("QLinearMul", x * y)):
        node = Node(f"{MS}:{op}", *both, *result, kinds=["u8"])
        near(computed(node, a, b)[0], again(wanted, scale, zero))
    node = Node(f"{MS}:QLinearConcat", *result, *both, axis=1, kinds=["u8"])
    near(computed(node, a, b)[0], again(np.concatenate([x, y], 1), scale, zero))
    choice = CHANCE.integers(0, 2, (3, 4)).astype(bool)
    node = Node(f"{MS}:QLinearWhere", ("bool", (3, 4)), *both, *result, kinds=["u8"])
    near(computed(node, choice, a, b)[0], again(np.where(choice, x, y), scale, zero))
    node = Node(f"{MS}:QLinearLeakyRelu", *both[:3], *result, alpha=0.2, kinds=["u8"])
    near(computed(node, a)[0], again(np.where(x < 0, 0.2 * x, x), scale, zero))


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_few_bits(bits: int) -> None:
    numbers = CHANCE.integers(0, 2**bits, (3, 2, 16))
    packed = numbers.astype(np.uint8)
    if bits == 4:
        packed = packed[..., ::2] | packed[..., 1::2] << 4
    scale, x = scales(3, 2), CHANCE.normal(0, 1, (2, 20)).astype(F)
    zeros = CHANCE.integers(0, 2**bits, (3, 2))
    held = zeros.astype(np.uint8)
    if bits == 4:
        held = held[:, :1] | held[:, 1:] << 4
    settings = {"K": 20, "N": 3, "block_size": 16, "bits": bits}
    for given, shift in (
        ([None], 2 ** (bits - 1)),
        ([held.ravel()], zeros[..., None]),
        ([zeros.astype(F).ravel()], zeros[..., None]),
    ):
        wide = ((numbers - shift) * scale[..., None]).reshape(3, -1)[:, :20]
        node = Node(f"{MS}:MatMulNBits", (2, 20), packed, scale.ravel(), *given, None, rows(3),
                    **settings)  # fmt: skip
        np.testing.assert_allclose(computed(node, x)[0], x @ wide.T + rows(3), rtol=1e-4)
