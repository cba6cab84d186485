"""Tests operators in numpy, the limits of folding, and subgraphs planned for other shapes."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support import host_models
from tests.support.refused import refused
from tflgpu_plugin import ops
from tflgpu_plugin.importer import arithmetic, folding, partition, subgraph
from tflgpu_plugin.importer.imported import Facts
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import Quantization, Tensor, always_equal
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.providers.tflite import ops as tflite

OPS = {row.op for row in (*tflite.HOST_OPS.values(), *tflite.CPU_OPS.values()) if row.op}


def run(op: str, *values: Any, results: int = 1, **attributes: Any) -> Any:
    meaning = folding.of_op(ops.rows()[op], attributes, "i32", results)
    given = [np.asarray(value) for value in values]
    found = meaning and meaning.compute(given, folding.MAX_SHAPE_ELEMENTS)
    return found and [(array.dtype.name, array.tolist()) for array in found]


def worked_out(op: str, *values: Any, shape: tuple[int, ...] = ()) -> Any:
    """Returns the result of an operator without a kernel for constants; None where it stays."""
    given = [Tensor("", a.shape, "i32", a) for a in map(np.int32, values)]
    node = host_models.node(0, op, range(len(given)), (len(given),))
    found = host_models.imported(
        host_models.model([*given, Tensor("", shape, "i32")], [node])
    ).graph
    data = found.constant(len(given))
    return None if data is None else data.tolist()


def test_operators_without_a_kernel() -> None:
    assert worked_out("BROADCAST_ARGS", [2, 1], [3], shape=(2,)) == [2, 3]
    assert worked_out("RANGE", 1, 7, 2, shape=(3,)) == [1, 3, 5]
    assert worked_out("RANGE", 0, 1 << 30, 1) is None
    assert worked_out("RANGE", 0, 1, 0) is None
    assert worked_out("RANGE", 5, 1, 1) is None  # an error of the host
    assert worked_out("BROADCAST_ARGS", [2, 2], [3]) is None
    assert worked_out("BROADCAST_ARGS", [2, 1], [3], shape=(3,)) is None  # hosts state another


def test_extents_that_broadcast() -> None:
    trace = Trace()
    n, m = trace.symbol(0, 7), trace.symbol(1, 5)
    found = [arithmetic.common_extent(*pair) for pair in ((n, 1), (1, n), (n, n), (m, m), (1, 1))]
    assert all(map(always_equal, found, [n, n, n, m, 1])) and not trace.guards
    with pytest.raises(ValueError, match="do not broadcast"):
        arithmetic.common_extent(n, m)


def test_filled_constants() -> None:
    assert worked_out("FILL", [2], 7, shape=(2,)) == [7, 7]
    assert worked_out("FILL", [1 << 20, 1 << 20], 7) is None


@pytest.mark.parametrize(
    ("op", "values", "attributes"),
    [
        ("gather", (np.zeros((1, 4096)), np.zeros(2, int)), {"axis": 0}),
        ("pad", ([1], [[0, 1 << 40]]), {}),
        ("add", (np.zeros((100, 1)), np.zeros((1, 100))), {}),
        ("neg", (np.zeros(5000),), {}),
        ("div", ([1], [0]), {}),
        ("fmod", ([1], [0]), {}),
        ("floor_mod", ([1], [0]), {}),
        ("floor_div", ([1], [0]), {}),
        ("reciprocal", ([2],), {}),
        ("cast", ([3e9],), {}),
        ("cast", ([np.nan],), {}),
        ("gather", ([1, 2], [-1]), {"axis": 0, "raises": True}),
        ("gather", ([1, 2], [2]), {"axis": 0}),
        ("gather_nd", ([1, 2], [[-1]]), {}),
        ("scatter_nd", ([1, 2], [[0]], [3]), {"reduction": "add"}),
        ("scatter_nd", ([1, 2], [[-1]], [3]), {"reduction": "none"}),
        ("scatter_nd", ([1, 2], [[-3]], [3]), {"reduction": "none", "wraps": True}),
        *(
            ("scatter_elements", given, {"axis": 0, "reduction": how, "wraps": wraps})
            for given, how, wraps in (
                (([1, 2], [0], [3]), "add", True),
                (([1, 2], [-1], [3]), "none", False),
                (([1, 2], [-3], [3]), "none", True),  # before the first element
                (([1, 2], [2], [3]), "none", True),
                (([1, 2], [1, -1], [3, 4]), "none", True),  # two updates of one element
                (([1, 2], [0, 1], [3]), "none", True),
            )
        ),
        ("scatter_new", ([[0], [0]], [1, 2], [3]), {"reduction": "add"}),
        ("scatter_new", ([[3]], [1], [3]), {"reduction": "add"}),
        ("scatter_new", ([[0]], [1], [1 << 40]), {"reduction": "add"}),
        ("reduce_prod", ([1 << 40, 1 << 40], [0]), {"keep_dims": True}),
        ("cumsum", ([1, 2], 0), {"exclusive": True}),
        ("add", (), {}),
        ("add", ([1], [2]), {"activation": "relu"}),
        ("slice", ([1, 2], [1], [2]), {}),
        ("slice", (np.zeros(5000), [0], [1]), {}),
        ("tile", ([1, 2], [1 << 40]), {}),
        ("expand", ([1], [100, 100]), {}),
        ("tanh", ([1.0],), {}),
    ],
)
def test_what_does_not_follow(op: str, values: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    assert run(op, *values, **attributes) is None


def test_results() -> None:
    """Ops that only move data are evaluated by their views."""
    assert run("div", [-7, 7], [2, 2]) == [("int64", [-3, 3])]
    least = -(1 << 63)
    assert run("div", [least, 7, least], [2, least, -2]) == [("int64", [-(1 << 62), 0, 1 << 62])]
    assert run("reduce_prod", np.zeros(0, int), [0], keep_dims=False) == [("int64", 1)]
    assert run("mean", np.zeros(0, int), [0], keep_dims=False) is None
    assert run("fmod", [-7, 7], [4, -4]) == [("int64", [-3, 3])]
    assert run("floor_mod", [-7, 7], [4, -4]) == [("int64", [1, -1])]
    assert run("floor_div", [-7, 7], [2, 2]) == [("int64", [-4, 3])]
    assert run("pow", [2, 3], [3, 2]) == [("int64", [8, 9])]
    assert run("clip", [-1.5, 3.0], low=0.0, high=2.0) == [("float64", [0.0, 2.0])]
    assert run("gather", [1, 2], [-1], axis=0, wraps=True) == [("int64", [2])]
    assert run("gather_nd", [1, 2], [[-1]], wraps=True) == [("int64", [2])]
    assert run("scatter_nd", [1, 2], [[-1]], [3], reduction="none", wraps=True) == [
        ("int64", [1, 3])
    ]
    assert run("scatter_elements", [1, 2], [-2], [3], axis=0, reduction="none", wraps=True) == [
        ("int64", [3, 2])
    ]
    assert run("scatter_new", [[2], [0]], [1, 2], [3], reduction="add") == [("int64", [2, 0, 1])]
    assert run("concat", [1], [2, 3], axis=0) == [("int64", [1, 2, 3])]
    assert run("stack", [1], [2], axis=0) == [("int64", [[1], [2]])]
    assert run("cumsum", [1, 2, 3], 0) == [("int64", [1, 3, 6])]
    assert run("reduce_sum", [[1, 2]], [1], keep_dims=False) == [("int64", [3])]
    assert run("reduce_max", [1 << 62, -(1 << 62) - 1], [0], keep_dims=True) == [
        ("int64", [1 << 62])
    ]
    assert run("slice", [1, 2, 3], [1], [-1]) == [("int64", [2, 3])]
    assert run("reshape", [[1], [2]], squeeze=()) == [("int64", [1, 2])]
    assert run("unstack", [[1], [2]], axis=0, results=2) == [("int64", [1]), ("int64", [2])]
    assert run("split", [1, 2], 0, results=2) == [("int64", [1]), ("int64", [2])]
    assert run("expand", [1], [1, 2]) == [("int64", [[1, 1]])]
    assert run("pad", [1], [[0, 1]]) == [("int64", [1, 0])]
    assert run("pad", [1, 2], [[0, 1]], mode="reflect") == [("int64", [1, 2, 1])]
    assert run("add", [1], [2], activation="none") == [("int64", [3])]
    assert run("cast", [1.5]) == [("int32", [1])]
    assert run("reduce_sum", [[1, 2]], np.zeros(0, int), keep_dims=False) == [("int64", [[1, 2]])]


def op(name: str) -> folding.Meaning:
    found = folding.of_op(ops.rows()[name], {}, "i32")
    assert found is not None
    return found


def test_values_that_a_tensor_cannot_hold_are_not_known() -> None:
    """Products of int32 are computed in 64 bits."""
    factors = [Tensor("", (1,), "i32", np.array([n], np.int32)) for n in (1 << 20, 1 << 11)]
    result = Tensor("y", (-1,), "i32")
    assert folding.known(op("mul"), factors, [result]) is None
    (found,) = folding.known(op("sub"), factors, [result]) or [None]
    assert found is not None and found.data is not None
    assert (found.dtype, found.data.tolist()) == ("i32", [(1 << 20) - (1 << 11)])
    (wide,) = folding.known(op("sub"), factors, [replace(result, dtype="i64")]) or [None]
    assert wide is not None and wide.dtype == "i32"
    assert folding.known(op("sub"), factors, [replace(result, dtype="u8")]) is None
    quantized = replace(result, quantization=Quantization((1.0,), (0,)))
    assert folding.known(op("sub"), factors, [quantized]) is None
    halves = [Tensor("", (1,), "f32", np.array([0.5], np.float32))] * 2
    assert folding.known(op("add"), halves, [replace(result, dtype="f16")]) is None
    nothing = Tensor("", (1,), "i32", np.array([0], np.int32))
    assert folding.known(op("floor_div"), [factors[0], nothing], [result]) is None
    assert folding.known(op("sub"), factors, [result, result]) is None


def test_other_shapes_are_worked_out_anew() -> None:
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4)), Tensor("z", (2, 2))]
    added = {"activation": "none"}
    nodes = [
        host_models.node(0, "ADD", (0, 0), (1,), added),
        host_models.node(1, "RESHAPE", (1,), (2,), {"shape": (-1, 2)}),
    ]
    found = host_models.imported(replace(host_models.model(tensors, nodes), outputs=("2",)))
    kept = subgraph.kept(found, partition.extract(found.graph, {0, 1}))
    graph = kept.reshaped([(3, 8)], Judge()).runs()
    assert (graph.shape(1), graph.shape(2)) == ((3, 8), (12, 2))
    with refused("shape.unsupported"):
        kept.reshaped([(1, 5)], Judge()).runs()


def test_a_subgraph_follows_a_shape_that_it_does_not_read() -> None:
    """y = reshape(x) to the shape of another tensor, which is computed again."""
    tensors = [
        Tensor("x", (6,)), Tensor("other", (2, 3)), Tensor("shape", (2,), "i32"),
        Tensor("y", (2, 3)),
    ]  # fmt: skip
    nodes = [host_models.node(0, "SHAPE", (1,), (2,)), host_models.node(1, "RESHAPE", (0, 2), (3,))]
    model = replace(host_models.model(tensors, nodes), outputs=("3",))
    found = host_models.imported(model)
    part = partition.extract(found.graph, {1})
    kept = subgraph.kept(found, part)
    assert (kept.keys, kept.shapes) == (("0", "1"), ((6,), (2, 3)))
    graph = kept.reshaped([(8,), (4, 2)], Judge()).runs()
    assert [node.op for node in graph.nodes] == ["reshape"]
    assert (graph.shape(3), graph.inputs, graph.outputs) == ((4, 2), (0,), (3,))
    with refused("shape.unsupported"):
        kept.reshaped([(8,), (3, 2)], Judge()).runs()


def test_an_import_keeps_no_constants_in_a_circle() -> None:
    """They would stay in memory until garbage collection, including copies of a model's weights."""
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    values = {"x": Value("x", "f32", (2, 3)), "w": Value("w", "f32", (2, 3), data),
              "y": Value("y", "f32", (2, 3))}  # fmt: skip
    node = HostNode(0, "RELU", "", 1, "y", ("w",), ("y",))
    gc.collect()
    gc.disable()
    try:
        found = import_(HostModel((node,), values, ("y",)), tflite.TABLE, Facts())
        dead = weakref.ref(found.graph.tensors[found.ids["y"]])
        del found
        assert dead() is None
    finally:
        gc.enable()
