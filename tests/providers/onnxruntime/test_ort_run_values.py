"""Tests axes, shapes, sizes and similar values that are only known at run time: each value has a
plan of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import EP, Array, cpu, model, node, quiet
from tflgpu_plugin.importer import run_values
from tflgpu_plugin.ir.extent import INTEGERS

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

X = np.random.default_rng(2).uniform(-1, 1, (2, 3, 6)).astype(np.float32)
LARGE = np.iinfo(np.int64).max


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


# A node with inputs "x", "a", "b", ..., and what these are in runs one after the other.
CASES: dict[str, tuple[Any, Sequence[Sequence[Array]]]] = {
    "axes": (node("ReduceSum", ["x", "a"], ["y"], keepdims=0), [[whole(0)], [whole(2)],
             [whole(-1)], [whole(0)]]),
    "shape": (node("Reshape", ["x", "a"], ["y"]), [[whole(6, 6)], [whole(-1, 9)], [whole(0, -1)]]),
    "expanded": (node("Expand", ["x", "a"], ["y"]), [[whole(2, 3, 6)], [whole(1, 1, 1)]]),
    "slice": (node("Slice", ["x", "a", "b", "c"], ["y"]), [
        [whole(1), whole(LARGE), whole(2)], [whole(-2), whole(-1), whole(2)],
        [whole(0), whole(3), whole(1)], [whole(0), whole(1), whole(0)]]),
    "pads": (node("Pad", ["x", "a"], ["y"]), [[whole(0, 1, 0, 2, 0, 3)],
             [whole(0, 0, 1, 0, 0, -2)]]),
    "count": (node("TopK", ["x", "a"], ["y", "z"]), [[whole(2)], [whole(6)], [whole(1)]]),
    "repeats": (node("Tile", ["x", "a"], ["y"]), [[whole(2, 1, 1)], [whole(1, 3, 2)]]),
    "scales": (node("Resize", ["x", "", "a"], ["y"], mode="linear"), [
        [np.array([1, 1, scale], np.float32)] for scale in (2.0, 0.5, 1.7)]),
    "sizes": (node("Resize", ["x", "", "", "a"], ["y"]), [[whole(2, 3, 9)], [whole(2, 3, 4)]]),
    "regions": (node("Resize", ["x", "a", "", "b"], ["y"], axes=[2], mode="linear",
                     coordinate_transformation_mode="tf_crop_and_resize"), [
        [np.array(region, np.float32), whole(9)]
        for region in ((0, 1), (0.4, 0.7), (0.9, -0.5))]),
    "columns": (node("Col2Im", ["x", "a", "b"], ["y"], pads=[0, 1, 0, 1]), [
        [whole(1, 6), whole(1, 3)], [whole(2, 1), whole(1, 1)], [whole(3, 4), whole(3, 1)]]),
    "axis": (node("CumSum", ["x", "a"], ["y"]), [[np.int64(1)], [np.int64(-1)]]),
    "unsqueezed": (node("Unsqueeze", ["x", "a"], ["y"]), [[whole(0, 4)], [whole(1, 2)]]),
    "split": (node("Split", ["x", "a"], ["y", "z"], axis=2), [[whole(2, 4)], [whole(5, 1)]]),
}  # fmt: skip


def _ours(data: bytes | str, **given: str) -> Any:
    import onnxruntime

    tflgpu_plugin.register()
    providers = [(EP, {"force": "1"}), "CPUExecutionProvider"]
    return onnxruntime.InferenceSession(data, quiet(**given), providers=providers)


def _built(name: str) -> tuple[bytes, list[dict[str, Array]]]:
    made, runs = CASES[name]
    feeds = [{"x": X} | dict(zip("abc", map(np.asarray, run), strict=False)) for run in runs]
    shapes = {key: array.shape for key, array in feeds[0].items()}
    kinds = {key: array.dtype for key, array in feeds[0].items()}
    results = dict.fromkeys(made.output)
    kinds |= {"z": np.dtype(np.int64)} if made.op_type == "TopK" else {}
    return model([made], shapes, results, {}, opset=18, kinds=kinds), feeds


NARROW: dict[str, tuple[Any, Sequence[Sequence[int]]]] = {
    "slice": (node("Slice", ["x", "a", "b", "c", "d"], ["y"]), [
        [-2, -1, -1, 1], [-1, -4, 2, -2], [1, 3, -2, 1], [-3, -1, 1, 1]]),
    "axis": (node("CumSum", ["x", "a"], ["y"]), [[-1], [0], [-3], [2]]),
}  # fmt: skip


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("name", NARROW)
def test_negative_numbers_of_either_width(name: str, kind: type) -> None:
    """There are several runs, so that a number mistaken for another would get the wrong plan."""
    made, runs = NARROW[name]
    shape = () if name == "axis" else (1,)
    feeds = [{"x": X} | {key: np.full(shape, number, kind)
             for key, number in zip("abcd", run, strict=False)} for run in runs]  # fmt: skip
    shapes = {key: array.shape for key, array in feeds[0].items()}
    kinds = {key: array.dtype for key, array in feeds[0].items()}
    data = model([made], shapes, {"y": None}, {}, opset=18, kinds=kinds)
    ours, theirs = _ours(data), cpu(data)
    for feed in (*feeds, *feeds):
        (got,), (wanted,) = ours.run(None, feed), theirs.run(None, feed)
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert partition.runs == 2 * len(feeds)


def test_a_slice_backwards_ends_at_the_largest_integers_only() -> None:
    """onnxruntime's kernel reads these as the rest of the axis, and clamps other large ends."""
    made, names = node("Slice", ["x", "a", "b", "c", "d"], ["y"]), "abcd"
    shapes = {"x": X.shape} | {name: (1,) for name in names}
    kinds = dict.fromkeys(names, np.int64)
    data = model([made], shapes, {"y": None}, {}, opset=18, kinds=kinds)
    ours, theirs = _ours(data), cpu(data)
    for end in (2**31 - 1, 2**31 - 2, 2**31, 2**40, 2**63 - 1, 2**63 - 2):
        run = {name: np.array([n]) for name, n in zip(names, (-1, end, 2, -1), strict=True)}
        (got,), (wanted,) = (session.run(None, {"x": X} | run) for session in (ours, theirs))
        assert got.shape == wanted.shape
        np.testing.assert_array_equal(got, wanted)


def test_numbers_of_a_plan_are_those_that_native_code_passes() -> None:
    far = [2**31 - 1, 2**31 - 2, 2**31, 2**63 - 1, 2**63 - 2, -(2**31), -(2**40)]
    clipped = (2**31 - 1, 2**31 - 2, 2**31 - 2, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31))
    assert run_values.numbers(whole(*far)) == clipped
    assert INTEGERS[1] < min(clipped[:5])


def test_several_numbers_of_one_input_each_count() -> None:
    """Plans differ by each of them, the last as well as the first."""
    made = node("Slice", ["x", "a", "b"], ["y"])
    shapes, kinds = {"x": X.shape, "a": (2,), "b": (2,)}, {"a": np.int32, "b": np.int32}
    data = model([made], shapes, {"y": None}, {}, opset=18, kinds=kinds)
    ours, theirs = _ours(data), cpu(data)
    for starts, ends in (((-2, -3), (2, 2)), ((-2, -2), (2, 2)), ((-1, -2), (2, 2)),
                         ((-1, -2), (2, 3)), ((-1, -2), (2, -1))):  # fmt: skip
        feed = {"x": X, "a": np.array(starts, np.int32), "b": np.array(ends, np.int32)}
        np.testing.assert_array_equal(ours.run(None, feed)[0], theirs.run(None, feed)[0])


@pytest.mark.parametrize("name", CASES)
def test_each_value_has_its_answer(name: str) -> None:
    data, feeds = _built(name)
    ours, theirs = _ours(data), cpu(data)
    for feed in (*feeds, *feeds):
        for got, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            assert got.shape == wanted.shape and got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, atol=1e-5)
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert partition.runs == 2 * len(feeds)


def test_a_value_that_no_run_can_have_is_an_error_and_nothing_more() -> None:
    data, (feed, *_) = _built("axes")
    ours = _ours(data)
    with pytest.raises(Exception) as theirs:
        cpu(data).run(None, feed | {"a": whole(7)})
    with pytest.raises(type(theirs.value)) as caught:
        ours.run(None, feed | {"a": whole(7)})
    assert str(theirs.value).rsplit("Status Message: ", 1)[-1] in str(caught.value)
    np.testing.assert_allclose(ours.run(None, feed)[0], X.sum(0), atol=1e-5)


HELD = {"four": 4, "one": 1, "minus_four": -4, "step": 2, "back": -3}


def _range(reads: Sequence[str], between: Sequence[Any], kind: type = np.int64) -> bytes:
    """Returns a model of twice a Range that starts at the input "a"; the nodes `between` compute
    its other numbers."""
    nodes = [*between, node("Range", reads, ["r"]), node("Add", ["r", "r"], ["y"])]
    held = {name: np.array(number, kind) for name, number in HELD.items()}
    held |= {"axis": whole(0), "list": np.array([4], kind)}
    return model(nodes, {"a": ()}, {"y": None}, held, kinds={"a": kind, "y": kind})


SUM = node("Add", ["a", "four"], ["b"])
FAR: dict[str, tuple[Sequence[str], Sequence[Any]]] = {
    "sum": (("a", "b", "one"), [SUM]),
    "sum_in_the_other_order": (("a", "b", "one"), [node("Add", ["four", "a"], ["b"])]),
    "difference": (("a", "b", "one"), [node("Sub", ["a", "minus_four"], ["b"])]),
    "backward": (("b", "a", "back"), [SUM]),
    "steps": (("a", "b", "step"), [node("Add", ["a", "one"], ["m"]),
              node("Add", ["m", "four"], ["b"])]),
    "other_rank": (("a", "b", "one"), [node("Unsqueeze", ["a", "axis"], ["m"]),
                   node("Add", ["m", "list"], ["n"]), node("Squeeze", ["n"], ["b"])]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAR)
def test_a_range_as_long_in_every_run_runs_with_the_nodes_around_it(name: str) -> None:
    data = _range(*FAR[name])
    ours, theirs = _ours(data), cpu(data)
    for start in (0, 7, -3, 2**40):
        feed = {"a": np.array(start, np.int64)}
        np.testing.assert_array_equal(ours.run(None, feed)[0], theirs.run(None, feed)[0])
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert (partition.runs, partition.host_runs) == (3, 1)


@pytest.mark.parametrize(
    ("reads", "between", "kind"),
    [
        (("a", "b", "one"), [node("Mul", ["a", "four"], ["b"])], np.int64),
        (("a", "b", "one"), [node("Sub", ["four", "a"], ["b"])], np.int64),
        (("a", "b", "back"), [SUM], np.int64),
        (("four", "a", "one"), [], np.int64),
        (("a", "b", "one"), [SUM], np.int32),
        (("a", "b", "one"), [SUM], np.float32),
    ],
)
def test_other_ranges_stay_on_the_cpu(reads: Sequence[str], between: Any, kind: type) -> None:
    """Integers alone are shape arithmetic."""
    data = _range(reads, between, kind)
    ours, theirs = _ours(data), cpu(data)
    for start in (3, 1, 6):
        feed = {"a": np.array(start, kind)}
        np.testing.assert_array_equal(ours.run(None, feed)[0], theirs.run(None, feed)[0])
    (found,) = (n for n in tflgpu_plugin.report(ours).nodes if n.op == "Range")
    code = "constant.required" if kind == np.float32 else "partition.arithmetic"
    assert (found.where, found.refusal_code) == ("cpu", code)


def test_a_value_that_the_cpu_makes() -> None:
    """A loop runs while something is positive, which a node on the CPU determines."""
    nodes = [
        node("NonZero", ["c"], ["where"]), node("Shape", ["where"], ["s"]),
        node("Slice", ["s", "one", "two"], ["ends"]),
        node("Slice", ["x", "zero", "ends"], ["y"]), node("Tanh", ["y"], ["z"]),
    ]  # fmt: skip
    held = {"zero": whole(0), "one": whole(1), "two": whole(2)}
    data = model(nodes, {"x": X[0].shape, "c": (3,)}, {"z": None}, held)
    ours, theirs = _ours(data), cpu(data)
    for count in (1, 3, 2):
        feed = {"x": X[0], "c": np.float32([1, 1, 1]) * (np.arange(3) < count)}
        np.testing.assert_allclose(ours.run(None, feed)[0], theirs.run(None, feed)[0], atol=1e-5)


@pytest.mark.parametrize("name", ["axes", "scales"])
def test_a_compiled_model(name: str, tmp_path: Path) -> None:
    data, feeds = _built(name)
    (tmp_path / "model.onnx").write_bytes(data)
    path, theirs = tmp_path / "made.onnx", cpu(data)
    entries = {"ep__context_enable": "1", "ep__context_file_path": str(path)}
    _ours(str(tmp_path / "model.onnx"), **entries)
    again = _ours(str(path))
    for feed in feeds:
        np.testing.assert_allclose(again.run(None, feed)[0], theirs.run(None, feed)[0], atol=1e-5)


BEYOND = (2, 3, 1 << 40, (1 << 31) - 1, (1 << 31) - 2, LARGE, 1 << 31, -(1 << 40), -LARGE, 1)
DATA: dict[str, Sequence[Any]] = {
    "itself": [node("Cast", ["a"], ["f"], to=1)],
    "a sum": [node("Add", ["a", "one"], ["s"]), node("Cast", ["s"], ["f"], to=1)],
    "the lower of two": [node("Min", ["a", "far"], ["s"]), node("Cast", ["s"], ["f"], to=1)],
    "a comparison": [node("Less", ["far", "a"], ["s"]), node("Cast", ["s"], ["f"], to=1)],
}


def _both(between: Sequence[Any]) -> bytes:
    """Returns a model in which "a" ends a slice, and nodes make a factor from it."""
    nodes = [node("Slice", ["x", "zero", "a"], ["s0"]), node("Relu", ["s0"], ["y"]), *between,
             node("Mul", ["x", "f"], ["z"])]  # fmt: skip
    held = {"zero": whole(0), "one": whole(1), "far": whole(1 << 35)}
    return model(nodes, {"x": X.shape, "a": (1,)}, {"y": None, "z": None}, held,
                 kinds={"a": np.int64})  # fmt: skip


def _assert_same_for_all(ours: Any, data: bytes, numbers: Sequence[int]) -> None:
    theirs = cpu(data, optimize=False)
    for number in numbers:
        feed = {"x": X, "a": whole(number)}
        for got, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-6, err_msg=f"a = {number}")


@pytest.mark.parametrize("first", [2, 1 << 40, LARGE])
@pytest.mark.parametrize("name", DATA)
def test_integers_beyond_int32_that_are_data_too(name: str, first: int) -> None:
    """Such a run is the host's, be it the first one or not."""
    data = _both(DATA[name])
    ours = _ours(data)
    _assert_same_for_all(ours, data, (first, *BEYOND))
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert partition.runs >= 5 and not partition.failures


def test_integers_beyond_int32_of_a_compiled_model(tmp_path: Path) -> None:
    data = _both(DATA["itself"])
    path = tmp_path / "made.onnx"
    (tmp_path / "model.onnx").write_bytes(data)
    entries = {"ep__context_enable": "1", "ep__context_file_path": str(path)}
    _ours(str(tmp_path / "model.onnx"), **entries)
    _assert_same_for_all(_ours(str(path)), data, BEYOND)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_integers_that_wrap_around_in_int32(op: str) -> None:
    """The host wraps sums of int32 around, and so does a plan for values of any run."""
    nodes = [node("Slice", ["x", "zero", "a", "zero"], ["s0"]),
             node("Slice", ["s0", "zero", "b", "one"], ["s1"]), node("Relu", ["s1"], ["t"]),
             node(op, ["a", "b"], ["end"]), node("Slice", ["t", "zero", "end", "two"], ["s2"]),
             node("Relu", ["s2"], ["y"])]  # fmt: skip
    held = {name: np.array([k], np.int32) for k, name in enumerate(("zero", "one", "two"))}
    data = model(nodes, {"x": X.shape, "a": (1,), "b": (1,)}, {"y": None}, held,
                 kinds=dict.fromkeys("ab", np.int32))  # fmt: skip
    ours, theirs = _ours(data), cpu(data, optimize=False)
    far = np.iinfo(np.int32).max
    for a, b in ((1, 1), (2, 3), (3, -1), (2, 2), (far - 2, 1), (far - 2, 5), (far - 3, -9), (2, 2),
                 (9 - far, 12), (1 << 20, 1 << 12), (far // 2, 4)):  # fmt: skip
        feed = {"x": X, "a": np.array([a], np.int32), "b": np.array([b], np.int32)}
        (got,), (wanted,) = ours.run(None, feed), theirs.run(None, feed)
        assert got.shape == wanted.shape, (a, b)
        np.testing.assert_array_equal(got, wanted)


def test_numbers_are_restored() -> None:
    for array, dtype in (
        (np.array([[1.5, -np.inf]], np.float32), "f32"), (whole(-3, 7), "i64"),
        (np.array([True, False]), "bool"), (np.array(9, np.int32), "i32"),
    ):  # fmt: skip
        found = run_values.restored(run_values.numbers(array), array.shape, dtype)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    limits = np.iinfo(np.int32)
    assert run_values.numbers(whole(LARGE, -LARGE)) == (limits.max, limits.min)
