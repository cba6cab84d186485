"""Tests float64 that is computed as float32 in graphs that nodes run, and in sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m
from tests.support.onnx_doubles import SINGLE, checked, doubles, model, same
from tests.support.onnx_models import node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

I64, BOOL, D = np.int64, np.bool_, np.float64


def body(nodes: Sequence[Any], kinds: Mapping[str, Any], made: Sequence[str]) -> Any:
    """Returns a graph over scalars and rows of three, with inputs of these types."""
    from onnx import helper

    def info(name: str, kind: Any) -> Any:
        dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return helper.make_tensor_value_info(name, dtype, [3] if kind == D else [])

    given = [info(name, kind) for name, kind in kinds.items()]
    results = [info(name, BOOL if name == "goes" else D) for name in made]
    return helper.make_graph(nodes, "body", given, results)


def test_the_steps_of_a_loop() -> None:
    """A Loop becomes its steps; a cast in a step to an integer that float32 lacks is the host's."""
    steps = body(
        [node("Mul", ["a", "w"], ["t"]), node("Cast", ["t"], ["k"], to=7),
         node("Cast", ["k"], ["f"], to=11), node("Add", ["f", "x"], ["a2"]),
         node("Identity", ["c"], ["goes"]), node("Identity", ["a2"], ["s"])],
        {"i": I64, "c": BOOL, "a": D}, ["goes", "a2", "s"],
    )  # fmt: skip
    loop = node("Loop", ["m", "", "x"], ["y", "ys"], body=steps)
    constants = {"m": np.array(4), "w": np.array(1.5)}
    given = {"x": 3 * doubles(3)}
    data = model([loop], given, {"y": D, "ys": D}, constants)
    ours = checked(data, given)
    same(ours, data, {"x": np.array([1.0, 3e8 + 1, 2.0])})
    assert tflgpu_plugin.report(ours).host_runs == 1


def test_the_steps_of_a_scan() -> None:
    nodes = [node("Add", ["b", "u"], ["b2"]), node("Mul", ["b2", "u"], ["o"])]
    steps = body(nodes, {"b": D, "u": D}, ["b2", "o"])
    scan = node("Scan", ["x", "r"], ["y", "ys"], body=steps, num_scan_inputs=1)
    given = {"x": doubles(3), "r": doubles(5, 3)}
    checked(model([scan], given, {"y": D, "ys": D}), given)


@pytest.mark.parametrize("rows", [5, "m"])
def test_integers_of_steps_at_once(rows: int | str) -> None:
    """Steps that do not depend on each other are computed at once; a run in which one makes an
    integer that float32 lacks is still the host's."""
    from onnx import TensorProto, helper

    def info(name: str, dtype: int, shape: m.Shape) -> Any:
        return helper.make_tensor_value_info(name, dtype, shape)

    real, whole = TensorProto.DOUBLE, TensorProto.INT64
    step = helper.make_graph(
        [node("Sub", ["all", "row"], ["d"]), node("Identity", ["all"], ["same"]),
         node("ReduceSumSquare", ["d"], ["s"], axes=[1], keepdims=0),
         node("Cast", ["s"], ["k"], to=whole)],
        "step", [info("all", real, ["n", 4]), info("row", real, [4])],
        [info("same", real, ["n", 4]), info("k", whole, ["n"])],
    )  # fmt: skip
    scan = node("Scan", ["x", "rows"], ["u", "y"], body=step, num_scan_inputs=1)
    small = {"x": np.round(doubles(3, 4)), "rows": np.round(doubles(5, 4))}
    data = model([scan], small, {"y": I64}, shapes={"x": ["n", 4], "rows": [rows, 4]})
    ours = checked(data, small)
    same(ours, data, {"x": np.full((3, 4), 4097.0), "rows": np.zeros((5, 4))})
    assert tflgpu_plugin.report(ours).host_runs == 1


def test_the_branches_of_an_if() -> None:
    """The host runs an If whose condition only a run knows; nodes of its bodies are placed."""
    nodes = [
        node("If", ["p"], ["y"], then_branch=body([node("Exp", ["x"], ["a"])], {}, ["a"]),
             else_branch=body([node("Neg", ["x"], ["b"])], {}, ["b"])),
    ]  # fmt: skip
    given = {"x": doubles(3), "p": np.array(True)}
    data = model(nodes, given, {"y": D})
    ours = session(data, optimize=False, **SINGLE, force=1)
    assert {**m.places(ours), "If": ""} == {"If": "", "Exp": "gpu", "Neg": "gpu"}
    for p in (True, False):
        same(ours, data, {**given, "p": np.array(p)})


def test_a_cache_that_is_appended_to() -> None:
    """Keys and values are appended, which in float32 would be done in the host's buffers."""
    nodes = [
        node("Concat", ["k", "k1"], ["k2"], axis=2), node("Concat", ["v", "v1"], ["v2"], axis=2),
        node("Attention", ["q", "k2", "v2"], ["y"]),
    ]  # fmt: skip
    shapes = {"q": (1, 2, 1, 8), "k": (1, 2, 5, 8), "k1": (1, 2, 1, 8)}
    given = {name: doubles(*shape) for name, shape in shapes.items()}
    given |= {"v": doubles(1, 2, 5, 8), "v1": doubles(1, 2, 1, 8)}
    checked(model(nodes, given, {"k2": D, "v2": D, "y": D}, opset=23), given)


def test_equal_nodes_over_double_and_float() -> None:
    """A square that float32 rounds is the same number in both paths here, but not in the host."""
    nodes = [
        node("Mul", ["x", "x"], ["b"]), node("Cast", ["x"], ["d"], to=11),
        node("Mul", ["d", "d"], ["a"]), node("Cast", ["a"], ["i"], to=7),
    ]  # fmt: skip
    given = {"x": np.array([3.0, 4097.0, -1.5], np.float32)}
    data = model(nodes, given, {"b": np.float32, "i": I64})
    same(session(data, **SINGLE), data, given)


@pytest.mark.parametrize("number", [0.3, 1e150])
def test_constants_that_a_step_computes(number: float) -> None:
    """They are computed in float64; a loop with one that float32 cannot hold is the host's."""
    steps = body(
        [node("Add", ["a", "x"], ["a2"]), node("Mul", ["n", "n"], ["k"]),
         node("Identity", ["c"], ["goes"])],
        {"i": I64, "c": BOOL, "a": D}, ["goes", "a2", "k"],
    )  # fmt: skip
    loop = node("Loop", ["m", "", "x"], ["y", "ys"], body=steps)
    given, constants = {"x": doubles(3)}, {"m": np.array(2), "n": np.full(3, number)}
    data = model([loop], given, {"y": D, "ys": D}, constants)
    ours = session(data, optimize=False, **SINGLE)
    same(ours, data, given)
    assert m.places(ours)["Loop"] == ("gpu" if number < 1 else "cpu")


def test_sequences_and_an_output_that_nothing_reads() -> None:
    nodes = [
        node("SequenceConstruct", ["x", "z"], ["s"]), node("SequenceAt", ["s", "k"], ["a"]),
        node("Split", ["a"], ["y", "unread"], axis=1), node("Neg", ["y"], ["w"]),
    ]  # fmt: skip
    given = {"x": doubles(2, 4), "z": doubles(2, 4)}
    checked(model(nodes, given, {"y": D, "w": D}, {"k": np.array(1)}), given)
