"""Tests uint32 and uint64 in the ONNX frontend: the device has them as int32. Results equal those
of the CPU provider, whose kernels repeat a run that meets a number beyond int32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.providers.onnxruntime.test_ort_integers import build, same
from tests.support.onnx_models import cpu, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

KINDS = [np.uint32, np.uint64]
MOST = 2**31 - 1
SMALL, OTHER = [0, 1, 5, MOST, 7, 9], [3, 1, 2, 4, 8, 9]
ARITHMETIC = ("Mul", "Div", "Mod", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
RELATIONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")


def _run(nodes: list[Any], feeds: dict[str, Any], repeated: int, constants: Any = None) -> None:
    """Asserts that all nodes are on the GPU, equal results, and the number of runs that the CPU
    provider repeated."""
    data = build(nodes, feeds, ["y"], constants)
    ours = session(data, optimize=False)
    assert {*places(ours).values()} == {"gpu"}
    same(ours, cpu(data, optimize=False), feeds)
    assert tflgpu_plugin.report(ours).host_runs == repeated


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", [*ARITHMETIC, *RELATIONS])
def test_pairs(op: str, kind: Any) -> None:
    x, y = np.array([0, 1, 5, 2**20, 7, 9], kind), np.array(OTHER, kind)
    _run([node(op, ["x", "z"], ["y"])], {"x": x, "z": y}, 0)
    most = np.array(SMALL, kind)
    _run([node(op, ["x", "z"], ["y"])], {"x": most, "z": y}, int(op == "Mul"))
    _run([node(op, ["x", "z"], ["y"])], {"x": most + np.array(1, kind), "z": y}, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_beyond_int32_and_below_zero(kind: Any) -> None:
    one, x = np.array([1], kind), np.array(SMALL, kind)
    for op, first, repeated in (
        ("Add", x, 1), ("Sub", x, 1), ("Add", x // 2, 0), ("Sub", x[1:] // 2 + one, 0),
    ):  # fmt: skip
        _run([node(op, ["x", "z"], ["y"])], {"x": first, "z": one}, repeated)


@pytest.mark.parametrize("kind", KINDS)
def test_a_difference_that_wraps_around_is_compared_by_the_host(kind: Any) -> None:
    x, z = np.array([5, 3], kind), np.array([4, 4], kind)
    nodes = [node("Sub", ["x", "z"], ["d"]), node("Less", ["d", "z"], ["y"])]
    _run(nodes, {"x": x, "z": z}, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [np.float32, np.int32, np.int64, np.uint8, np.int8, np.bool_])
def test_casts_from(wanted: Any, kind: Any) -> None:
    from onnx import helper

    to = helper.np_dtype_to_tensor_dtype(np.dtype(wanted))
    _run([node("Cast", ["x"], ["y"], to=to)], {"x": np.array(SMALL, kind)}, 0)
    _run([node("Cast", ["x"], ["y"], to=to)], {"x": np.array([MOST + 1], kind)}, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "held", "repeated"),
    [
        (np.float32, [0, 1.5, -0.5, 2**31 - 128], 0), (np.float32, [1, 3e9], 1),
        (np.int32, [0, 1, MOST], 0), (np.int32, [0, -1], 1), (np.int64, [0, MOST], 0),
        (np.int64, [-5, 1], 1), (np.int8, [0, 127], 0), (np.int8, [-5, 1], 1),
        (np.uint8, [0, 255], 0), (np.bool_, [1, 0], 0), (np.uint32, [0, MOST], 0),
        (np.uint64, [0, MOST], 0), (np.uint64, [2**40, 1], 1),
    ],
)  # fmt: skip
def test_casts_to(given: Any, held: list[Any], repeated: int, kind: Any) -> None:
    from onnx import helper

    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    _run([node("Cast", ["x"], ["y"], to=to)], {"x": np.array(held, given)}, repeated)


@pytest.mark.parametrize("kind", KINDS)
def test_a_high_word_alone_is_seen(kind: Any) -> None:
    """The low word of 2^40 + 3 is 3."""
    if kind is np.uint64:
        _run([node("Max", ["x", "x"], ["y"])], {"x": np.array([2**40 + 3], kind)}, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_movement(kind: Any) -> None:
    x = np.array(SMALL, kind).reshape(2, 3)
    table = {"i": np.array([1, 0, -1]), "p": np.array([1, 0, 0, 2]), "v": np.array(7, kind)}
    table |= {"low": np.array(2, kind), "high": np.array(6, kind), "n": np.array([2, 1])}
    for one in (
        node("Gather", ["x", "i"], ["y"]), node("Concat", ["x", "x"], ["y"], axis=1),
        node("Pad", ["x", "p", "v"], ["y"]), node("Tile", ["x", "n"], ["y"]),
        node("Transpose", ["x"], ["y"]), node("Sign", ["x"], ["y"]),
        node("Clip", ["x", "low", "high"], ["y"]),
    ):  # fmt: skip
        constants = {name: value for name, value in table.items() if name in one.input}
        _run([one], {"x": x}, 0, constants)
        _run([one], {"x": x + np.array(1, kind)}, 1, constants)


@pytest.mark.parametrize("kind", KINDS)
def test_constants_beyond_int32_stay_with_the_host(kind: Any) -> None:
    constants = {"c": np.array([2**32 - 1], kind)}
    feeds = {"x": np.array(OTHER, kind)}
    data = build([node("Max", ["x", "c"], ["y"])], feeds, ["y"], constants)
    ours = session(data, optimize=False)
    assert {*places(ours).values()} == {"cpu"}
    same(ours, cpu(data, optimize=False), feeds)


@pytest.mark.parametrize("kind", KINDS)
def test_shifts(kind: Any) -> None:
    """A bit that leaves int32, and a shift by 32 or more to the left, is the host's."""
    by = np.array([0, 1, 4, 30, 31, 31], kind)
    for x, direction, repeated in (
        ([1, 5, 2**26, 1, 0, 0], "LEFT", 0), ([1, 5, 2**27, 1, 0, 0], "LEFT", 1),
        ([1, 5, 7, 1, 1, 0], "LEFT", 1), ([1, 5, 7, 3, 0, 0], "LEFT", 1),
        (SMALL, "RIGHT", 0), ([MOST + 1, 1, 1, 1, 1, 1], "RIGHT", 1),
    ):  # fmt: skip
        shift = node("BitShift", ["x", "z"], ["y"], direction=direction)
        _run([shift], {"x": np.array(x, kind), "z": by}, repeated)
    if kind is np.uint64:
        shift = node("BitShift", ["x", "z"], ["y"], direction="LEFT")
        _run([shift], {"x": np.array([3], kind), "z": np.array([40], kind)}, 1)
