"""Tests quantized ONNX graphs without onnxruntime: scales, and what complete and incomplete groups
become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.importer import rules
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.importer.model import HostNode, Value
from tflgpu_plugin.importer.support import support
from tflgpu_plugin.ir import EVEN, NUMBERS, Graph, Quantization, Target, verify
from tflgpu_plugin.ir.packed import unpack
from tflgpu_plugin.passes import pipeline as passes
from tflgpu_plugin.passes.quant.dequantize import widen
from tflgpu_plugin.providers.onnxruntime import blockwise, quantize, rearranging
from tflgpu_plugin.providers.onnxruntime.grouping import Grouping
from tflgpu_plugin.providers.onnxruntime.reader import read
from tflgpu_plugin.providers.onnxruntime.snapshot import Snapshot

CONSTANTS: dict[str, Any] = {
    "s": np.float32(0.5), "z": np.uint8(3), "t": np.float32(0.25), "y": np.uint8(7),
    "w": np.array([[1, -2], [3, 4]], np.int8), "v": np.array([0.1, 0.2], np.float32),
    "o": np.zeros(2, np.int8), "b": np.array([5, -6], np.int32),
    "p": np.float32([0.05, 0.1]), "q": np.zeros(2, np.int32),
}  # fmt: skip
KINDS = {"float32": "f32", "uint8": "u8", "int8": "i8", "int32": "i32"}
Given = tuple[str, Sequence[str], str]


def snapshot(nodes: Sequence[Given], kinds: dict[str, str], outputs: Sequence[str]) -> Snapshot:
    """Returns a snapshot with values of shape [4, 2] and the types in `kinds`; others are
    float32."""
    names = {name for _, reads, made in nodes for name in (*reads, made)}
    values = {name: Value(name, kinds.get(name, "f32"), (4, 2)) for name in names}
    for name, data in CONSTANTS.items():
        array = np.asarray(data)
        values[name] = Value(name, KINDS[array.dtype.name], array.shape, array)
    versions = {"Gemm": 13, "Relu": 14, "Det": 11}
    axes: dict[str, Any] = {"axis": 0}
    hosts = tuple(
        HostNode(k, op, "", versions.get(op, 13), f"n{k}", tuple(reads), (made,), (), axes)
        for k, (op, reads, made) in enumerate(nodes)
    )
    return Snapshot(hosts, values, tuple(outputs))


def group(op: str = "Gemm", between: Sequence[Given] = ()) -> list[Given]:
    """Returns the nodes of x -> DequantizeLinear -> op -> QuantizeLinear -> r."""
    weights: list[Given] = [
        ("DequantizeLinear", ("w", "v", "o"), "wf"),
        ("DequantizeLinear", ("b", "p", "q"), "bf"),
    ]
    reads = ("xf", "wf", "bf") if op == "Gemm" else ("xf",)
    last = between[-1][2] if between else "a"
    return [
        ("DequantizeLinear", ("x", "s", "z"), "xf"),
        *(weights if op == "Gemm" else []),
        (op, reads, "a"),
        *between,
        ("QuantizeLinear", (last, "t", "y"), "r"),
    ]


def supported(reading: Imported) -> Graph:
    graph = widen(reading.graph)
    for node in graph.nodes:
        assert support(graph, node, Target()) is None
    verify(graph)
    return graph


def test_a_group_becomes_one_layer_over_whole_numbers() -> None:
    made = snapshot(group(between=[("Relu", ("a",), "k")]), {"x": "u8", "r": "u8"}, ["r"])
    graph = passes.run(supported(read(made, {})))
    (node,) = graph.nodes
    (step,) = node.epilogue
    assert (node.op, step.op, node.sources) == ("fully_connected", "rescale", (0, 3, 4, 5))
    assert step.tensor is not None
    rows = graph.constant(step.tensor)
    # Bias, and input scale times weight scale through the result's.
    np.testing.assert_allclose(rows, [[0, -4096], [5, 4090], [0.2, 0.4]], rtol=1e-6)
    scale, unit, least, most, _ = step.parameters
    assert (scale, unit, least, most) == (0.5, 0.25, 0.0, 248.0)  # relu cuts below the zero point
    weights = graph.constant(node.inputs[1])
    np.testing.assert_array_equal(weights, [[1, 3], [-2, 4]])


def test_weights_keep_their_scales_along_the_right_axis() -> None:
    reading = read(snapshot(group(), {"x": "u8", "r": "u8"}, ["r"]), {})
    assert reading.arithmetic == {1, 2}
    layer = next(node for node in reading.graph.nodes if node.op == "fully_connected")
    weights = reading.graph.tensors[layer.inputs[1] or 0]
    assert weights.quantization is not None and weights.quantization.axis == 1
    np.testing.assert_allclose(weights.data, [[0.1, 0.6], [-0.2, 0.8]], rtol=1e-6)


def test_a_tensor_has_the_quantization_of_who_asks_first() -> None:
    nodes: list[Given] = [
        ("DequantizeLinear", ("x", "s", "z"), "f"),
        ("DequantizeLinear", ("x", "t", "y"), "g"),
    ]
    reading = read(snapshot(nodes, {"x": "u8"}, ["f", "g"]), {})
    held = reading.graph.tensors[reading.ids["x"]].quantization
    assert held == Quantization((0.5,), (3,), rounding=EVEN)
    ops = [node.op for node in reading.graph.nodes]
    assert ops[0] == "dequantize" and ops[-1] == "mul" and "round" in ops


def test_scales_of_a_run_are_computed_with() -> None:
    nodes: list[Given] = [("QuantizeLinear", ("a", "c"), "r")]
    given = snapshot(nodes, {"r": "u8"}, ["r"])
    values = {**given.values, "c": Value("c", "f32", ())}
    reading = read(replace(given, values=values), {})
    assert [node.op for node in reading.graph.nodes] == ["div", "round", "quantize"]
    assert reading.graph.tensors[reading.ids["r"]].quantization == NUMBERS
    supported(reading)


@pytest.mark.parametrize(
    ("shape", "wanted"), [((), 7), ((1,), ()), ((5,), (5, 1)), ((5, 1), 7), ((2, 5, 1), 7)]
)
def test_a_parameter_broadcasts_to_its_tensor(shape: tuple[int, ...], wanted: Any) -> None:
    """A parameter broadcasts to rank 3 along its second axis; one with more axes is used
    unchanged."""
    told: Any = SimpleNamespace(shape=lambda _: shape, reshape=lambda _, made: made)
    assert quantize.spread_over(told, 7, 3, 1) == wanted


def test_values_of_blocks_are_repeated_and_cut() -> None:
    given = np.float32([[1, 2], [3, 4]])
    np.testing.assert_array_equal(
        blockwise.repeated(given, 1, 3, (2, 5)), [[1, 1, 1, 2, 2], [3, 3, 3, 4, 4]]
    )
    assert blockwise.counts(1, 3, (2, 5)) == given.shape != blockwise.counts(1, 2, (2, 5))


def test_numbers_of_4_bits_come_out_of_bytes_low_half_first() -> None:
    packed = np.array([[0x21, 0xF8]], np.uint8)
    np.testing.assert_array_equal(unpack(packed, 4, False), [[1, 2, 8, 15]])
    np.testing.assert_array_equal(unpack(packed, 4, True), [[1, 2, -8, -1]])


def taken(made: Snapshot) -> tuple[list[set[int]], set[int]]:
    """Returns the host nodes of each partition, and those left out because of their group."""
    reading = read(made, {})
    grouping = Grouping(made, reading, False)
    graph = widen(reading.graph)
    judged = {n.id: support(graph, n, Target()) for n in graph.nodes}
    refused = rules.closed(graph, {n: reason for n, reason in judged.items() if reason})
    groups = grouping.group([n.id for n in graph.nodes if n.id not in refused])
    reason = rules.INCOMPLETE
    incomplete = {n.sources[0] for n in graph.nodes if refused.get(n.id) == reason}
    return [set(grouping.members[frozenset(g)]) for g in groups], incomplete


def test_a_group_goes_as_a_whole_or_not_at_all() -> None:
    whole = snapshot(group(), {"x": "u8", "r": "u8"}, ["r"])
    assert taken(whole) == ([{0, 1, 2, 3, 4}], set())
    refused = snapshot(group("Det"), {"x": "u8", "r": "u8"}, ["r"])
    assert taken(refused) == ([], {0, 2})
    # The next group begins with what the CPU leaves in 8 bits.
    more: list[Given] = [
        ("DequantizeLinear", ("r", "t", "y"), "h"),
        ("Relu", ("h",), "i"),
        ("QuantizeLinear", ("i", "t", "y"), "j"),
    ]
    both = snapshot([*group("Det"), *more], {"x": "u8", "r": "u8", "j": "u8"}, ["j"])
    assert taken(both) == ([{3, 4, 5}], {0, 2})


def test_what_is_dequantized_stays_with_its_reader() -> None:
    """A sum is scheduled at a CPU node; so is the DequantizeLinear of its other operand."""
    nodes: list[Given] = [
        ("Relu", ("u",), "ru"),
        ("Det", ("ru",), "d"),
        ("QuantizeLinear", ("ru", "s", "z"), "k"),
        ("DequantizeLinear", ("k", "s", "z"), "f"),
        ("Add", ("f", "d"), "g"),
        ("QuantizeLinear", ("g", "t", "y"), "r"),
    ]
    made = snapshot(nodes, {"k": "u8", "r": "u8"}, ["r"])
    groups, incomplete = taken(made)
    assert groups == [{0, 2}, {3, 4, 5}] and not incomplete


@pytest.mark.parametrize(("version", "fits"), [(2, False), (11, True), (13, True)])
def test_stored_numbers_are_padded_where_the_value_is_an_input(version: int, fits: bool) -> None:
    """Before opset 11 the value is an attribute, a real number."""
    node = SimpleNamespace(
        version=version, dtype=lambda: "u8", has=lambda k: k == 0, row=SimpleNamespace(name="Pad")
    )
    assert (rearranging.STORED(node) is None) == fits
