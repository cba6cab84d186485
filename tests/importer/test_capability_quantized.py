"""Tests the decision of support for quantized tensors: versions, scales, zero points, constants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.one_add import QUANTIZATION, TARGET, ask, quantized
from tests.support.refused import code
from tflgpu_plugin.importer.support import support
from tflgpu_plugin.ir import Graph, Node, Quantization, Tensor
from tflgpu_plugin.providers.tflite import ops


@pytest.mark.parametrize(("version", "claimed"), [(1, True), (2, True), (3, False)])
def test_quantized_tensors_have_a_range_of_their_own(version: int, claimed: bool) -> None:
    """For int8, version 2 of ADD is the first one."""
    reason = ask(quantized(version), edition="documented")
    assert (reason is None) == claimed
    assert reason is None or reason.startswith("This is version 3 of ADD. Versions 1 to 2 are")


def test_quantized_models_can_be_left_out() -> None:
    graph = quantized()
    assert support(graph, graph.nodes[0], TARGET, quantized=False) == (
        "Tensor 'sum' holds int8 values and the option enable_quantized_inference is off."
    )


def test_integers_that_are_not_quantized() -> None:
    assert ask(quantized(x=None)) == (
        "Tensor 'x' holds int8 values that are not quantized: it has no scale."
    )


def test_a_scale_per_channel_is_for_constants() -> None:
    reason = ask(quantized(y=Quantization((0.5, 0.5, 0.25), (0, 0, 0), 1)))
    assert reason == (
        "Tensor 'y' holds int8 values computed at run time with a scale per channel; only "
        "constants may have that."
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_make_no_sense(scale: float) -> None:
    reason = ask(quantized(y=Quantization((scale,), (0,))))
    assert reason is not None and reason.endswith("which must be positive.")


def test_int16() -> None:
    """Rows say whether the operator takes int16, whose zero point is 0."""
    assert code(ask(short("LOG_SOFTMAX"))) == "dtype.unsupported"
    assert ask(short("LOG_SOFTMAX")) == (
        "Tensor 'sum' holds int16 values; quantized tensors must be int8 or uint8."
    )
    assert ask(short("RESHAPE")) is None
    assert ask(short("RESHAPE", (7,))) == (
        "Tensor 'sum' holds int16 values with a zero point, which must be 0."
    )
    assert ask(short("ADD", sum=None)) == (
        "Tensor 'sum' holds int16 values that are not quantized: it has no scale."
    )
    assert code(ask(short("ADD", sum=None))) == "quantization.missing"
    assert ask(short("LOG_SOFTMAX", x=None, y=None, sum=None)) == (
        "Tensor 'sum' holds int16 values; quantized tensors must be int8 or uint8."
    )


def test_scales_of_int16_are_compared_more_closely() -> None:
    """A relative difference of 1e-5 is a third of a step of the largest number."""
    for dtype, alike in (("i16", False), ("i8", True)):
        other = Quantization((0.5 * (1 + 1e-5),), (0,))
        found = ask(short("MAXIMUM", dtype=dtype, op="maximum", sum=other))
        assert (found is None) == alike, found


def short(row: str, zero: tuple[int, ...] = (0,), dtype: str = "i16", **more: Any) -> Graph:
    """Returns a graph of one node of this row with tensors of int16."""
    held = dict.fromkeys(("x", "y", "sum"), Quantization((0.5,), zero)) | {"op": "add"} | more
    graph = quantized(dtype=dtype, **held)
    node = replace(graph.nodes[0], row=ops.HOST_OPS[row])
    return replace(graph, nodes=(node,))


def test_stored_numbers_must_mean_the_same() -> None:
    """Hosts take the larger stored number, whatever value it represents."""
    other = Quantization((0.25,), (3,))
    assert ask(quantized(op="maximum", sum=other)) == (
        "Tensors 'x' and 'sum' are quantized differently; ADD needs equal scales and zero points."
    )
    assert ask(quantized(op="add", sum=other)) is None


def test_an_int32_bias_must_be_constant() -> None:
    shapes = {"x": (1, 4), "weights": (3, 4), "bias": (3,), "y": (1, 3)}
    types = {"x": "i8", "weights": "i8", "bias": "i32", "y": "i8"}
    tensors = {
        k: Tensor(name, shape, types[name], quantization=QUANTIZATION)
        for k, (name, shape) in enumerate(shapes.items())
    }
    attributes = {"keep_num_dims": False, "activation": "none"}
    node = Node(0, "fully_connected", (0, 1, 2), (3,), attributes)
    graph = Graph(tensors, (node,), (0, 1, 2), (3,))
    assert ask(graph) == "Bias 'bias' holds int32 values that are only known when the model runs."
