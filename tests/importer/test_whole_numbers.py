"""Tests integers before planning: values outside of int32, small integers without quantization,
sums of products, and casts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.refused import code
from tflgpu_plugin.importer import imported, support
from tflgpu_plugin.ir import NUMBERS, Array, Graph, Node, Quantization, Target, Tensor, is_integer
from tflgpu_plugin.passes.quant.casts import drop_casts

X, SUM, WHOLE, REAL, OTHER = range(5)


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        ([2**31 - 1, -(2**31)], True),
        ([2**31], False),
        ([-(2**31) - 1], False),
        ([], True),
    ],
)
def test_constants_of_int64_are_within_int32(data: list[int], fits: bool) -> None:
    value: Array = np.array(data, np.int64)
    held = Tensor("held", value.shape, "i64", value)
    tensors = {0: Tensor("x", value.shape, "i64"), 1: held, 2: Tensor("y", value.shape, "i64")}
    node = Node(0, "add", (0, 1), (2,), {"activation": "none"})
    reason = support.support(Graph(tensors, (node,), (0,), (2,)), node, Target())
    if not fits:
        assert code(reason) == "constant.out_of_range"
    assert (support.out_of_range(held) is None) == fits


def test_documented_editions_have_no_integers() -> None:
    tensors = {k: Tensor(f"t{k}", (2,), "i32") for k in range(3)}
    node = Node(0, "add", (0, 1), (2,), {"activation": "none"}, host_op="ADD")
    graph = Graph(tensors, (node,), (0, 1), (2,))
    assert support.support(graph, node, Target()) is None
    assert support.support(graph, node, Target(), "documented") == (
        "Tensor 't2' holds int32 values, which ADD is not listed for in the current edition of "
        "the GPU delegate documentation."
    )


def test_of_other_types_nothing_is_out_of_range() -> None:
    assert support.out_of_range(Tensor("x", (1,), "f32", np.float32([3e9]))) is None
    assert support.out_of_range(Tensor("x", (3,), "i64")) is None


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16"])
def test_plain_numbers_of_few_bits_stand_for_themselves(dtype: str) -> None:
    quantization = Quantization((0.5,), (3,))
    tensors = {
        0: Tensor("read", (4,), dtype),
        1: Tensor("quantized", (4,), dtype, quantization=quantization),
        2: Tensor("constant", (4,), dtype, np.zeros(4, np.int8)),
        3: Tensor("not read", (4,), dtype),
        4: Tensor("wide", (4,), "i32"),
    }
    imported.annotate([0, 1, 2, 4], tensors)
    assert [tensors[k].quantization for k in range(5)] == [NUMBERS, quantization, None, None, None]


@pytest.mark.parametrize(
    ("dtype", "quantization", "expected"),
    [
        ("i32", None, True),
        ("i64", None, True),
        ("i32", Quantization((0.5,), (0,)), True),  # hosts go by the numbers
        ("i32", NUMBERS, False),
        ("i8", None, False),
        ("f32", None, False),
    ],
)
def test_which_tensors_are_int32_on_the_device(
    dtype: str, quantization: Quantization | None, expected: bool
) -> None:
    assert is_integer(Tensor("x", (1,), dtype, quantization=quantization)) == expected


def products(outputs: tuple[int, ...] = (REAL,)) -> Graph:
    """Returns a graph of sums of products in int32, which a cast reads."""
    tensors = {
        X: Tensor("x", (3,)),
        SUM: Tensor("sum", (3,), "i32", quantization=NUMBERS),
        WHOLE: Tensor("whole", (3,), "i32"),
        REAL: Tensor("real", (3,)),
    }
    nodes = (
        Node(0, "quantize", (X,), (SUM,)),
        Node(1, "cast", (SUM,), (WHOLE,)),
        Node(2, "cast", (WHOLE,), (REAL,)),
    )
    return Graph(tensors, nodes, (X,), outputs)


def test_casts_of_whole_numbers_and_back_go() -> None:
    after = drop_casts(products())
    assert [(n.op, n.inputs) for n in after.nodes] == [("quantize", (X,)), ("cast", (SUM,))]
    assert {s for node in after.nodes for s in node.sources} | {0, 1, 2} == {0, 1, 2}
    kept = drop_casts(products(outputs=(WHOLE, REAL)))
    assert [(n.op, n.inputs) for n in kept.nodes][1:] == [("cast", (SUM,)), ("cast", (SUM,))]


def test_casts_that_cut_stay() -> None:
    """The first of two casts drops the fraction."""
    tensors = {
        X: Tensor("x", (3,)), WHOLE: Tensor("whole", (3,), "i32"), REAL: Tensor("real", (3,))
    }  # fmt: skip
    nodes = (Node(0, "cast", (X,), (WHOLE,)), Node(1, "cast", (WHOLE,), (REAL,)))
    graph = Graph(tensors, nodes, (X,), (REAL,))
    assert drop_casts(graph).nodes == nodes


@pytest.mark.parametrize(
    ("held", "made", "goes"),
    [("i8", "i16", True), ("u8", "i16", True), ("i8", "u8", False), ("u8", "i8", False),
     ("i16", "i8", False), ("i16", "u16", False)],
)  # fmt: skip
def test_casts_of_floats_that_cut_stay(held: str, made: str, goes: bool) -> None:
    """Floats beyond the type saturate, while a cast of integers would keep their low bits."""
    tensors = {
        SUM: Tensor("held", (3,), held, quantization=NUMBERS), REAL: Tensor("real", (3,)),
        WHOLE: Tensor("made", (3,), made, quantization=NUMBERS),
    }  # fmt: skip
    nodes = (Node(0, "cast", (SUM,), (REAL,)), Node(1, "cast", (REAL,), (WHOLE,)))
    graph = Graph(tensors, nodes, (SUM,), (WHOLE,))
    assert (drop_casts(graph).nodes != nodes) == goes
