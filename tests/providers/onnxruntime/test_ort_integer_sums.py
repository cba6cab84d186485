"""ConvInteger and MatMulInteger: sums of products of integers are exact, whichever form computes
them. Forms that transform or round on the way, as Winograd's do, are for real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import cpu, model, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from conformance.references.integers import witnesses

pytestmark = pytest.mark.adapter

KINDS = {"x": np.uint8, "y": np.int32}
CHANCE = np.random.default_rng(7)
DEEP = (48, 3, 3)  # as Winograd's forms require, with sums below 2^24
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "planes": ((1, 48, 32, 32), (64, *DEEP), {"pads": [1] * 4}),
    "several images": ((3, 48, 12, 11), (40, *DEEP), {"pads": [1] * 4}),
    "rows": ((1, 48, 20, 30), (36, *DEEP), {"pads": [1] * 4, "strides": [2, 1]}),
    "points": ((1, 96, 9, 9), (64, 96, 1, 1), {}),
    "stem": ((1, 3, 40, 40), (32, 3, 7, 7), {"strides": [2, 2]}),
    "one row": ((1, 48, 300), (64, 48, 3), {}),
    "groups": ((1, 48, 14, 14), (48, 1, 5, 5), {"group": 48}),
    "volume": ((1, 16, 6, 7, 8), (24, 16, 3, 3, 3), {"pads": [1] * 6}),
}


def numbers(kind: str, *shape: int) -> Any:
    least, most = (0, 256) if kind == "uint8" else (-128, 128)
    return CHANCE.integers(least, most, shape).astype(kind)


def agree(ours: Any, theirs: Any, data: bytes, feed: dict[str, Any]) -> None:
    found = ours.run(None, feed)
    for wanted in witnesses(data, feed, theirs):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def assert_exact(data: bytes, feed: dict[str, Any], nodes: int = 1) -> None:
    """Compares the results with exact arithmetic, and with the CPU's where its sums are exact."""
    ours = session(data)
    agree(ours, cpu(data), data, feed)
    assert [each.where for each in tflgpu_plugin.report(ours).nodes] == ["gpu"] * nodes


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    shape, weights, how = CONVOLUTIONS[name]
    constants = {"w": numbers("int8", *weights), "zero": np.uint8(117)}
    nodes = [node("ConvInteger", ["x", "w", "zero"], ["y"], **how)]
    data = model(nodes, {"x": shape}, {"y": None}, constants, kinds=KINDS)
    assert_exact(data, {"x": numbers("uint8", *shape)})


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 500, 64), (40, 500, 96), (7, 33, 5)])
def test_products(rows: int, inner: int, columns: int) -> None:
    constants = {"w": numbers("int8", inner, columns), "zero": np.uint8(117)}
    nodes = [node("MatMulInteger", ["x", "w", "zero"], ["y"])]
    data = model(nodes, {"x": (rows, inner)}, {"y": None}, constants, kinds=KINDS)
    assert_exact(data, {"x": numbers("uint8", rows, inner)})


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_each_column_has_a_zero_point(columns: int) -> None:
    points = np.array([5, -7, 11][:columns], np.int8)
    constants = {"w": numbers("int8", 33, columns), "zx": np.uint8(117), "zw": points}
    nodes = [node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])]
    data = model(nodes, {"x": (4, 33)}, {"y": None}, constants, kinds=KINDS)
    assert_exact(data, {"x": numbers("uint8", 4, 33)})


# ---- sums beyond 2^24 ----------------------------------------------------------------------------


def far(kind: str, *shape: int, axis: int) -> Any:
    """Returns numbers whose first half along `axis` is near the largest, and the other near the
    least: partial sums of their products go far beyond 2^24, and come back."""
    held, half = np.iinfo(kind), shape[axis] // 2
    made = np.moveaxis(CHANCE.integers(held.max - 3, held.max + 1, shape), axis, 0)
    made[half:] = held.max - made[half:] + held.min
    return np.moveaxis(made, 0, axis).astype(kind)


def of_run(op: str, x: Any, w: Any, constant: bool, **how: Any) -> None:
    """Compares sums, and those sums as float32, with and without zero points."""
    points = {"zx": np.array(3, x.dtype), "zw": np.array(1, w.dtype)}
    for zeros in ([], [*points]):
        given = {"x": x} if constant else {"x": x, "w": w}
        given |= {name: points[name] for name in zeros if not constant}
        constants = {} if not constant else {"w": w} | {name: points[name] for name in zeros}
        nodes = [node(op, ["x", "w", *zeros], ["s"], **how), node("Cast", ["s"], ["y"], to=1)]
        kinds = {name: value.dtype for name, value in given.items()}
        for results in ({"s": None}, {"y": None}):
            taken = nodes[: 1 + ("y" in results)]
            data = model(taken, {name: each.shape for name, each in given.items()}, results,
                         constants, kinds=kinds | {"s": np.int32})  # fmt: skip
            assert_exact(data, given, len(taken))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("inner", [600, 2001])
def test_products_far_beyond(inner: int, kind: str, constant: bool) -> None:
    x, w = far("uint8", 3, inner, axis=1), far(kind, inner, 5, axis=0)
    of_run("MatMulInteger", x, (w >> 1) + (w & 1), constant)
    if kind == "uint8":
        ahead = np.full((3, inner), 255, np.uint8)
        of_run("MatMulInteger", ahead, far("int8", inner, 5, axis=0), constant)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("groups", [1, 3])
def test_convolutions_far_beyond(groups: int, constant: bool) -> None:
    x = np.full((2, 40 * groups, 11, 11), 255, np.uint8)
    w = far("int8", 6, 40, 9, 9, axis=1)
    of_run("ConvInteger", x, w, constant, group=groups)


def test_products_of_changing_lengths() -> None:
    kinds = {"x": np.uint8, "w": np.int8, "y": np.int32}
    data = model([node("MatMulInteger", ["x", "w"], ["y"])], {"x": (3, "n"), "w": ("n", 5)},
                 {"y": None}, kinds=kinds)  # fmt: skip
    ours, theirs = session(data), cpu(data)
    for count in (100, 700, 701, 900, 5000, 513, 1, 514, 512):
        feed = {"x": far("uint8", 3, count, axis=1), "w": far("int8", count, 5, axis=0)}
        agree(ours, theirs, data, feed)
    assert sum(each.runs for each in tflgpu_plugin.report(ours).partitions) == 9


@pytest.mark.parametrize("zeros", [(0,), (7, 0, 3, 1, 2)])
def test_zero_points_by_column(zeros: tuple[int, ...]) -> None:
    constants = {"w": far("int8", 900, 5, axis=0), "zx": np.uint8(9), "zw": np.array(zeros * 5)[:5]}
    constants["zw"] = constants["zw"].astype(np.int8)
    nodes = [node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])]
    data = model(nodes, {"x": (4, 900)}, {"y": None}, constants, kinds=KINDS)
    assert_exact(data, {"x": far("uint8", 4, 900, axis=1)})


def test_weights_of_two_nodes_that_are_cut_along_different_axes() -> None:
    """Both cut the same constant into halves: the convolution its channels, the product rows."""
    count = 520
    w = np.zeros((2, count, count, 1), np.int8)
    w[:, [0, -1]] = 127
    x = np.full((1, count, count, 1), -128, np.int8)
    a = np.full((2, count, 1, count), 255, np.uint8)
    nodes = [node("ConvInteger", ["x", "w"], ["y"]), node("MatMulInteger", ["a", "w"], ["z"])]
    kinds = {"x": np.int8, "a": np.uint8, "y": np.int32, "z": np.int32}
    data = model(nodes, {"x": x.shape, "a": a.shape}, {"y": None, "z": None}, {"w": w}, kinds=kinds)
    ours, feed = session(data), {"x": x, "a": a}
    agree(ours, cpu(data), data, feed)
    assert [each.where for each in tflgpu_plugin.report(ours).nodes] == ["gpu"] * 2
