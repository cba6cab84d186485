"""Tests integers in the ONNX frontend: run-time indices, casts, and arithmetic of int32 and int64.
Results equal those of the CPU provider, whose kernels repeat a run that meets a number beyond
int32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, Shape, cpu, node, places, quiet, session, values
from tflgpu_plugin.harness import onnx

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

TABLE = values(5, 7, 9)
EDGES = [2**24 + 1, 2**24 + 3, 2**25 + 2, 2**25 + 6, -(2**24) - 1, 2**31 - 1, -(2**31), 2**31 - 64,
         2**31 - 65, 0, -1, 7]  # fmt: skip


def build(
    nodes: Sequence[Any],
    feeds: Mapping[str, Array],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    opset: int = 18,
) -> bytes:
    """Returns a model whose inputs have the types and (unless others are given) the shapes of
    `feeds`; output types are inferred."""
    from onnx import TypeProto, helper, numpy_helper, shape_inference

    def info(name: str, value: Array) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        shape = (shapes or {}).get(name, value.shape)
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "test",
        [info(name, value) for name, value in feeds.items()],
        [helper.make_value_info(name, TypeProto()) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(shape_inference.infer_shapes(made).SerializeToString())


def check(
    nodes: Sequence[Any],
    feeds: Mapping[str, Array],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    on_cpu: Sequence[str] = (),
) -> None:
    """Asserts equal results, and that only these operators are on the CPU."""
    data = build(nodes, feeds, outputs, constants)
    ours = session(data, optimize=False)
    assert {op for op, where in places(ours).items() if where == "cpu"} == set(on_cpu)
    same(ours, cpu(data, optimize=False), feeds)


def same(ours: Any, theirs: Any, feeds: Mapping[str, Array]) -> None:
    for got, wanted in zip(ours.run(None, feeds), theirs.run(None, feeds), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_gather_counts_from_both_ends(kind: type, axis: int) -> None:
    extent = TABLE.shape[axis]
    index = np.array([[0, -extent, extent - 1], [-1, 3, 3]], kind)
    check([node("Gather", ["x", "i"], ["y"], axis=axis)], {"x": TABLE, "i": index}, ["y"])


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("constant", [False, True])
def test_gather_nd(width: int, constant: bool) -> None:
    chance = np.random.default_rng(width)
    columns = [chance.integers(-n, n, (4, 2)) for n in TABLE.shape[:width]]
    index = {"i": np.stack(columns, axis=-1)}
    feeds, constants = ({"x": TABLE}, index) if constant else ({"x": TABLE, **index}, {})
    check([node("GatherND", ["x", "i"], ["y"])], feeds, ["y"], constants)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("constant", [False, True])
def test_gather_nd_with_batches(batch: int, constant: bool) -> None:
    shape = (*TABLE.shape[:batch], 4, 1)
    extent = TABLE.shape[batch]
    index = {"i": np.random.default_rng(batch).integers(-extent, extent, shape)}
    feeds, constants = ({"x": TABLE}, index) if constant else ({"x": TABLE, **index}, {})
    check([node("GatherND", ["x", "i"], ["y"], batch_dims=batch)], feeds, ["y"], constants)


def test_constant_places_outside_are_left_to_the_host() -> None:
    data = build([node("GatherND", ["x", "i"], ["y"])], {"x": TABLE}, ["y"],
                 {"i": np.array([[5]])})  # fmt: skip
    assert places(session(data, optimize=False)) == {"GatherND": "cpu"}


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_casts_to_floats_round_as_the_host_does(kind: type) -> None:
    numbers = np.array(EDGES, kind)
    nodes = [node("Cast", ["i"], ["y"], to=1), node("Cast", ["i"], ["b"], to=9)]
    check(nodes, {"i": numbers}, ["y", "b"])


def test_casts_from_floats_cut_the_fraction_off() -> None:
    large = np.float32([2e9, -2e9, -(2.0**31), 2.0**31 - 128])
    small = np.float32([0, -0.0, 1.5, -1.5, 2.9999, -2.9999, 16777217, 123456792, 1e-40, -0.3])
    check([node("Cast", ["x"], ["y"], to=7)], {"x": np.concatenate([large, small])}, ["y"])
    check([node("Cast", ["x"], ["y"], to=6)], {"x": small}, ["y"])
    check([node("Cast", ["x"], ["y"], to=7)], {"x": small[:6].astype(np.float16)}, ["y"])
    check([node("Cast", ["x"], ["y"], to=6)], {"x": small > 1}, ["y"])
    check([node("Cast", ["x"], ["y"], to=9)], {"x": small}, ["y"])


def test_arithmetic_with_places_stays_on_the_device() -> None:
    nodes = [
        node("ArgMax", ["x"], ["a"], axis=2, keepdims=1), node("Cast", ["a"], ["n"], to=6),
        node("Div", ["a", "four"], ["d"]), node("Mod", ["a", "four"], ["m"]),
        node("Mul", ["d", "four"], ["e"]), node("Add", ["e", "m"], ["f"]),
        node("Equal", ["f", "a"], ["q"]), node("Max", ["a", "four"], ["l"]),
        node("Where", ["q", "l", "m"], ["w"]), node("Concat", ["w", "l"], ["c"], axis=2),
        node("GatherND", ["x", "a"], ["y"], batch_dims=2),
    ]  # fmt: skip
    check(nodes, {"x": TABLE}, ["y", "n", "c", "q", "m"], {"four": np.array(4)})


def test_users_integers_run_where_they_become_floats_or_places() -> None:
    ids = np.array([[0, -5, 4], [-1, 3, 3]])
    nodes = [
        node("Unsqueeze", ["i", "axis"], ["u"]), node("Cast", ["u"], ["n"], to=6),
        node("Gather", ["x", "n"], ["y"]), node("Cast", ["u"], ["f"], to=1),
    ]  # fmt: skip
    check(nodes, {"i": ids}, ["y", "f"], {"x": TABLE, "axis": np.array([1])})


@pytest.mark.parametrize("op", ["Identity", "Add", "Equal", "Cast", "Concat"])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_users_integers_are_exact(op: str, kind: type) -> None:
    more: dict[str, Any] = {"Cast": {"to": 6}, "Concat": {"axis": 0}}.get(op, {})
    reads = ["i"] if op in ("Identity", "Cast") else ["i", "j"]
    nodes = [node(op, reads, ["z"], **more)]
    feeds = {"i": np.array([2**24 + 1, -(2**30) - 1, 4], kind), "j": np.array([1, -1, 4], kind)}
    check(nodes, {name: feeds[name] for name in reads}, ["z"])


BEYOND: dict[str, tuple[Any, dict[str, Array]]] = {
    "input": (node("Identity", ["a"], ["y"]), {"a": np.array([5, 2**31])}),
    "input below": (node("Identity", ["a"], ["y"]), {"a": np.array([5, -(2**31) - 1])}),
    "Cast": (node("Cast", ["a"], ["y"], to=7), {"a": np.float32([3e9, 1])}),
    "Cast to the first": (node("Cast", ["a"], ["y"], to=7), {"a": np.float32([2.0**31, 1])}),
    "Cast of NaN": (node("Cast", ["a"], ["y"], to=7), {"a": np.float32([np.nan, 1])}),
    "Add": (node("Add", ["a", "b"], ["y"]), {"a": np.array([2**31 - 1]), "b": np.array([1])}),
    "Sub": (node("Sub", ["a", "b"], ["y"]), {"a": np.array([-(2**31)]), "b": np.array([1])}),
    "Mul": (node("Mul", ["a", "b"], ["y"]), {"a": np.array([65536]), "b": np.array([65536])}),
    "Mul of large": (node("Mul", ["a", "b"], ["y"]), {"a": np.array([-(2**31)]),
                                                     "b": np.array([2**31 - 1])}),
    "Neg": (node("Neg", ["a"], ["y"]), {"a": np.array([-(2**31)])}),
    "Abs": (node("Abs", ["a"], ["y"]), {"a": np.array([-(2**31)])}),
    "Pow": (node("Pow", ["a", "b"], ["y"]), {"a": np.array([2**24, 1]), "b": np.array([2**21, 1])}),
    "ReduceSum": (node("ReduceSum", ["a"], ["y"]), {"a": np.full(9, 2**28)}),
    "ReduceProd": (node("ReduceProd", ["a"], ["y"]), {"a": np.full(40, 2)}),
    "ReduceProd with 0": (node("ReduceProd", ["a"], ["y"]), {"a": np.array([2**20] * 60 + [0])}),
    "ReduceSum of many": (node("ReduceSum", ["a"], ["y"]), {"a": np.full(900, 2**22)}),
    "ReduceSum below": (node("ReduceSum", ["a"], ["y"]), {"a": np.full((2, 70), -(2**25))}),
    "ReduceL1": (node("ReduceL1", ["a"], ["y"]), {"a": np.array([2**30, -(2**30)])}),
    "ReduceSumSquare": (node("ReduceSumSquare", ["a"], ["y"]), {"a": np.full((1, 3, 3, 2), 2**14)}),
    "CumSum": (node("CumSum", ["a", "axis"], ["y"]), {"a": np.full(9, 2**28)}),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND)
def test_a_number_beyond_int32_runs_on_the_kernels_of_onnxruntime(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    asked, feeds = BEYOND[name]
    data = build([asked], feeds, ["y"], {"axis": np.array(0)})
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    assert set(places(ours).values()) == {"gpu"}
    same(ours, theirs, feeds)
    assert "beyond int32" in capfd.readouterr().err
    less = {key: np.asarray(value // 2**20 if value.dtype == np.int64 else np.zeros_like(value))
            for key, value in feeds.items()}  # fmt: skip
    same(ours, theirs, less)
    found = tflgpu_plugin.report(ours)
    assert (found.runs, found.host_runs) == (1, 1)


BUCKETS = (
    node("Cast", ["x"], ["i"], to=7),
    node("Add", ["i", "eight"], ["j"]),
    node("Min", ["j", "top"], ["m"]),
)
CHOSEN = node("Where", ["small", "r", "m"], ["y"])
DISCARDED: dict[str, tuple[Any, tuple[str, ...], int]] = {
    "discarded": ((*BUCKETS, CHOSEN), ("y",), 0),
    "moved, and discarded": (
        (*BUCKETS, node("Unsqueeze", ["m", "axis"], ["u"]),
         node("Where", ["small", "r", "u"], ["y"])), ("y",), 0,
    ),
    "discarded twice": (
        (*BUCKETS, node("Where", ["small", "r", "m"], ["w"]), node("Mul", ["w", "w"], ["z"]),
         node("Where", ["small", "z", "w"], ["y"])), ("y",), 0,
    ),
    "chosen": ((*BUCKETS, node("Where", ["large", "r", "m"], ["y"])), ("y",), 1),
    "an output, too": ((*BUCKETS, CHOSEN), ("y", "i"), 1),
    "compared": (
        (*BUCKETS, node("Less", ["m", "r"], ["l"]), node("Where", ["l", "r", "m"], ["y"])),
        ("y",), 1,
    ),
    "an overflow that is discarded": (
        (node("Mul", ["r", "large number"], ["p"]), node("Where", ["all", "r", "p"], ["y"])),
        ("y",), 0,
    ),
    "a sum that is discarded": (
        (node("Add", ["r", "large number"], ["p"]), node("ReduceSum", ["p"], ["s"]),
         node("Where", ["all", "r", "s"], ["y"])),
        ("y",), 0,
    ),
    "a sum that is chosen": (
        (node("Add", ["r", "large number"], ["p"]), node("ReduceSum", ["p"], ["s"]),
         node("Where", ["small", "r", "s"], ["y"])),
        ("y",), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCARDED)
def test_a_number_beyond_int32_counts_where_it_is_used(name: str) -> None:
    """Buckets of relative positions convert a logarithm of 0 to an integer, and then ignore it."""
    nodes, outputs, on_host = DISCARDED[name]
    given = {
        "x": np.float32([-np.inf, 3e9, 2, 5, np.nan]), "r": np.arange(5),
        "small": np.array([1, 1, 0, 1, 1], bool), "large": np.array([0, 1, 1, 1, 1], bool),
        "all": np.ones(5, bool),
    }  # fmt: skip
    read = {name for each in nodes for name in each.input}
    feeds = {name: data for name, data in given.items() if name in read}
    constants = {"eight": np.int64(8), "top": np.int64(15), "axis": np.array([0]),
                 "large number": np.int64(2**30)}  # fmt: skip
    constants = {name: np.asarray(data) for name, data in constants.items() if name in read}
    data = build(nodes, feeds, outputs, constants)
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    assert set(places(ours).values()) == {"gpu"}
    same(ours, theirs, feeds)
    found = tflgpu_plugin.report(ours)
    assert (found.runs, found.host_runs) == (1 - on_host, on_host)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("exponents", [np.int32, np.int64])
def test_powers_of_whole_numbers(kind: type, exponents: type) -> None:
    a = np.array([0, 0, 7, -7, -2, 1, -1, -1, 2, -2, 3, -1290, 46340], kind)
    b = np.array([0, 9, 11, 9, 31, -5, 2**30, -7, -1, -1, -2, 3, 2], exponents)
    check([node("Pow", ["a", "b"], ["y"])], {"a": a, "b": b}, ["y"])
    nodes = [node("Pow", ["a", name], [f"y{name}"]) for name in ("four", "odd", "square")]
    constants = {"four": np.float32([4.0]), "odd": np.resize([1, 0, 3], 13).astype(exponents),
                 "square": np.array(2, exponents)}  # fmt: skip
    check(nodes, {"a": a % 99}, ["yfour", "yodd", "ysquare"], constants)


def test_powers_of_floats_take_whole_exponents() -> None:
    x, b = values(4, 6), np.resize([2, 3, -1, 0], (6,))
    ours = session(build([node("Pow", ["x", "b"], ["y"])], {"x": x, "b": b}, ["y"]))
    assert places(ours) == {"Pow": "gpu"}
    (got,) = ours.run(None, {"x": x, "b": b})
    np.testing.assert_allclose(got, x.astype(np.float64) ** b, 1e-5)


@pytest.mark.parametrize("beyond", [(46341, 2), (2, 31), (-3, 20), (0, -1), (-(2**31), 2**31 - 1)])
def test_powers_beyond_int32_run_on_the_kernels_of_onnxruntime(beyond: tuple[int, int]) -> None:
    feeds = {"a": np.array([1, beyond[0]], np.int32), "b": np.array([1, beyond[1]], np.int32)}
    data = build([node("Pow", ["a", "b"], ["y"])], feeds, ["y"])
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    same(ours, theirs, feeds)
    assert tflgpu_plugin.report(ours).host_runs == 1


@pytest.mark.parametrize("exponent", [np.float32(0.5), np.float32(np.nan), np.float32(2.0**31)])
def test_powers_of_whole_numbers_that_are_none_stay_with_the_host(exponent: Array) -> None:
    data = build([node("Pow", ["a", "b"], ["y"])], {"a": np.array([1, 2])}, ["y"],
                 {"b": np.array([exponent, 3], np.float32)})  # fmt: skip
    assert places(session(data, optimize=False)) == {"Pow": "cpu"}


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_means_are_cut_towards_zero(kind: type) -> None:
    chance = np.random.default_rng(4)
    x = chance.integers(-(2**31), 2**31, (3, 7, 11)).astype(kind)
    x[0], x[1], x[2, 0] = -(2**31), 2**31 - 1, [0] * 10 + [-1]
    nodes = [node("ReduceMean", ["x", f"a{axis}"], [f"y{axis}"]) for axis in range(3)]
    check(nodes, {"x": x}, ["y0", "y1", "y2"], {f"a{k}": np.array([k]) for k in range(3)})


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_bits(kind: type) -> None:
    a, b = np.array(EDGES, kind), np.array(EDGES[::-1], kind)
    nodes = [node(f"Bitwise{op}", ["a", "b"], [op]) for op in ("And", "Or", "Xor")]
    nodes.append(node("BitwiseNot", ["a"], ["Not"]))
    check(nodes, {"a": a, "b": b}, ["And", "Or", "Xor", "Not"])


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("fmod", [0, 1])
def test_quotients_and_remainders_of_both_signs(kind: type, fmod: int) -> None:
    a = np.array([7, -7, 7, -7, 2**31 - 1, -(2**31), 0, 123_456_789], kind)
    b = np.array([3, 3, -3, -3, 1000, 1000, 5, -7], kind)
    nodes = [node("Div", ["a", "b"], ["q"]), node("Mod", ["a", "b"], ["m"], fmod=fmod)]
    check(nodes, {"a": a, "b": b}, ["q", "m"])


@pytest.mark.parametrize("factors", [(2, 1.5), (1, 1, 1.5), (1, 1, 2, 1.5)])
def test_the_nearest_of_whole_numbers(factors: tuple[float, ...]) -> None:
    shape, scales = (7, 5, 4, 6)[: len(factors)], np.array(factors, np.float32)
    x = np.random.default_rng(6).integers(-(2**31), 2**31, shape).astype(np.int32)
    how: dict[str, Any] = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    check([node("Resize", ["x", "", "scales"], ["y"], **how)], {"x": x}, ["y"], {"scales": scales})
    linear = node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    data = build([linear], {"x": x}, ["y"], {"scales": scales})
    assert places(session(data, optimize=False)) == {"Resize": "cpu"}


def test_limits_of_whole_numbers() -> None:
    x = np.array([-(2**31), -5, 0, 3, 2**31 - 1], np.int32)
    constants = {"low": np.array(-4, np.int32), "high": np.array(2**24 + 1, np.int32)}
    nodes = [node("Clip", ["x", "low", "high"], ["y"]), node("Clip", ["x", "low"], ["z"]),
             node("Relu", ["x"], ["r"]), node("Sign", ["x"], ["s"]),
             node("TopK", ["x", "k"], ["t", "i"])]  # fmt: skip
    check(nodes, {"x": x}, ["y", "z", "r", "s", "t", "i"], constants | {"k": np.array([3])})


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("value", [None, 2**24 + 1, -(2**30) - 1])
def test_padding_is_a_whole_number(kind: type, value: int | None) -> None:
    constants: dict[str, Array] = {"pads": np.array([1, 0, 0, 2])}
    constants |= {} if value is None else {"value": np.array(value, kind)}
    x = np.arange(6).reshape(2, 3).astype(kind) - 3
    check([node("Pad", ["x", *constants], ["y"])], {"x": x}, ["y"], constants)


def test_constants_beyond_int32_stay_with_the_host() -> None:
    data = build([node("Add", ["a", "c"], ["y"])], {"a": np.array([1, 2])}, ["y"],
                 {"c": np.array([2**40])})  # fmt: skip
    assert places(session(data, optimize=False)) == {"Add": "cpu"}


def across_partitions() -> bytes:
    """Returns a model with an optional value on the CPU, whose positions are inputs."""
    nodes = [
        node("ArgMax", ["x"], ["a"], axis=1, keepdims=0), node("Mul", ["a", "two"], ["t"]),
        node("Gather", ["rows", "t"], ["y"]), node("Cast", ["x"], ["w"], to=6),
        node("TopK", ["w", "k"], ["v", "h"], axis=1), node("Optional", ["h"], ["s"]),
        node("OptionalGetElement", ["s"], ["i"]),
        node("Unsqueeze", ["i", "one"], ["u"]), node("Gather", ["rows", "u"], ["r"]),
        node("Cast", ["u"], ["f"], to=1), node("Add", ["t", "two"], ["z"]),
    ]  # fmt: skip
    constants = {"two": np.array(2), "one": np.array([1]), "k": np.array([3]),
                 "rows": values(19, 4)}  # fmt: skip
    return build(nodes, {"x": values(2, 9)}, ["y", "r", "f", "z"], constants, {"x": ["n", 9]})


def test_integers_cross_partitions_of_any_shape() -> None:
    data = across_partitions()
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    kept = {op for op, where in places(ours).items() if where == "cpu"}
    assert kept == {"Optional", "OptionalGetElement"}
    for count in (2, 5, 1):
        same(ours, theirs, {"x": values(count, 9)})
    assert not any(partition.failures for partition in tflgpu_plugin.report(ours).partitions)


def test_compiled_models_know_of_integers_for_other_shapes(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", minversion="1.25")
    original, compiled = tmp_path / "model.onnx", tmp_path / "compiled.onnx"
    original.write_bytes(across_partitions())
    compiler = onnxruntime.ModelCompiler(
        onnx.ours(quiet(optimize=False)), str(original), embed_compiled_data_into_model=True
    )
    compiler.compile_to_file(str(compiled))
    ours, theirs = session(compiled.read_bytes()), cpu(original.read_bytes())
    for count in (2, 5, 1):
        same(ours, theirs, {"x": values(count, 9)})


@pytest.mark.parametrize("op", ["Neg", "ReduceMax", "ReduceMin", "ReduceSum"])
def test_indices_are_negated_and_reduced(op: str) -> None:
    x = values(4, 6, 9)
    more = {} if op == "Neg" else {"keepdims": 1}
    nodes = [
        node("ArgMax", ["x"], ["places"], axis=-1, keepdims=0),
        node(op, ["places"], ["whole"], **more),
        node("Cast", ["whole"], ["y"], to=1),
    ]
    check(nodes, {"x": x}, ["y", "whole"])


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize("pads", [[1, 0, 2, 0, 3, 1], [0, 0, 0, 0, 0, 0], [-1, 1, 0, 2, -1, 0]])
def test_a_run_tells_the_padding_value(kind: type, pads: list[int]) -> None:
    """The value does not reach elements of the input, also where it is infinite."""
    x = TABLE.astype(kind)
    values = [kind(7), kind(-3), *([kind(np.inf), kind(np.nan)] if kind is np.float32 else [])]
    for opened in (None, {"x": ("a", "b", "c")}):
        constants = {"pads": np.array(pads, np.int64)}
        data = build([node("Pad", ["x", "pads", "v"], ["y"])], {"x": x, "v": np.array(values[0])},
                     ["y"], constants, opened)  # fmt: skip
        ours, theirs = session(data), cpu(data)
        assert {*places(ours).values()} == {"gpu"}
        for value in values:
            same(ours, theirs, {"x": x, "v": np.array(value, kind)})
        assert tflgpu_plugin.report(ours).host_runs == 0
