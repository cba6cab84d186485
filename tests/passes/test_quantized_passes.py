"""Tests passes over quantized graphs: tensors that become integers, and those that do not. No
device is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Array, EpilogueOp, Graph, Node, Quantization, Shape, Tensor
from tflgpu_plugin.ops import views
from tflgpu_plugin.passes import verifier
from tflgpu_plugin.passes.quant import integer_weights, requantize
from tflgpu_plugin.passes.quant.dequantize import dequantize
from tflgpu_plugin.passes.quant.fake_quantization import fake_quantize
from tflgpu_plugin.passes.quant.qdq_fusion import fuse_qdq

AWAY = Quantization((0.5,), (3,))
EVEN = Quantization((0.25,), (10,), rounding=quantization.EVEN)
SHAPE = (1, 4, 4, 8)


def stored(own: Quantization | None = EVEN, shape: Shape = SHAPE, dtype: str = "u8") -> Tensor:
    return Tensor("", shape, dtype, quantization=own)


def graph(tensors: Mapping[int, Tensor], *nodes: tuple[str, tuple[int, ...], int]) -> Graph:
    """Returns a graph whose input is the first tensor, and whose output is the last node's
    result."""
    made = tuple(Node(k, op, inputs, (output,)) for k, (op, inputs, output) in enumerate(nodes))
    return Graph(tensors, made, (0,), (nodes[-1][2],))


# ---- means --------------------------------------------------------------------------------------


def mean(x: Tensor, result: Tensor, *steps: EpilogueOp) -> Node:
    axes = np.array([1, 2], np.int32)
    tensors = {0: x, 1: Tensor("", (2,), "i32", axes), 2: result}
    node = Node(0, "mean", (0, 1), (2,), {"keep_dims": True}, epilogue=steps)
    (made,) = fake_quantize(Graph(tensors, (node,), (0,), (2,))).nodes
    return made


@pytest.mark.parametrize(
    ("x", "result", "step"),
    [
        (stored(), stored(EVEN), "rescale"),
        (stored(AWAY), stored(AWAY), "requantize_small"),
        (Tensor("", SHAPE), stored(EVEN), "fake_quant_even"),  # sums of real numbers
        (stored(AWAY, (1, 0, 4, 8)), stored(AWAY), "fake_quant"),  # of nothing
    ],
)
def test_only_sums_of_stored_numbers_are_whole(x: Tensor, result: Tensor, step: str) -> None:
    (made,) = mean(x, result).epilogue
    assert made.op == step


def test_a_mean_that_goes_on_is_rounded_at_its_end() -> None:
    found = mean(stored(), stored(EVEN), EpilogueOp("neg")).epilogue
    assert [each.op for each in found] == ["neg", "fake_quant_even"]


@pytest.mark.parametrize(
    ("factor", "count"), [(0.7, 1), (0.7, 1000), (0.7 * 2.0**-28, 1000), (1.3, 64), (3.0, 63)]
)
def test_the_fraction_of_a_mean_is_that_of_the_reference_kernel(factor: float, count: int) -> None:
    """The sum is shifted left by the number of bits of the count (the right shift stays at most
    31), then divided."""
    fraction, exponent = np.frexp(factor)
    whole, left = round(float(fraction) * (1 << 31)), min(count.bit_length() - 1, 31 + exponent)
    rows = requantize.mean_rows(factor, count, 4)
    assert rows.shape == (5, 4) and not rows[:2].any()
    assert (rows == rows[:, :1]).all()
    high, low = (int(float(row[0]) * 2**31) for row in rows[2:4])
    assert high + low == (whole << int(left)) // count
    assert np.log2(rows[4, 0]) == exponent - left >= -31


@pytest.mark.parametrize(
    ("own", "numbers"),
    [(AWAY, (0.5, -3.0, 252.0, 1.0, 0.0)), (EVEN, (0.25, -10.0, 245.0))],
)
def test_each_result_of_a_node_without_steps_is_rounded_by_a_node(
    own: Quantization, numbers: tuple[float, ...]
) -> None:
    other = Quantization((2.0,), (0,))
    tensors = {k: stored(own, (1, 4)) for k in range(1, 5)} | {0: stored(other, (1, 8))}
    nodes = (
        Node(0, "split", (0,), (1, 2), {"axis": 1}),
        *(Node(k, "reshape", (k,), (k + 2,), {"shape": (1, 4)}) for k in (1, 2)),
    )
    found = fake_quantize(Graph(tensors, nodes, (0,), (3, 4))).nodes
    assert [node.op for node in found] == ["split", "quantize", "quantize", "reshape", "reshape"]
    assert [node.attributes["parameters"] for node in found[1:3]] == [numbers] * 2
    assert [node.inputs + node.outputs for node in found[1:3]] == [
        (raw, t) for raw, t in zip(found[0].outputs, (1, 2), strict=True)
    ]
    assert len({node.id for node in found}) == 5


# ---- between a dequantize and a quantize --------------------------------------------------------


def test_what_computes_between_scales_gives_real_numbers() -> None:
    """Only readers of a dequantize that move elements keep stored numbers."""
    tensors = {0: stored(), **{k: Tensor("", SHAPE) for k in range(1, 6)}}
    found = fuse_qdq(
        graph(
            tensors,
            ("dequantize", (0,), 1),
            ("sin", (1,), 2),
            ("abs", (2,), 3),
            ("max_pool_2d", (1,), 4),
            ("add", (3, 4), 5),
        )
    )
    assert [node.op for node in found.nodes] == ["sin", "abs", "max_pool_2d", "add"]
    assert [node.inputs[0] for node in found.nodes] == [0, 2, 0, 3]
    held = {t: found.tensors[t].dtype for t in (2, 3, 4, 5)}
    assert held == {2: "f32", 3: "f32", 4: "u8", 5: "f32"}
    assert found.tensors[4].quantization == EVEN


@pytest.mark.parametrize("own", [AWAY, EVEN])
def test_only_even_halves_are_fused(own: Quantization) -> None:
    tensors = {0: stored(own), 1: Tensor("", SHAPE), 2: Tensor("", SHAPE), 3: stored(own)}
    nodes = [("dequantize", (0,), 1), ("sin", (1,), 2), ("quantize", (2,), 3)]
    found = [node.op for node in fuse_qdq(graph(tensors, *nodes)).nodes]
    assert found == (["sin"] if own is EVEN else ["dequantize", "sin", "quantize"])


def test_what_leaves_the_graph_stays_in_real_numbers() -> None:
    tensors = {0: stored(), 1: Tensor("", SHAPE), 2: Tensor("", SHAPE)}
    made = graph(tensors, ("dequantize", (0,), 1), ("max_pool_2d", (1,), 2))
    found = fuse_qdq(made)
    assert [node.op for node in found.nodes] == ["max_pool_2d"]
    assert found.tensors[2].dtype == "f32"


@pytest.mark.parametrize(
    ("first", "held"),
    [("sin", ["u8", "u8", "u8"]), ("", ["f32", "u8", "u8"]), ("dequantize", ["u8", "u8", "u8"])],
)
def test_what_is_moved_before_a_quantize_is_quantized_where_it_is_made(
    first: str, held: list[str]
) -> None:
    """The node that computes the value is quantized; inputs of a run, and values that are stored
    already, are not."""
    finer = Quantization((0.125,), (10,), rounding=quantization.EVEN)
    source = stored(finer) if first == "dequantize" else Tensor("", SHAPE)
    tensors = {0: source, **{k: Tensor("", SHAPE) for k in (1, 2, 3)}, 4: stored()}
    begin = 1 if first else 0
    nodes = [("max_pool_2d", (begin,), 2), ("max_pool_2d", (2,), 3), ("quantize", (3,), 4)]
    found = fuse_qdq(graph(tensors, *([(first, (0,), 1)] if first else []), *nodes))
    made = [node for node in found.nodes if node.op != "quantize"]
    assert [node.op for node in made][-2:] == ["max_pool_2d", "max_pool_2d"]
    assert [found.tensors[t].dtype for t in (made[-2].operand(), 2, 4)] == held
    assert found.tensors[2].quantization == EVEN and made[-1].outputs == (4,)


@pytest.mark.parametrize(("value", "dtype"), [(0.0, "u8"), (1.0, "f32"), (2.0, "f32")])
def test_elements_with_others_around_them_are_real_numbers(value: float, dtype: str) -> None:
    """The padding value zero has a level in every quantization."""
    wide = (1, 6, 4, 8)
    around = views.padded(SHAPE, [(0, 0), (1, 1), (0, 0), (0, 0)], value)
    tensors = {0: stored(), 1: Tensor("", SHAPE), 2: Tensor("", wide), 3: Tensor("", wide)}
    nodes = (
        Node(0, "dequantize", (0,), (1,)),
        Node(1, "view", (1,), (2,), {"view": around}),
        Node(2, "sin", (2,), (3,)),
    )
    found = fuse_qdq(Graph(tensors, nodes, (0,), (3,)))
    assert [node.op for node in found.nodes] == ["view", "sin"]
    assert found.tensors[2].dtype == dtype


# ---- numbers ------------------------------------------------------------------------------------


def test_plain_numbers_have_a_scale_of_one() -> None:
    assert quantization.parameters(Tensor("", (1,), "i32")) == (1.0, 0.0)
    assert quantization.parameters(stored()) == (0.25, 10.0)
    with pytest.raises(ValueError, match="per channel"):
        quantization.parameters(stored(Quantization((1.0, 2.0), (0, 0))))


def scaled(scale: float, zero: int = 3, dtype: str = "u8") -> Tensor:
    return stored(Quantization((scale,), (zero,)), dtype=dtype)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (scaled(0.5), scaled(0.5), True), (scaled(0.5), scaled(0.5, 4), False),
        (scaled(1.0), scaled(1.0001), True), (scaled(1.0), scaled(1.000101), False),
        (scaled(1.0001), scaled(1.0), True), (scaled(1.000101), scaled(1.0), False),
        (scaled(1000.0), scaled(1000.09), True), (scaled(1e-3), scaled(1.001e-3), False),
        (scaled(0.5), scaled(0.5, dtype="i8"), False),
        (scaled(0.5), scaled(0.5, dtype="f32"), True),
        (scaled(0.5, dtype="f32"), scaled(0.5), True), (scaled(0.5), stored(None), False),
        (stored(None), scaled(0.5), False), (stored(None), stored(None), False),
        (scaled(0.5), stored(Quantization((0.5, 0.5), (3, 3))), False),
        (stored(Quantization((0.5, 0.5), (3, 3))), scaled(0.5), False),
    ],
)  # fmt: skip
def test_quantizations_are_alike_when_equal_numbers_stand_for_equal_values(
    a: Tensor, b: Tensor, same: bool
) -> None:
    assert quantization.alike(a, b) == same


@pytest.mark.parametrize(
    ("tensor", "real"),
    [
        (scaled(1.0), True), (stored(None), False), (scaled(1.0, dtype="i32"), False),
        (stored(EVEN, dtype="i32"), True), (stored(EVEN, dtype="i16"), True),
        (stored(EVEN, dtype="f32"), False), (stored(None, dtype="i32"), False),
    ],
)  # fmt: skip
def test_integers_with_scales_stand_for_real_numbers(tensor: Tensor, real: bool) -> None:
    assert quantization.real(tensor) == real


def test_the_nearest_step_of_a_limit() -> None:
    inf = float("inf")
    pairs = (
        (2.5, 3.0),
        (-2.5, -3.0),
        (2.4, 2.0),
        (-2.4, -2.0),
        (0.0, 0.0),
        (inf, inf),
        (-inf, -inf),
    )
    for steps, wanted in pairs:
        assert quantization.nearest(steps * 0.5, 0.5) == wanted


def test_factors_in_fixed_point_are_those_of_the_reference_kernels() -> None:
    factors = np.array([0.75, 1.0, 3.0, 1 - 2.0**-40, 0.5 * 2.0**-31, 0.5 * 2.0**-32])
    fractions, shifts = quantization.fixed_point(factors)
    assert list(fractions) == [3 << 29, 1 << 30, 3 << 29, 1 << 30, 1 << 30, 0]
    assert list(shifts) == [0, 1, 2, 1, -31, 0]


STORED = np.arange(-6, 6).reshape(3, 4)


def weights(data: Any, scale: tuple[float, ...] = (0.5,), axis: int = 0) -> Tensor:
    return Tensor("", np.shape(data), data=data, quantization=Quantization(scale, (0,), axis))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (weights(np.float32(STORED * 0.5)), STORED),
        (weights(np.float32(STORED * [[0.5], [1], [2]]), (0.5, 1.0, 2.0)), STORED),
        (weights(np.float32(STORED * 0.5 + 0.004)), STORED),  # less than a hundredth of a step
        (weights(np.float32(STORED * 0.5 - 0.006)), None),
        (weights(np.float32(STORED * 0.5 + 0.005025)), None),
        (weights(np.float32(STORED * [0.5, 1, 2, 4]), (0.5, 1.0, 2.0, 4.0), 1), None),
        (weights(np.float32(STORED * 0.5), (0.5, 0.5)), None),
        (weights(np.float64(STORED * 0.5)), None),
        (weights(np.float32(STORED * 0.5 * 42)), STORED * 42),
        (weights(np.float32(STORED * 0.5 * 43)), None),  # 258
        (weights(np.float32([[127.5, -127.5]])), np.array([[255, -255]])),
        (weights(np.float32([[127.5, -128.0]])), None),
        (Tensor("", (3, 4), data=np.float32(STORED)), None),
        (Tensor("", (3, 4), quantization=AWAY), None),
    ],
)
def test_weights_on_levels_are_whole_numbers(given: Tensor, wanted: Array | None) -> None:
    found = integer_weights.numbers_on_levels(given)
    if wanted is None:
        assert found is None
    else:
        assert found is not None and found.dtype == np.int16
        np.testing.assert_array_equal(found, wanted)


def steps(*ops: str, start: int = 5) -> tuple[EpilogueOp, ...]:
    """Returns fused epilogue ops, each with a tensor of its own."""
    return tuple(EpilogueOp(op, k) for k, op in enumerate(ops, start))


@pytest.mark.parametrize(
    ("op", "inputs", "epilogue", "may"),
    [
        ("fully_connected", (0, 1, None), (), True),
        ("conv_2d", (0, 1), steps("add"), True),
        ("fully_connected", (0, 1), steps("add", "mul", "add"), True),
        ("fully_connected", (0, 1), steps("add", "mul", "add", "mul"), False),
        ("fully_connected", (0, 1), (*steps("add", "mul", "add"), EpilogueOp("relu")), True),
        ("fully_connected", (0, 1), (EpilogueOp("whole"),), True),
        ("fully_connected", (0, None), (), False),
        ("fully_connected", (0,), (), False),
        ("depthwise_conv_2d", (0, 1), (), False),  # its outputs come last
        ("add", (0, 1), (), False),
    ],
)
def test_layers_whose_weights_may_be_whole(
    op: str, inputs: tuple[int | None, ...], epilogue: tuple[EpilogueOp, ...], may: bool
) -> None:
    assert integer_weights.may_be_whole(Node(0, op, inputs, (2,), epilogue=epilogue)) == may


def test_scales_are_a_step_of_the_layer_that_reads_whole_weights() -> None:
    for scale in ((0.5,), (0.5, 1.0, 2.0)):
        given = weights(np.float32(STORED * np.reshape(scale, (-1, 1))), scale)
        tensors = {0: Tensor("", (1, 4)), 1: given, 2: Tensor("", (1, 3))}
        node = Node(0, "fully_connected", (0, 1, None), (2,), epilogue=(EpilogueOp("relu"),))
        found = integer_weights.keep_integer_weights(Graph(tensors, (node,), (0,), (2,)))
        (layer,) = found.nodes
        assert layer.inputs[0] == 0 and layer.inputs[1] != 1
        np.testing.assert_array_equal(found.constant(layer.inputs[1]), STORED)
        first, last = layer.epilogue
        assert (first.op, last.op) == ("mul", "relu")
        if len(scale) == 1:
            assert first == EpilogueOp("mul", None, (0.5,))
        else:
            np.testing.assert_array_equal(found.constant(first.tensor), scale)


def test_operands_after_a_bias_in_int32_stay() -> None:
    """The bias is a multiple of the product of the scales of input and weights."""
    size = np.array(SHAPE, np.int32)
    tensors = {
        0: stored(AWAY, dtype="i8"),
        1: weights(np.ones((8, 1, 1, 8), np.int8)),
        2: Tensor("", (8,), "i32", np.arange(8, dtype=np.int32)),
        3: Tensor("", (4,), "i32", size),
        4: stored(AWAY, dtype="i8"),
    }
    node = Node(0, "transpose_conv", (0, 1, 2, 3), (4,), {"padding": "same"})
    made = dequantize(Graph(tensors, (node,), (0,), (4,)))
    (found,) = made.nodes
    bias = made.constant(found.inputs[2])
    assert bias is not None
    np.testing.assert_array_equal(bias, np.arange(8) * 0.5 * 0.5)
    assert found.inputs[:2] == (0, 1) and found.inputs[3:] == (3,)


# ---- transposed convolutions over int16 ---------------------------------------------------------


def test_sums_of_digits_keep_the_shape_that_a_node_states() -> None:
    """Without it a transposed convolution would have a smaller result."""
    short, weights = Quantization((0.5,), (0,)), Quantization((0.25,), (0,))
    size, shape = np.array([1, 6, 6, 1], np.int32), (1, 6, 6, 1)
    tensors = {
        0: Tensor("", (1, 3, 3, 2), "i16", quantization=short),
        1: Tensor("", (1, 3, 3, 2), "i8", np.ones((1, 3, 3, 2), np.int8), quantization=weights),
        2: Tensor("", (4,), "i32", size),
        3: Tensor("", shape, "i16", quantization=short),
    }
    given = {"strides": (2, 2), "padding": "same", "activation": "none"}
    node = Node(0, "transpose_conv", (0, 1, None, 2), (3,), given)
    made = fake_quantize(Graph(tensors, (node,), (0,), (3,)))
    verifier.check_shapes(made)
    sums = [each for each in made.nodes if each.op == "transpose_conv"]
    assert sums and all(made.shape(each.outputs[0]) == shape for each in sums)
