"""Tests 8-bit SVDF layers: which tensors belong together, and what they become. No device is
needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.test_layer_refusals import held, stored
from tests.ops.test_op_refusals import graph_of, said
from tests.support.refused import code
from tflgpu_plugin.importer.support import support
from tflgpu_plugin.ir import NUMBERS, Array, Graph, Quantization, Target, Tensor
from tflgpu_plugin.passes.decompose import decompose

# 3 inputs, 4 features of rank 2, 5 steps; a batch of 2.
TOGETHER = "dtype.unsupported"
SCALES = "quantization.unsupported"


def weights(data: Array, scale: float = 0.25) -> Tensor:
    return Tensor("w", data.shape, f"i{8 * data.itemsize}", data, Quantization((scale,), (0,)))


def in_8_bits(changed: dict[int, Any] | None = None, y: Any = None, **attributes: Any) -> Graph:
    times = np.arange(20, dtype=np.int16).reshape(4, 5)
    given = [stored(2, 3), weights(np.ones((4, 3), np.int8)), weights(times, 2.0),
             Tensor("b", (2,), "i32", np.array([7, -9], np.int32), Quantization((3.0,), (0,))),
             replace(stored(2, 20, dtype="i16", scale=0.125), variable=True)]  # fmt: skip
    for position, value in (changed or {}).items():
        given[position] = value
    results = [y or stored(2, 2, scale=8.0), replace(given[4], variable=False)]
    return graph_of("svdf", *given, results=results, rank=2, activation="relu", **attributes)


def many(tensor: Tensor) -> Tensor:
    return replace(tensor, quantization=Quantization((0.5,) * 4, (0,) * 4))


SHORT, WHOLE = np.zeros((4, 5), np.int16), np.zeros(2, np.int32)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, None),
        ({3: None}, None),
        ({0: (2, 3)}, TOGETHER),
        ({2: weights(SHORT.astype(np.int8))}, TOGETHER),
        ({3: held(2)}, TOGETHER),
        ({4: stored(2, 20)}, TOGETHER),
        ({4: (2, 20)}, TOGETHER),
        ({3: Tensor("b", (3,), "i32", np.zeros(3, np.int32))}, "shape.mismatch"),
        ({1: held(4, 3)}, SCALES),
        ({1: many(weights(np.ones((4, 3), np.int8)))}, SCALES),
        ({2: many(weights(SHORT))}, SCALES),
        ({2: Tensor("w", (4, 5), "i16", SHORT)}, SCALES),
        ({4: many(stored(2, 20, dtype="i16"))}, SCALES),
        ({4: stored(2, 19, dtype="i16")}, "shape.mismatch"),
    ],
)
def test_what_belongs_together(changed: dict[int, Any], wanted: str | None) -> None:
    graph = in_8_bits({k: value for k, value in changed.items() if not isinstance(value, tuple)})
    given = [changed.get(k, graph.tensors.get(k)) for k in range(5)]
    found = said("svdf", *given, results=[graph.tensors[90]], rank=2)
    assert code(found) == wanted


def test_results_are_of_8_bits() -> None:
    graph = in_8_bits(y=Tensor("y", (2, 2)))
    given = [graph.tensors[k] for k in range(5)]
    assert code(said("svdf", *given, results=[graph.tensors[90]], rank=2)) == TOGETHER


@pytest.mark.parametrize(
    "changed",
    [
        {2: weights(SHORT)},
        {3: Tensor("b", (2,), "i32", WHOLE)},
        {4: stored(2, 20, dtype="i16")},
    ],
)
def test_and_nothing_of_it_beside_floats(changed: dict[int, Any]) -> None:
    given: list[Any] = [(2, 3), held(4, 3), held(4, 5), held(2), (2, 20)]
    y = Tensor("y", (2, 2))
    assert said("svdf", *given, results=[y], rank=2) is None
    for position, value in changed.items():
        given[position] = value
    assert code(said("svdf", *given, results=[y], rank=2)) == TOGETHER


@pytest.mark.parametrize("place", [2, 4])
def test_16_bits_have_scales(place: int) -> None:
    graph = in_8_bits()
    assert support(graph, graph.nodes[0], Target()) is None
    off = support(graph, graph.nodes[0], Target(), quantized=False)
    assert code(off) == "option.quantized"
    tensors = dict(graph.tensors)
    tensors[place] = replace(tensors[place], quantization=None)
    found = support(replace(graph, tensors=tensors), graph.nodes[0], Target())
    assert code(found) == "quantization.missing"


def test_what_they_become() -> None:
    """Sums over features times 0.5 * 0.25 / 0.125 = 1 are numbers of the memory, sums over time
    times 0.125 * 2 / 8 = 1 / 32 the result's; fractions of 1/2 are 2^15 and no low part."""
    graph = in_8_bits()
    made = decompose(graph)
    ops = [node.op for node in made.nodes]
    assert ops == ["fully_connected", "times_factor", "reshape", "reshape", "slice", "concat",
                   "reshape", "cast", "reshape", "mul", "reshape", "reduce_sum", "add",
                   "times_factor"]  # fmt: skip
    steps = [node for node in made.nodes if node.op == "times_factor"]
    assert steps[0].attributes["numbers"] == (0.125, 2.0**15, 0.0, 1.0, 1.0)
    assert steps[1].attributes["numbers"] == (1.0, 2.0**15, 0.0, -4.0, 8.0)
    for tensor in (4, 91, steps[0].outputs[0], *made.nodes[4].reads[:1]):
        held = made.tensors[tensor]
        assert (held.dtype, held.quantization, held.keep_f32) == ("i16", NUMBERS, True)
    assert made.tensors[4].variable and not made.tensors[91].variable
    product, total = made.nodes[9], made.nodes[12]
    (times,) = (node for node in made.nodes if node.outputs[0] == product.inputs[1])
    np.testing.assert_array_equal(made.tensors[times.operand()].data, np.arange(20).reshape(4, 5))
    assert {made.tensors[t].dtype for t in (*product.reads, *product.outputs)} == {"i32"}
    assert total.inputs[1] == 3 and steps[1].outputs == (90,)
    assert {node.attributes.get("activation", "none") for node in made.nodes} == {"none"}


def test_without_a_bias_zero_is_added() -> None:
    made = decompose(in_8_bits({3: None}))
    (last,) = (node for node in made.nodes if node.op == "add")
    zero = made.tensors[last.operand(1)]
    assert zero.dtype == "i32" and zero.data is not None and not zero.data.any()


def test_one_step_keeps_what_is_new() -> None:
    times = weights(np.ones((4, 1), np.int16))
    changed = {2: times, 4: stored(2, 4, dtype="i16")}
    made = decompose(in_8_bits(changed))
    assert "slice" not in {node.op for node in made.nodes}
    kept = next(node for node in made.nodes if node.outputs == (91,))
    assert made.tensors[kept.operand()].shape == (2, 4, 1)
