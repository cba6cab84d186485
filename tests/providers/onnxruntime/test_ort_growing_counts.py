"""A Range up to a number that a run computes on the GPU, as the frames of speech synthesis: it runs
in the partition that computes the number, whatever it is, and what is computed from it is as on the
CPU. Plans have room for 64 numbers at first, and for more once a run has more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.providers.onnxruntime.test_ort_counting import Feeds, opened
from tests.providers.onnxruntime.test_ort_integers import build
from tests.support.onnx_models import cpu, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

SIZE = 24
HELD: dict[str, Any] = {
    "zero": np.int64(0), "one": np.int64(1), "first": np.int64([0]), "second": np.int64([1]),
    "table": np.random.default_rng(3).random((SIZE, 5)).astype(np.float32) - np.float32(0.3),
    "two": np.float32(2), "kernel": np.float32([[[1, 2, 1]]]), "three": np.int64(3),
}  # fmt: skip
# As many frames as the largest sum of a row of `x` [2, SIZE] has, and which of them belong to
# a row and which to each of its elements, as an alignment of text and speech.
FRAMES = [
    node("ReduceSum", ["x", "second"], ["sums"], keepdims=0), node("Ceil", ["sums"], ["up"]),
    node("Cast", ["up"], ["lengths"], to=7), node("ReduceMax", ["lengths"], ["most"], keepdims=0),
    node("Range", ["zero", "most", "one"], ["frames"]),
]  # fmt: skip
MASK = [
    *FRAMES, node("Unsqueeze", ["frames", "first"], ["f"]),
    node("Unsqueeze", ["lengths", "second"], ["l"]), node("Less", ["f", "l"], ["inside"]),
    node("Cast", ["inside"], ["mask"], to=1),
]  # fmt: skip
ALIGNED = [
    *MASK, node("CumSum", ["x", "one"], ["ends"]), node("Unsqueeze", ["ends", "second"], ["e"]),
    node("Cast", ["frames"], ["ff"], to=1), node("Unsqueeze", ["ff", "second"], ["column"]),
    node("Less", ["column", "e"], ["before"]), node("Cast", ["before"], ["path"], to=1),
]  # fmt: skip

INSIDE: dict[str, list[Any]] = {
    "numbers": [*FRAMES, node("Identity", ["frames"], ["y"])],
    "mask": [*MASK, node("Mul", ["mask", "two"], ["y"])],
    "aligned": [*ALIGNED, node("MatMul", ["path", "table"], ["y"])],
    "turned": [*ALIGNED, node("Transpose", ["path"], ["t"], perm=[0, 2, 1]),
               node("Transpose", ["table"], ["tt"]), node("MatMul", ["tt", "t"], ["y"])],
    "placed": [*FRAMES, node("Unsqueeze", ["frames", "second"], ["at"]),
               node("Gather", ["places", "at"], ["y"])],
    "counted again": [*MASK, node("Shape", ["mask"], ["s"]),
                      node("Gather", ["s", "one"], ["n"], axis=0),
                      node("Cast", ["n"], ["nf"], to=1), node("Cast", ["zero"], ["z"], to=1),
                      node("Cast", ["one"], ["o"], to=1),
                      node("Range", ["z", "nf", "o"], ["r"]), node("Mul", ["mask", "r"], ["y"])],
}  # fmt: skip
LATER: dict[str, list[Any]] = {
    "sum": [*MASK, node("ReduceSum", ["mask", "second"], ["y"], keepdims=1)],
    "convolved": [*MASK, node("Unsqueeze", ["mask", "second"], ["m"]),
                  node("Conv", ["m", "kernel"], ["y"], pads=[1, 1])],
    "zeros": [*MASK, node("Unsqueeze", ["mask", "second"], ["m"]),
              node("Conv", ["m", "kernel"], ["c"], pads=[1, 1]), node("Shape", ["c"], ["s"]),
              node("ConstantOfShape", ["s"], ["z"]), node("Sub", ["z", "c"], ["y"])],
    "written at the numbers": [
        *FRAMES, node("Unsqueeze", ["frames", "second"], ["at"]),
        node("Cast", ["frames"], ["ff"], to=1), node("ConstantOfShape", ["wide"], ["base"]),
        node("ScatterND", ["base", "at", "ff"], ["y"])],
}  # fmt: skip
HELD["wide"] = np.int64([5000])
TOTALS = (9, 64, 0, 65, 1300, 3, 200, 9, -4)
HELD["places"] = np.random.default_rng(4).random((1310, 2)).astype(np.float32)  # room is for more


def feed(total: float, size: int = SIZE) -> Feeds:
    """Returns `x`, whose first row has this sum and whose second one a smaller one."""
    x = np.full((2, size), total / size, np.float32)
    x[1] *= np.float32(0.5)
    x[:, 0] += x[:, 1] / 2
    x[:, 1] /= 2
    return {"x": np.round(x * 1024) / np.float32(1024)}


def model(nodes: Sequence[Any], shapes: Mapping[str, Any] | None = None) -> bytes:
    held = {name: HELD[name] for one in nodes for name in one.input if name in HELD}
    return build(nodes, feed(9), ["y"], held, shapes)


def same(ours: Any, theirs: Any, given: Feeds) -> None:
    (got,), (wanted,) = ours.run(None, given), theirs.run(None, given)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def checked(data: bytes, given: Sequence[Feeds]) -> Any:
    """Asserts that results are the CPU's. Returns the report."""
    ours, theirs = session(data, force=1), cpu(data)
    for one in given:
        same(ours, theirs, one)
    return tflgpu_plugin.report(ours)


@pytest.mark.parametrize("case", INSIDE)
def test_frames_are_in_the_partition_that_counts_them(case: str) -> None:
    report = checked(model(INSIDE[case]), [feed(n) for n in TOTALS])
    assert {one.where for one in report.nodes} == {"gpu"}, str(report)
    (partition,) = report.partitions
    assert (partition.runs, partition.host_runs) == (len(TOTALS), 0)


@pytest.mark.parametrize("case", LATER)
def test_what_needs_all_frames_is_in_a_later_partition(case: str) -> None:
    report = checked(model(LATER[case]), [feed(n) for n in TOTALS if n > 0])
    assert {one.where for one in report.nodes} == {"gpu"}, str(report)
    assert len(report.partitions) == 2
    assert sum(one.host_runs for one in report.partitions) == 0


def test_frames_of_other_shapes_than_the_first() -> None:
    nodes = [*MASK, node("Mul", ["mask", "two"], ["y"])]
    given = [feed(*one) for one in ((9, 24), (80, 30), (500, 24), (7, 50), (900, 31), (901, 77))]
    report = checked(model(nodes, {"x": (2, "n")}), given)
    (partition,) = report.partitions
    assert (partition.runs, partition.host_runs) == (len(given), 0)


def test_more_frames_than_any_plan_has_room_for() -> None:
    """The run is the host's; later ones are not."""
    report = checked(model(INSIDE["mask"]), [feed(n) for n in (9, 70_000, 100)])
    (partition,) = report.partitions
    assert (partition.runs, partition.host_runs) == (2, 1)


def test_room_that_is_not_used_is_given_back() -> None:
    """Runs fetch all that there is room for: less after some runs with few frames, but never less
    than the first plan has room for."""
    data = model(INSIDE["mask"])
    ours, theirs = session(data, force=1), cpu(data)
    fetched = []
    for n in (9, 3000, *[9] * 80):
        before = sum(one.downloaded_bytes for one in tflgpu_plugin.report(ours).partitions)
        same(ours, theirs, feed(n))
        after = sum(one.downloaded_bytes for one in tflgpu_plugin.report(ours).partitions)
        fetched.append(after - before)
    assert fetched[2] >= 3000 * 8 and fetched[-1] == fetched[0]


def test_threads_whose_runs_have_different_numbers() -> None:
    data = model(INSIDE["aligned"])
    ours, theirs = session(data, force=1), cpu(data)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: same(ours, theirs, feed(n)), [*TOTALS, 90, 2, 700] * 2))
    assert sum(one.host_runs for one in tflgpu_plugin.report(ours).partitions) == 0


def test_a_limit_that_the_host_knows_is_none_that_a_run_counts() -> None:
    """A few integers of an input: the host computes the largest of them before the run."""
    nodes = [node("ReduceMax", ["lengths"], ["most"], keepdims=0),
             node("Range", ["zero", "most", "one"], ["r"]), node("Cast", ["r"], ["f"], to=1),
             node("Mul", ["f", "x"], ["y"])]  # fmt: skip
    given: list[Feeds] = [{"lengths": np.int64([n, 2]), "x": np.float32([1.5])} for n in (9, 100)]
    held = {name: HELD[name] for name in ("zero", "one")}
    report = checked(build(nodes, given[0], ["y"], held), given)
    assert {one.op: one.where for one in report.nodes}["ReduceMax"] == "cpu"


def test_plans_with_room_are_kept_in_a_cache_and_in_a_compiled_model(tmp_path: Path) -> None:
    data, theirs = model(INSIDE["aligned"]), cpu(model(INSIDE["aligned"]))
    for _ in range(2):
        ours = session(data, force=1, serialization_dir=tmp_path)
        for n in TOTALS:
            same(ours, theirs, feed(n))
    (tmp_path / "model.onnx").write_bytes(data)
    made = tmp_path / "made.onnx"
    entries = {"ep__context_enable": "1", "ep__context_file_path": str(made)}
    opened(str(tmp_path / "model.onnx"), **entries)
    again = opened(str(made))
    assert {*places(again).values()} == {"gpu"}
    for n in TOTALS:
        same(again, theirs, feed(n))
