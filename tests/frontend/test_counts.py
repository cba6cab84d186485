"""Which integers of a graph the device may hold as float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tflgpu_plugin.frontend import integer_range, support
from tflgpu_plugin.ir.graph import STORE, Graph, Node, Tensor
from tflgpu_plugin.ir.quantization import NUMBERS
from tflgpu_plugin.ir.target import Target

X, PLACES, FACTOR, RESULT, REAL = range(5)


def settled(factor: int, op: str = "mul") -> tuple[list[Node], dict[int, Tensor]]:
    """x [1000, 4] -> arg_max -> op with a constant -> cast."""
    tensors = {
        X: Tensor("x", (1000, 4)),
        PLACES: Tensor("places", (4,), "i32"),
        FACTOR: Tensor("factor", (), "i32", np.array(factor, np.int32)),
        RESULT: Tensor("result", (4,), "i32"),
        REAL: Tensor("real", (4,)),
    }
    nodes = [
        Node(0, "arg_max", (X,), (PLACES,)),
        Node(1, op, (PLACES, FACTOR), (RESULT,)),
        Node(2, "cast", (RESULT,), (REAL,)),
    ]
    return integer_range.annotate(nodes, tensors).nodes, tensors


def test_products_of_places_are_numbers_while_they_are_exact() -> None:
    nodes, tensors = settled(100)
    assert tensors[PLACES].quantization == tensors[RESULT].quantization == NUMBERS
    copy = tensors[nodes[1].inputs[1] or 0]
    assert copy.dtype == "f32" and copy.data == 100 and tensors[FACTOR].dtype == "i32"


def test_what_may_pass_the_exact_numbers_stays_as_it_is() -> None:
    nodes, tensors = settled(1 << 15)
    assert tensors[PLACES].quantization == NUMBERS and nodes[1].inputs[1] == FACTOR
    sentence = support.support(Graph(tensors, tuple(nodes), (X,), (REAL,)), nodes[1], Target())
    assert sentence is not None and "below 2^24" in sentence
    assert nodes[2].refusal is None  # of a result that then comes from the CPU


def test_indices_are_not_quantized_values() -> None:
    """They run without `enable_quantized_inference`, too."""
    nodes, tensors = settled(100)
    graph = Graph(tensors, tuple(nodes), (X,), (REAL,))
    assert support.support(graph, nodes[2], Target(), quantized=False) is None


def test_floor_division_is_for_numbers_that_are_known() -> None:
    nodes, tensors = settled(48, "floor_div")
    assert nodes[1].refusal is None and tensors[RESULT].quantization == NUMBERS
    nodes, tensors = settled(-48, "floor_div")
    assert nodes[1].refusal is not None
    real = {X: Tensor("x", (4,)), REAL: Tensor("real", (4,))}
    (node,) = integer_range.annotate([Node(0, "floor_div", (X, X), (REAL,))], real).nodes
    assert node.refusal is not None


@pytest.mark.parametrize("factor", [100, 1 << 15])
@pytest.mark.parametrize("op", ["mul", "floor_div"])
def test_who_is_refused_keeps_the_sentence(op: str, factor: int) -> None:
    """And what it makes is an integer of the host's."""
    _, tensors = settled(factor, op)
    tensors = {k: replace(tensor, quantization=None) for k, tensor in tensors.items()}
    node = Node(0, op, (PLACES, FACTOR), (RESULT,), refusal="It is left.")
    found = integer_range.annotate([node, Node(1, "cast", (RESULT,), (REAL,))], tensors)
    assert found.nodes[0] == node
    assert found.ranges[RESULT] == integer_range.ROUNDED


def refused(nodes: list[Node], outputs: tuple[int, ...]) -> list[int]:
    """Which of these over integers of the user are left to the host."""
    integers = {X: Tensor("x", (4,), "i64"), PLACES: Tensor("y", (4,), "i64"),
                FACTOR: Tensor("rows", (9, 2)), RESULT: Tensor("z", (4,), "i64"),
                REAL: Tensor("real", (4,))}  # fmt: skip
    return [
        node.id for node in integer_range.annotate(nodes, integers, outputs).nodes if node.refusal
    ]


def test_integers_of_the_user_may_be_rounded_where_they_become_floats_or_places() -> None:
    moved, cast = Node(0, "reshape", (X,), (PLACES,)), Node(1, "cast", (PLACES,), (REAL,))
    assert refused([moved, cast], (REAL,)) == []
    assert refused([moved, Node(1, "gather", (FACTOR, PLACES), (REAL,))], (REAL,)) == []
    narrowed = Node(1, "cast", (PLACES,), (RESULT,))
    assert refused([moved, narrowed, Node(2, "cast", (RESULT,), (REAL,))], (REAL,)) == []


def test_integers_of_the_user_are_not_rounded_where_they_are_seen() -> None:
    moved, cast = Node(0, "reshape", (X,), (PLACES,)), Node(1, "cast", (PLACES,), (REAL,))
    assert refused([moved, cast], (REAL, PLACES)) == [0]
    assert refused([cast, Node(2, "equal", (PLACES, X), (REAL,))], (REAL,)) == [2]
    assert refused([Node(2, "add", (X, X), (PLACES,)), cast], (REAL,)) == [2]
    elsewhere = Node(3, "", (PLACES,), (RESULT,), refusal="It is for the CPU.")
    assert refused([moved, cast, elsewhere], (REAL,)) == [0, 3]
    assert refused([cast, elsewhere], (REAL,)) == [3]  # which has the integers themselves


def test_what_the_graph_around_knows_holds_in_a_part_of_it() -> None:
    moved = Node(0, "reshape", (X,), (PLACES,))
    integers = {X: Tensor("x", (4,), "i64"), PLACES: Tensor("y", (4,), "i64")}
    known = {X: integer_range.ROUNDED, PLACES: integer_range.ROUNDED}
    assert integer_range.annotate([moved], dict(integers), (PLACES,), known).nodes == [moved]
    assert integer_range.annotate([moved], dict(integers), (PLACES,), {X: (0, 5)}).nodes == [moved]
    assert integer_range.annotate([moved], dict(integers), (PLACES,)).nodes[0].refusal


def test_sums_of_bytes_are_numbers_up_to_a_bound() -> None:
    def left(bound: int, *readers: Node, outputs: tuple[int, ...]) -> list[int]:
        tensors = {X: Tensor("x", (4,)), PLACES: Tensor("sums", (4,), "i32"),
                   REAL: Tensor("real", (4,))}  # fmt: skip
        nodes = [Node(0, "quantize", (X,), (PLACES,), {"bound": bound}), *readers]
        return [n.id for n in integer_range.annotate(nodes, tensors, outputs).nodes if n.refusal]

    cast = Node(1, "cast", (PLACES,), (REAL,))
    assert left(integer_range.EXACT, outputs=(PLACES,)) == []
    assert left(integer_range.EXACT + 1, cast, outputs=(REAL,)) == []
    assert left(integer_range.EXACT + 1, cast, outputs=(REAL, PLACES)) == [0]


def moved_then_divided(op: str) -> list[int]:
    """Which nodes are left to the host: places from 3 to 1003 go through this op and divide."""
    tensors = {
        X: Tensor("x", (1000, 4)),
        PLACES: Tensor("places", (4,), "i32"),
        FACTOR: Tensor("three", (), "i32", np.array(3, np.int32)),
        RESULT: Tensor("more", (4,), "i32"),
        REAL: Tensor("real", (4,)),
        9: Tensor("moved", (4,), "i32"),
        10: Tensor("quotient", (4,), "i32"),
    }
    nodes = [
        Node(0, "arg_max", (X,), (PLACES,)),
        Node(1, "add", (PLACES, FACTOR), (RESULT,)),
        Node(2, op, (RESULT,), (9,)),
        Node(3, "floor_div", (PLACES, 9), (10,)),
        Node(4, "cast", (10,), (REAL,)),
    ]
    return [node.id for node in integer_range.annotate(nodes, tensors).nodes if node.refusal]


def test_moves_that_bring_zeros_bring_numbers_to_the_range() -> None:
    """A divisor that is known to be 3 at least may be 0 behind a padding."""
    for op in ("reshape", "tile", "batch_to_space", "reduce_max"):
        assert moved_then_divided(op) == []
    for op in ("pad", "space_to_batch"):
        assert moved_then_divided(op) == [2, 3]


def test_places_in_what_is_too_long_are_not_rounded() -> None:
    """Of more rows than float32 can tell apart."""
    tensors = {
        X: Tensor("x", (4,), "i64"),
        PLACES: Tensor("y", (4,), "i64"),
        FACTOR: Tensor("rows", (1 << 25, 2)),
        REAL: Tensor("real", (4, 2)),
    }
    moved, taken = Node(0, "reshape", (X,), (PLACES,)), Node(1, "gather", (FACTOR, PLACES), (REAL,))
    assert integer_range.annotate([moved, taken], tensors, (REAL,)).nodes[0].refusal is not None


@pytest.mark.parametrize(("middle", "left"), [("i64", [1]), ("i32", [])])
def test_floats_without_their_fraction_are_exact_until_they_are_narrowed(
    middle: str, left: list[int]
) -> None:
    """int64 holds what int32 does not, which hosts wrap."""
    tensors = {
        X: Tensor("x", (4,)),
        PLACES: Tensor("whole", (4,), middle),
        RESULT: Tensor("narrow", (4,), "i32"),
    }
    nodes = [Node(0, "cast", (X,), (PLACES,)), Node(1, "cast", (PLACES,), (RESULT,))]
    found = integer_range.annotate(nodes, tensors, (RESULT,)).nodes
    assert [node.id for node in found if node.refusal] == left


@pytest.mark.parametrize(
    ("op", "runs"),
    [("reduce_sum", True), ("reduce_prod", False), ("mean", False), ("reduce_l1", False)],
)
def test_of_reductions_only_sums_of_places_are_numbers(op: str, runs: bool) -> None:
    """A product soon passes the exact numbers, and hosts cut the fraction of a mean of integers."""
    tensors = {
        X: Tensor("x", (100, 4)),
        PLACES: Tensor("places", (4,), "i32"),
        RESULT: Tensor("result", (), "i32"),
        REAL: Tensor("real", ()),
    }
    nodes = [
        Node(0, "arg_max", (X,), (PLACES,)),
        Node(1, op, (PLACES,), (RESULT,)),
        Node(2, "cast", (RESULT,), (REAL,)),
    ]
    found = integer_range.annotate(nodes, tensors).nodes
    assert (found[1].refusal is None) == runs


def test_integers_that_a_node_of_the_host_fetches_have_no_range() -> None:
    tensors = {X: Tensor("handle", (1,)), PLACES: Tensor("kept", (4,), "i32")}
    (node,) = integer_range.annotate([Node(0, STORE, (X,), (PLACES,))], tensors).nodes
    assert node.refusal is None or "below 2^24" in node.refusal
