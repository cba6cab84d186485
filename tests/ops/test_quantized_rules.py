"""Tests the data of 8-bit results: the fraction of a step to which hosts round first, and the
numbers of quantized epilogue ops, computed by hand. No device is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.test_layer_refusals import stored
from tests.ops.test_op_refusals import graph_of
from tflgpu_plugin.ir import EVEN, FACTOR_UNIT, Levels, Quantization, Tensor, levels
from tflgpu_plugin.ops import rounding, rows

PLAIN = Tensor("x", (2, 3))
HIGH = float((1 << 30) // FACTOR_UNIT)  # of a fraction of one half; its low part is 0


def channels(*scale: float, shape: tuple[int, ...] = (2, 3)) -> Tensor:
    """Returns a tensor that is quantized per channel, or with one scale."""
    return Tensor("w", shape, "i8", quantization=Quantization(scale, (0,) * len(scale), 1))


def parts(op: str, *inputs: Any, result: Tensor, **more: Any) -> tuple[float, ...]:
    graph = graph_of(op, *inputs, results=[result], **more)
    rule = rows()[op].rounding
    assert rule is not None
    return rule.parts(graph, graph.nodes[0])


POOL: dict[str, Any] = {"strides": (1, 1), "padding": "valid"}


@pytest.mark.parametrize(
    ("shape", "more", "wanted"),
    [
        ((1, 4, 4, 3), {**POOL, "window": (2, 3)}, 6.0),
        # Windows at the edges hold 2 of 3: 4, 6 and 9 elements
        ((1, 4, 4, 3), {"strides": (1, 1), "padding": "same", "window": (3, 3)}, 36.0),
        ((1, 4, 4, 3), {"strides": (1, 1), "padding": (1, 0, 0, 0), "window": (2, 4)}, 8.0),
        ((1, 3, 9, 3), {"strides": (2, 2), "padding": "same", "window": (2, 2)}, 4.0),
        ((1, 128, 128, 1), {**POOL, "window": (128, 128)}, 16_384.0),
        # 12 to 35 elements, which divide 1,058,400.
        ((1, 8, 9, 1), {"strides": (1, 1), "padding": "same", "window": (5, 7)}, 4096.0),
        ((1, 128, 129, 1), {**POOL, "window": (128, 129)}, 1.0),  # more than float32 tells apart
    ],
)
def test_an_average_is_rounded_to_parts_of_its_count(
    shape: tuple[int, ...], more: dict[str, Any], wanted: float
) -> None:
    assert parts("average_pool_2d", shape, result=stored(1), **more) == (wanted,)


@pytest.mark.parametrize(
    ("given", "result", "wanted"),
    [
        ([stored(2, 3), stored(2, 3)], stored(2, 3, scale=1.0), (2.0,)),  # a factor of 1/4
        ([stored(2, 3), channels(0.5, 0.25, 0.125)], stored(2, 3, scale=1.0), (2.0, 4.0, 8.0)),
        ([stored(2, 3), channels(0.5, 0.25, 0.125)], stored(3, 2, scale=1.0), (1.0,)),
        ([stored(2, 3), channels(0.5)], stored(3, 2, scale=1.0), (2.0,)),
        ([stored(2, 3), channels(2.0**-12)], stored(2, 3, scale=1.0), (4_096.0,)),
        ([stored(2, 3), channels(2.0**-14)], stored(2, 3, scale=1.0), (16_384.0,)),
        ([stored(2, 3), channels(2.0**-15)], stored(2, 3, scale=1.0), (16_384.0,)),
        ([stored(2, 3), PLAIN], stored(2, 3), (1.0,)),
        ([PLAIN, stored(2, 3)], stored(2, 3), (1.0,)),
        ([channels(0.5, 0.5, 0.5), stored(2, 3)], stored(2, 3), (1.0,)),
        ([stored(2, 3), None], stored(2, 3), (1.0,)),
        ([stored(2, 3), channels(0.5, 0.5)], stored(), (1.0,)),
    ],
)
def test_a_product_is_rounded_to_parts_of_its_factor(
    given: list[Any], result: Tensor, wanted: tuple[float, ...]
) -> None:
    assert parts("mul", *given, result=result) == wanted


A, B, Y = (float(np.float32(n)) for n in (0.1, 0.3, 0.7))
EXACT, FLOAT = A * B, float(np.float32(A * B))


@pytest.mark.parametrize(
    ("op", "dtype", "wanted"),
    [
        ("mul", "i8", (FLOAT, float(np.float32(FLOAT) / np.float32(Y)))),
        ("matmul", "i8", (FLOAT, FLOAT / Y)),
        ("fully_connected", "i8", (FLOAT, FLOAT / Y)),
        ("conv_2d", "i8", (EXACT, EXACT / Y)),
        ("conv_2d", "u8", (FLOAT, FLOAT / Y)),
    ],
)
def test_in_which_types_hosts_find_the_factor(
    op: str, dtype: str, wanted: tuple[float, float]
) -> None:
    """The types are those of mul.cc, kernel_util.cc and PopulateConvolutionQuantizationParams."""
    a, b, y = (Tensor("t", (2, 3), dtype, quantization=Quantization((n,), (0,))) for n in (A, B, Y))
    graph, rule = graph_of("mul", a, b, results=[y]), rows()[op].rounding
    assert rule is not None and rule.factor is not None
    assert rule.factor(graph, graph.nodes[0]) == wanted


@pytest.mark.parametrize("given", [[PLAIN, stored(2, 3)], [stored(2, 3), channels(1.0, 0.5)]])
def test_no_factor_where_there_are_several(given: list[Any]) -> None:
    graph, rule = graph_of("mul", *given, results=[stored(2, 3)]), rows()["mul"].rounding
    assert rule is not None and rule.factor is not None
    assert rule.factor(graph, graph.nodes[0]) is None


def test_which_results_are_rounded_with_their_zero_point() -> None:
    found = {name for name, row in rows().items() if row.rounding and row.rounding.stored}
    assert found == {"average_pool_2d", "resize_bilinear"}
    assert parts("add", PLAIN, PLAIN, result=stored(2, 3)) == (8_192.0,)
    assert rounding.INTERPOLATION.parts(graph_of("neg", PLAIN), None) == (4_096.0,)  # type: ignore[arg-type]


def made(op: str, *inputs: Any, scale: float = 1.0, even: bool = False, **more: Any) -> Any:
    """Returns (op, numbers) that a row builds for this node, or None."""
    how = Quantization((scale,), (3,), rounding=EVEN) if even else Quantization((scale,), (3,))
    result = Tensor("y", (2, 3), "i8", quantization=how)
    graph = graph_of(op, *inputs, results=[result], **more)
    rule = rows()[op].quantize
    assert rule is not None
    node = rule(graph, graph.nodes[0], levels(result))
    return None if node is None else (node.op, node.attributes["numbers"])


ENDS = Levels(1.0, -131.0, 124.0)[1:]
HALVES, QUARTERS = stored(2, 3), stored(2, 3, scale=0.25)
THREE = channels(0.5, 0.5, 0.5)


def test_sums_of_stored_numbers() -> None:
    """Units are twice the larger scale: a half and a quarter of it, and 2^-20 of the result."""
    wanted = (0.5, HIGH, 0.0, 0.0, 0.25, HIGH, 0.0, 1.0, 1.0, HIGH, 0.0, 19.0, *ENDS)
    assert made("add", HALVES, QUARTERS) == ("quantized_sum", wanted)
    minus = (*wanted[:4], -0.25, *wanted[5:])
    assert made("sub", HALVES, QUARTERS) == ("quantized_sum", minus)
    for other in (PLAIN, THREE):
        assert made("add", HALVES, other) is None and made("add", other, HALVES) is None
    # A result of 2^-20 of their unit and less is finer than they are.
    assert made("add", HALVES, HALVES, scale=2.0**-19) is not None
    assert made("add", HALVES, HALVES, scale=2.0**-20) is None


def test_sums_of_stored_numbers_to_even() -> None:
    """There is the scale, zero point and ratio of each operand; and the start and the levels of the
    result."""
    other = Tensor("b", (2, 3), "i8", quantization=Quantization((0.25,), (8,)))
    wanted = (0.5, 0.0, 0.5, 0.25, 8.0, 0.25, 1.0, 1.0, 3.0, *ENDS, 0.0)
    assert made("add", HALVES, other, even=True) == ("even_sum", wanted)
    assert made("sub", HALVES, other, even=True) is None
    # A constant that was dequantized keeps what it was stored as.
    known = replace(other, dtype="f32", data=np.zeros((2, 3), np.float32))
    assert made("add", HALVES, known, even=True) == ("even_sum", wanted)
    assert made("add", HALVES, PLAIN, even=True) is None
    assert made("add", PLAIN, PLAIN, even=True) is None


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_pairs_of_int16_have_one_scale_each(op: str) -> None:
    def short(*scale: float) -> Tensor:
        return replace(channels(*scale), dtype="i16")

    row = rows()[op].int16
    assert row is not None
    for given, refused in (
        ([short(0.5), short(0.25)], False),
        ([short(0.5), short(0.5, 0.5, 0.5)], True),
        ([short(0.5, 0.25, 0.5), short(0.5)], True),
    ):
        graph = graph_of(op, *given, results=[short(0.5)])
        assert (row.refuse(graph, graph.nodes[0]) is not None) == refused


def test_squares_of_stored_numbers() -> None:
    """Units of twice the larger scale, squared, 2^-14 of the result."""
    wanted = (0.5, HIGH, 0.0, 0.0, 0.25, HIGH, 0.0, 1.0, 1.0, HIGH, 0.0, 13.0, *ENDS)
    assert made("squared_difference", HALVES, QUARTERS) == ("quantized_squared_difference", wanted)
    assert made("squared_difference", HALVES, QUARTERS, scale=2.0**-13) is not None
    assert made("squared_difference", HALVES, QUARTERS, scale=2.0**-14) is None
    for other in (PLAIN, THREE):
        assert made("squared_difference", HALVES, other) is None
        assert made("squared_difference", other, HALVES) is None
    assert made("squared_difference", HALVES, QUARTERS, even=True) is None


def test_activations_of_stored_numbers() -> None:
    """A factor of 1/2 above zero, and of 1/8 below."""
    factors = (HIGH, 0.0, 0.0, HIGH, 0.0, -2.0)
    wanted = (0.5, 0.25, *factors, 1.0, *ENDS)
    assert made("prelu", HALVES, QUARTERS) == ("quantized_prelu", wanted)
    for sign in (1.0, -1.0):
        wanted = (0.5, *factors, 1.0, *ENDS)
        for negates, signs in ((False, (sign, 1.0)), (True, (1.0, sign))):
            found = made("leaky_relu", HALVES, alpha=0.25 * sign, negates=negates)
            assert found == ("quantized_leaky_relu", (*wanted, *signs))
    assert made("leaky_relu", PLAIN, alpha=0.25) is None
    assert made("leaky_relu", HALVES, alpha=0.25, even=True) is None
    # 2^-8 of a step; and of a 3 of 2^15, 2^15 / 3 / 256 = 2/3 * 2^6
    name, numbers = made("hard_swish", HALVES)
    assert name == "quantized_hard_swish"
    assert numbers == (0.5, 16_384.0, 7.0, 21_845.0, 6.0, 1.0, *ENDS)
    assert made("hard_swish", HALVES, scale=2.0**-7) is not None
    assert made("hard_swish", HALVES, scale=2.0**-8) is None
