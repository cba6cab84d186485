"""Which integers of a TFLite graph the device may hold as float32."""

from __future__ import annotations

import numpy as np
from tflgpu_plugin.providers.tflite import counts

from tflgpu_plugin import capability
from tflgpu_plugin.graph import Graph, Node, Tensor
from tflgpu_plugin.quantization import NUMBERS
from tflgpu_plugin.target import Target

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
    return counts.settle(nodes, tensors), tensors


def test_products_of_places_are_numbers_while_they_are_exact() -> None:
    nodes, tensors = settled(100)
    assert tensors[PLACES].quantization == tensors[RESULT].quantization == NUMBERS
    copy = tensors[nodes[1].inputs[1] or 0]
    assert copy.dtype == "f32" and copy.data == 100 and tensors[FACTOR].dtype == "i32"


def test_what_may_pass_the_exact_numbers_stays_as_it_is() -> None:
    nodes, tensors = settled(1 << 15)
    assert tensors[PLACES].quantization == NUMBERS and tensors[RESULT].quantization is None
    assert nodes[1].inputs[1] == FACTOR
    sentence = capability.support(Graph(tensors, tuple(nodes), (X,), (REAL,)), nodes[1], Target())
    assert sentence is not None and "int32" in sentence


def test_indices_are_not_quantized_values() -> None:
    """They run without `enable_quantized_inference`, too."""
    nodes, tensors = settled(100)
    graph = Graph(tensors, tuple(nodes), (X,), (REAL,))
    assert capability.support(graph, nodes[2], Target(), quantized=False) is None


def test_floor_division_is_for_numbers_that_are_known() -> None:
    nodes, tensors = settled(48, "floor_div")
    assert nodes[1].refusal is None and tensors[RESULT].quantization == NUMBERS
    nodes, tensors = settled(-48, "floor_div")
    assert tensors[RESULT].quantization is None
    real = {X: Tensor("x", (4,)), REAL: Tensor("real", (4,))}
    (node,) = counts.settle([Node(0, "floor_div", (X, X), (REAL,))], real)
    assert node.refusal is not None


def test_integers_of_the_user_are_numbers_where_they_are_only_read_as_such() -> None:
    def held(*nodes: Node) -> bool:
        tensors = {X: Tensor("x", (4,), "i32"), REAL: Tensor("real", (4,)),
                   RESULT: Tensor("result", (4,), "i32")}  # fmt: skip
        counts.settle(nodes, tensors)
        return tensors[X].quantization == NUMBERS

    cast = Node(0, "cast", (X,), (REAL,))
    assert held(cast)
    assert not held(cast, Node(1, "reshape", (X,), (RESULT,)))
