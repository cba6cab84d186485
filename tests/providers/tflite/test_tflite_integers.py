"""Tests integers in the TFLite frontend: operators over indices that earlier nodes compute, and
over the user's numbers that float32 cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, same
from tflgpu_plugin import report
from tflgpu_plugin.ir import NUMPY_DTYPES, Quantization

HOSTS = hosts.installed()
pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", HOSTS)]
AXES = {"keepDims": True}


def places(model: Model) -> int:
    """Returns a model of ARG_MAX over 9 channels: [3, 5], integers up to 8."""
    axis = model.constant(np.int32(-1))
    kind = {"outputType": "INT32"}
    x = model.input("x", (3, 5, 9))
    return model.op("ARG_MAX", [x, axis], "ArgMaxOptions", kind, shape=(3, 5), dtype="i32")


def small(model: Model, *values: int) -> int:
    return model.constant(np.array(values, np.int32))


def build(name: str) -> bytes:
    model = Model()
    p = places(model)

    def op(op: str, reads: list[int], table: str = "", shape: Any = (3, 5), **more: Any) -> int:
        dtype = more.pop("dtype", "i32")
        return model.op(op, reads, table or None, more, shape=shape, dtype=dtype)

    if name in ("SUM", "REDUCE_MAX", "REDUCE_MIN"):
        y = op(name, [p, small(model, 1)], "ReducerOptions", (3, 1), **AXES)
    elif name in ("EQUAL", "LESS"):
        which = op(name, [p, small(model, 4)], dtype="bool")
        y = op("SELECT_V2", [which, p, small(model, 7)], "SelectV2Options")
    elif name == "SLICE":
        y = op("SLICE", [p, small(model, 1, 2), small(model, 2, -1)], "SliceOptions", (2, 3))
    elif name == "TILE":
        y = op("TILE", [p, small(model, 2, 1)], "TileOptions", (6, 5))
    elif name == "EXPAND_DIMS":
        y = op("EXPAND_DIMS", [p, small(model, 1)], "ExpandDimsOptions", (3, 1, 5))
    else:
        y = op(name, [p])
    model.output(y)
    return model.to_bytes()


@pytest.mark.parametrize(
    "name",
    ["SUM", "REDUCE_MAX", "REDUCE_MIN", "EQUAL", "LESS", "SLICE", "TILE", "EXPAND_DIMS", "NEG"],
)
def test_operators_over_places_run_exactly(host: str, name: str) -> None:
    model = build(name)
    interpreter, made = gpu(model, host, "optimized")
    for seed in range(2):
        same(interpreter, model, host, seed, "optimized")
    assert {node.where for node in report(made).nodes} == {"gpu"}


@pytest.mark.parametrize("name", ["NEG", "SUM", "REDUCE_MAX", "EQUAL"])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_integers_of_the_user_are_exact(host: str, name: str, dtype: str) -> None:
    model = Model()
    x = model.input("x", (3, 5), dtype)
    reads, result = [x], dtype
    if name == "EQUAL":
        reads, result = [x, model.constant(np.array([2**24 + 1], NUMPY_DTYPES[dtype]))], "bool"
    elif name != "NEG":
        reads = [x, small(model, 1)]
    table = "ReducerOptions" if name in ("SUM", "REDUCE_MAX") else None
    shape = (3,) if table else (3, 5)
    model.output(model.op(name, reads, table, {}, shape=shape, dtype=result))
    content = model.to_bytes()
    interpreter, made = gpu(content, host, "optimized")
    (node,) = report(made).nodes
    assert node.where == "gpu"
    values = 2**24 + np.arange(15).reshape(3, 5)
    values[1] *= -1
    fed = [[values.astype(NUMPY_DTYPES[dtype])]]
    reference = hosts.interpreter(content, host, "optimized")
    reference.allocate_tensors()
    (got,), (wanted,) = (hosts.invoke(i, fed)[0] for i in (interpreter, reference))
    np.testing.assert_array_equal(got, wanted)


def test_integers_beyond_int32_run_on_the_kernels_of_the_host(host: str) -> None:
    model = Model()
    x = model.input("x", (2, 3), "i64")
    model.output(model.op("NEG", [x], None, {}, shape=(2, 3), dtype="i64"))
    interpreter, _ = gpu(model.to_bytes(), host, "optimized")
    (got,) = hosts.invoke(interpreter, [[np.full((2, 3), 2**40)]])[0]
    np.testing.assert_array_equal(got, np.full((2, 3), -(2**40)))
    (got,) = hosts.invoke(interpreter, [[np.full((2, 3), -7)]])[0]
    np.testing.assert_array_equal(got, np.full((2, 3), 7))


@pytest.mark.parametrize(
    ("axes", "scale", "where"), [((0,), 0.02, "cpu"), ((0,), 0.01, "gpu"), ((0, 1), 0.02, "gpu")]
)
def test_products_of_single_numbers_stay_with_the_host(
    axes: tuple[int, ...], scale: float, where: str, host: str
) -> None:
    """ai-edge-litert's kernels copy them, whatever the scale; the reference kernels rescale them.
    Those of tflite_runtime read memory that they have not written, so that the answer is the input
    itself where the scale stays."""
    model, made = Model(), ((4,), ())[len(axes) - 1]
    x = model.input("x", (1, 4), "i8")
    given = [x, small(model, *axes)]
    y = model.op("REDUCE_PROD", given, "ReducerOptions", shape=made, dtype="i8", version=2)
    for tensor, held in ((x, 0.01), (y, scale)):
        model.tensors[tensor].quantization = Quantization((held,), (3,))
    model.output(y)
    interpreter, delegate = gpu(model.to_bytes(), host, "default", force=1)
    assert {node.where for node in report(delegate).nodes} == {where}
    if where == "gpu" and made:
        values = np.array([[105, -128, 3, 0]], np.int8)
        np.testing.assert_array_equal(hosts.invoke(interpreter, [[values]])[0][0], values[0])
    elif not made or host != "tflite_runtime":
        same(interpreter, model.to_bytes(), host, 0, kernels="default")
