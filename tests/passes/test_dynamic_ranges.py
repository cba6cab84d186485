"""Tests the pass that recognizes quantization over the range of the values. No adapter is
needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import evaluate
from tests.support.dynamic_ranges import DynamicNet, dynamic_layer
from tflgpu_plugin.ir import NUMBERS, Quantization
from tflgpu_plugin.passes import pipeline
from tflgpu_plugin.passes.quant.dynamic_ranges import fuse_dynamic_quantization

SHAPE = (3, 5)


def ops_of(n: DynamicNet, *outputs: int) -> list[str]:
    graph = n.graph(*outputs)
    return evaluate.compared(graph, fuse_dynamic_quantization(graph), rtol=1e-12)


def test_differences_and_scale_are_one_node() -> None:
    n = DynamicNet(SHAPE)
    assert ops_of(n, n.op("mul", n.differences(), n.scale)) == ["dynamic_quantize", "mul"]


def test_layer_multiplies_its_sums_by_the_scales() -> None:
    """It takes two launches for its numbers, and its own."""
    made = pipeline.run(dynamic_layer()).nodes
    assert [node.op for node in made] == ["dynamic_quantize", "fully_connected"]


@pytest.mark.parametrize("shape", [(), (5,)])
def test_factors_of_the_scale_are_multiplied_with_it(shape: tuple[int, ...]) -> None:
    n = DynamicNet(SHAPE)
    scales = n.op("mul", n.scale, n.drawn(*shape, low=0.5))
    assert ops_of(n, n.op("mul", n.differences(), scales)) == ["dynamic_quantize", "mul"]


def test_layers_of_one_input_share_its_numbers() -> None:
    n = DynamicNet(SHAPE)
    each = [n.op(op, n.differences()) for op in ("abs", "square")]
    assert ops_of(n, *each) == ["dynamic_quantize", "abs", "square"]


def test_stored_numbers_that_others_read_stay() -> None:
    n = DynamicNet(SHAPE)
    ops = ops_of(n, n.differences(), n.in_bytes(n.stored))
    assert ops.count("dynamic_quantize") == 1 and ops.count("round") == 2


def _another_type(n: DynamicNet) -> int:
    return n.op("sub", n.in_bytes(n.stored, dtype="i8"), n.in_bytes(n.zero))


def _another_scale(n: DynamicNet) -> int:
    half = Quantization((0.5,), (0,), rounding=NUMBERS.rounding)
    return n.op("sub", n.in_bytes(n.stored, half), n.in_bytes(n.zero))


def _not_stored(n: DynamicNet) -> int:
    return n.op("sub", n.stored, n.zero)


@pytest.mark.parametrize("made", [_another_type, _another_scale, _not_stored])
def test_other_differences_stay(made: Callable[[DynamicNet], int]) -> None:
    n = DynamicNet(SHAPE)
    graph = n.graph(made(n))
    assert fuse_dynamic_quantization(graph) is graph


@pytest.mark.parametrize("n", [DynamicNet((3, 3), axes=(0,)), DynamicNet(SHAPE, steps=127.0)])
def test_other_ranges_stay(n: DynamicNet) -> None:
    graph = n.graph(n.differences())
    assert fuse_dynamic_quantization(graph) is graph
