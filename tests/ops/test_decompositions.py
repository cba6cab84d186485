"""Tests decompositions that no host case needs: casts between types that are equal on the device,
and 8-bit LSTMs. No device is needed."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from tests.ops.test_layer_refusals import X, stored, whole
from tests.ops.test_op_refusals import graph_of
from tflgpu_plugin.ir import EVEN, Node, Quantization, Target, Tensor
from tflgpu_plugin.ops import scatter
from tflgpu_plugin.ops.quantization import refuse_cast
from tflgpu_plugin.passes.decompose import decompose


def made(op: str, *inputs: Any, **more: Any) -> list[Node]:
    return list(decompose(graph_of(op, *inputs, **more)).nodes)


def tensor(dtype: str) -> Tensor:
    """Returns a tensor of plain numbers; those in 8 bits are their own values."""
    held = Quantization((1.0,), (0,), rounding=EVEN) if dtype in ("i8", "u8") else None
    return Tensor("t", X, dtype, quantization=held)


@pytest.mark.parametrize(
    ("source", "result", "ops"),
    [
        ("f32", "f16", ["reshape"]),
        ("f32", "f32", ["reshape"]),
        ("bool", "f32", ["reshape"]),
        ("bool", "bool", ["reshape"]),
        ("i32", "i64", ["reshape"]),
        ("u8", "f32", ["dequantize", "reshape"]),
        ("f32", "u8", ["equal", "where", "maximum", "minimum", "cast", "cast", "quantize"]),
        ("bool", "i8", ["reshape", "quantize"]),
        ("f32", "bool", ["cast"]),
        ("u8", "bool", ["cast"]),
        ("i32", "bool", ["cast"]),
        ("i32", "f32", ["cast"]),
        ("f32", "i32", ["cast"]),
        ("u8", "i64", ["cast"]),
        ("f32", "bf16", ["to_bfloat16"]),
        ("bool", "bf16", ["to_bfloat16"]),
        ("i32", "bf16", ["cast", "to_bfloat16"]),
        ("u8", "bf16", ["dequantize", "reshape", "to_bfloat16"]),
        ("bf16", "bf16", ["reshape"]),
        ("bf16", "f16", ["from_bfloat16"]),
        ("bf16", "i64", ["from_bfloat16", "cast"]),
        ("bf16", "bool", ["cast"]),
        ("c64", "f32", ["view", "reshape"]),
    ],
)
def test_casts(source: str, result: str, ops: list[str]) -> None:
    found = made("cast", tensor(source), results=[tensor(result)])
    assert [node.op for node in found] == ops


@pytest.mark.parametrize(("source", "result"), [("f32", "c64"), ("c64", "i32"), ("c64", "c64")])
def test_complex_numbers_become_float32_alone(source: str, result: str) -> None:
    graph = graph_of("cast", tensor(source), results=[tensor(result)])
    refusal = refuse_cast(graph, graph.nodes[0], Target())
    assert refusal is not None and refusal.code == "dtype.unsupported"


def test_an_lstm_in_8_bits_computes_with_integers() -> None:
    """Stored numbers are clamped: with a scale of 2^-9, 0.59 is 302 of them."""
    state, weights = stored(2, 4, dtype="i16", scale=2.0**-9), whole(4, 3)
    inputs = [stored(2, 3), *[weights] * 4, *[whole(4, 4)] * 4, *[None] * 3]
    bias = Tensor("b", (4,), "i32", np.array([1, -1, 65536, -65537], np.int32))
    inputs += [*[bias] * 4, None, None, stored(2, 4), state, *[None] * 4]
    y = [stored(2, 4), stored(2, 4), state]
    given = {"hidden": (2.0**-7, 3.0), "cell_clip": 0.59}
    graph = decompose(graph_of("lstm_full", *inputs, results=y, **given))
    assert [node.op for node in graph.nodes][-3:] == ["fully_connected", "lstm", "reshape"]
    product, cell, last = graph.nodes[-3:]
    assert product.inputs[2] is None
    np.testing.assert_array_equal(graph.constant(product.inputs[1]), np.full((16, 3), 127))
    numbers = graph.constant(cell.inputs[9])
    assert numbers is not None
    np.testing.assert_array_equal(numbers[:4, 3] * 65536 + numbers[:4, 7], bias.data)
    # A factor is a fraction of 31 bits in two parts, times a power of two: 0.25 * 2^12 here.
    np.testing.assert_array_equal(numbers[:, :3], np.tile([2.0**15, 0, 11], (16, 1)))
    levels = (0.5, -128.0, 127.0, 3.0, 2.0**15, 0.0, -22.0, 2.0**-9, 6.0, 302.0)
    assert cell.attributes["stored"] == levels
    assert cell.attributes["time_axis"] == 0 and cell.attributes["gates"] == "ifco"
    assert last.attributes["shape"] == (2, 4)


def test_what_lies_in_between_is_not_rounded() -> None:
    """This holds whether or not the operand is stored in 8 bits."""
    for x in (stored(2, 3), Tensor("x", (2, 3))):
        graph = decompose(graph_of("log_softmax", x, results=[x]))
        between = {t for node in graph.nodes for t in node.outputs} - set(graph.outputs)
        assert len(between) > 2
        for t in between:
            assert graph.tensors[t].dtype == "f32" and graph.tensors[t].quantization is None


A, B = (2, 3, 1, 2, 2, 1, 3, 5), (3, 1, 1, 1, 1, 3, 5)


@pytest.mark.parametrize(
    ("a", "b", "ops", "shapes"),
    [
        (A[3:], B[3:], ["add"], []),  # five axes are walked as they are
        (A, A, ["add"], []),
        (A, (1,) * 8, ["add"], []),
        # 2 | 3, 1 | 2, 2, 1 | 3, 5
        (A, B, ["reshape"] * 2 + ["add", "reshape"], [(2, 3, 4, 15), (1, 3, 1, 15), (2, 3, 4, 15)]),
        ((2,) * 6, (2, 1, 1, 2, 1, 1), ["reshape"] * 2 + ["add", "reshape"],
         [(2, 4, 2, 4), (2, 1, 2, 1), (2, 4, 2, 4)]),
        ((2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3), ["expand", "expand", "add"],
         [(2, 3, 2, 3, 2, 3)] * 2),
        ((2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 2, 3), ["expand", "expand", "add"],
         [(2, 3, 2, 3, 2, 3)] * 2),
        ((2, 1, 2, 1, 2, 2), (1, 3, 1, 3, 1, 1), ["reshape"] * 2 + ["add", "reshape"],
         [(2, 1, 2, 1, 4), (1, 3, 1, 3, 1), (2, 3, 2, 3, 4)]),
    ],
)  # fmt: skip
def test_what_is_spread_over_many_axes(
    a: tuple[int, ...], b: tuple[int, ...], ops: list[str], shapes: list[tuple[int, ...]]
) -> None:
    """Adjacent axes that broadcast alike are merged; if more than five groups remain, they are
    broadcast first."""
    result = Tensor("y", np.broadcast_shapes(a, b))
    graph = decompose(graph_of("add", a, b, results=[result]))
    assert [node.op for node in graph.nodes] == ops
    found = [graph.shape(node.outputs[0]) for node in graph.nodes]
    assert found[: len(shapes)] == shapes


@pytest.mark.parametrize(
    ("shape", "axis", "ops"),
    [
        ((2,) * 5, 4, ["softmax"]),
        ((2,) * 6, 5, ["reshape", "softmax", "reshape"]),
        ((2,) * 6, 1, ["transpose", "reshape", "softmax", "reshape", "transpose"]),
    ],
)
def test_a_softmax_of_many_axes_is_one_of_rows(
    shape: tuple[int, ...], axis: int, ops: list[str]
) -> None:
    assert [node.op for node in made("softmax", shape, axis=axis, beta=1.0)] == ops


def test_products_of_many_axes_that_spread() -> None:
    results = [Tensor("y", (2, 2, 3, 2, 4, 6))]
    found = made("matmul", (2, 1, 3, 2, 4, 7), (2, 3, 1, 7, 6), results=results)
    assert [node.op for node in found] == ["expand"] * 2 + ["reshape"] * 2 + ["matmul", "reshape"]
    results = [Tensor("y", (2, 1, 3, 1, 4, 6))]
    alike = made("matmul", (2, 1, 3, 1, 4, 7), (2, 1, 3, 1, 7, 6), results=results)
    assert [node.op for node in alike] == ["reshape", "reshape", "matmul", "reshape"]


@pytest.mark.parametrize(
    ("change", "ops"),
    [
        ({}, ["gather", "reshape"]),
        ({3: (0, 1)}, ["scatter_nd"]),  # as the first
        ({3: (5, 0)}, ["scatter_nd"]),
        ({3: (0, 7)}, ["scatter_nd"]),
        ({3: (-1, 0)}, ["scatter_nd"]),
        ({16: None}, ["scatter_nd"]),
    ],
)
def test_a_sum_of_one_update_each_is_a_gather(
    change: dict[int, tuple[int, int] | None], ops: list[str]
) -> None:
    """There are 17 constant positions of 5 x 7, all in range and distinct; with fewer, positions
    are not checked."""
    places = [divmod(k, 7) for k in range(1, 18)]
    rows = [change.get(k, place) for k, place in enumerate(places)]
    indices = np.array([row for row in rows if row], np.int32)
    shape = Tensor("s", (2,), "i32", np.array([5, 7], np.int32))
    given = Tensor("i", indices.shape, "i32", indices), Tensor("u", (len(indices),)), shape
    found = made("scatter_new", *given, results=[Tensor("y", (5, 7))], reduction="add")
    assert [node.op for node in found][-len(ops) :] == ops


@pytest.mark.parametrize(("last", "apart"), [(4, True), (5, False)])
def test_large_results_are_not_put_in_order(last: int, apart: bool) -> None:
    """The table of sources for over 2^24 positions would need too much host memory."""
    rows = np.stack([np.arange(20), np.arange(20), np.arange(20) % 4], 1)
    shape = (1 << 11, 1 << 11, last)
    graph = graph_of("scatter_new", rows, (20,), list(shape), reduction="add",
                     results=[Tensor("y", shape)])  # fmt: skip
    assert scatter.apart(graph, graph.nodes[0]) == apart


@pytest.mark.parametrize(
    ("op", "shape", "arranged"),
    [
        ("scatter_nd", (1 << 11, 1 << 13), True),
        ("scatter_nd", (1 << 11, 1 + (1 << 13)), False),
        ("scatter_nd", (20, 1 << 20), True),  # rows of one index: each is one place
        ("scatter_elements", (20, 1 << 19), True),
        ("scatter_elements", (20, 1 << 20), False),
    ],
)
def test_refusals_and_order_go_by_the_same_places(
    op: str, shape: tuple[int, int], arranged: bool
) -> None:
    """Indices that are not sorted are searched, which has a limit of its own."""
    few = 2 if shape[0] > 20 else 1
    node = Node(0, op, (), (), {"reduction": "none", "axis": 0})
    form = scatter.Form(1, shape[:few], prod(shape[few:]), 20)
    assert scatter.in_order(node, form) == arranged
