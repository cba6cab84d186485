"""Nodes that compute each of a counted number of rows from that row alone, index grids that follow
from the count, and updates that are counted: they run in the partition that counts, and results
equal the CPU's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.providers.onnxruntime.test_ort_counting import Feeds, chance, refused
from tests.providers.onnxruntime.test_ort_integers import build
from tests.support.counted_rows import FOUND, LENGTH
from tests.support.onnx_models import Array, cpu, node, session
from tflgpu_plugin.runtime import adapter

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

SIZE = 21
HELD: dict[str, Any] = {
    "half": np.float32(0.5), "first": np.int64(0), "step": np.int64(1), "two": np.int64(2),
    "zero": np.int64([0]), "one": np.int64([1]), "five": np.int64([5]), "four": np.int64([4]),
    "end": np.int64([2**63 - 1]), "sides": np.int64([0, 1, 0, 2]), "below": np.int64([0, 0, 1, 0]),
    "square": np.float32(2), "minus": np.int64([-1]), "single": np.float32([3]),
    "parts": np.int64([1, 3]), "far": np.int64([7]), "ones": np.int64([1, 1]),
    "open_ends": np.int64([-1, -1]),
}  # fmt: skip
NUMBERED = [*LENGTH, node("Range", ["first", "n", "step"], ["numbers"])]
# Coordinates [count, 1, 2] of the second column, as exporters write `rows[:, 1] = ...`.
GRID = [
    *NUMBERED, node("Unsqueeze", ["numbers", "one"], ["down"]),
    node("Concat", ["length", "one"], ["tall"], axis=0),
    node("Equal", ["tall", "open_ends"], ["open"]), node("Where", ["open", "ones", "tall"], ["to"]),
    node("Expand", ["one", "to"], ["column"]), node("Expand", ["down", "to"], ["row"]),
    node("Unsqueeze", ["row", "minus"], ["r"]), node("Unsqueeze", ["column", "minus"], ["c"]),
    node("Concat", ["r", "c"], ["grid"], axis=-1),
]  # fmt: skip

KEPT: dict[str, list[Any]] = {
    "softmax": [node("Softmax", ["rows"], ["y"], axis=-1)],
    "log softmax": [node("LogSoftmax", ["rows"], ["y"], axis=1)],
    "running sums": [node("CumSum", ["rows", "one_axis"], ["y"], reverse=1)],
    "powers": [node("Pow", ["rows", "square"], ["y"])],
    "padded": [node("Pad", ["rows", "sides"], ["y"])],
    "sums": [node("ReduceSum", ["rows", "one"], ["y"], keepdims=0)],
    "means": [node("ReduceMean", ["rows", "minus"], ["m1"]), node("Sub", ["rows", "m1"], ["y"])],
    "largest": [node("ArgMax", ["rows"], ["y"], axis=1, keepdims=0)],
    "largest of a turned": [node("Transpose", ["rows"], ["t"]),
                            node("ReduceMax", ["t", "zero"], ["y"], keepdims=0)],
    "split": [node("Split", ["rows", "parts"], ["a", "b"], axis=1),
              node("Mul", ["a", "b"], ["y"])],
    "picked": [node("ArgMax", ["rows"], ["i"], axis=1, keepdims=1),
               node("GatherElements", ["rows", "i"], ["y"], axis=1)],
    "picked from another": [node("GatherElements", ["x", "at"], ["y"], axis=0)],
    "numbered": [*NUMBERED, node("Cast", ["numbers"], ["f"], to=1), node("Add", ["s", "f"], ["y"])],
    "filled": [*LENGTH, node("ConstantOfShape", ["length"], ["zeros"]),
               node("Add", ["s", "zeros"], ["y"])],
    "spread": [*LENGTH, node("Expand", ["single", "length"], ["e"]),
               node("Sub", ["s", "e"], ["y"])],
    "up to the length": [*LENGTH, node("Slice", ["rows", "zero", "length", "zero"], ["y"])],
    "up to the end": [node("Slice", ["rows", "zero", "end", "zero"], ["y"])],
    "written": [node("Neg", ["rows"], ["u"]), node("ScatterND", ["x", "at", "u"], ["y"])],
    "added": [node("ScatterND", ["x", "at", "rows"], ["y"], reduction="add")],
    "added in pairs": [node("Concat", ["at", "at"], ["twice"], axis=1),
                       node("Unsqueeze", ["twice", "minus"], ["t"]),
                       node("Unsqueeze", ["rows", "one"], ["r1"]),
                       node("Concat", ["r1", "r1"], ["u"], axis=1), node("Neg", ["u"], ["v"]),
                       node("ScatterND", ["x", "t", "v"], ["y"], reduction="add")],
    "added below one row": [node("Unsqueeze", ["at", "zero"], ["t"]),
                            node("Unsqueeze", ["rows", "zero"], ["u"]),
                            node("ScatterND", ["x", "t", "u"], ["y"], reduction="add")],
    "written from the end": [node("Sub", ["at", "far"], ["b"]),
                             node("ScatterND", ["x", "b", "rows"], ["y"])],
    "a column": [*GRID, node("Unsqueeze", ["s", "one"], ["u"]),
                 node("ScatterND", ["rows", "grid", "u"], ["y"])],
    "a filled column": [*GRID, node("Expand", ["single", "tall"], ["u"]),
                        node("ScatterND", ["rows", "grid", "u"], ["w"]), node("Neg", ["w"], ["y"])],
    "backwards": [*NUMBERED, node("Unsqueeze", ["numbers", "one"], ["down"]),
                  node("Sub", ["minus", "down"], ["up"]),
                  node("ScatterND", ["rows", "up", "rows"], ["y"])],
}  # fmt: skip
APART: dict[str, list[Any]] = {
    "softmax of columns": [node("Softmax", ["rows"], ["y"], axis=0)],
    "padded below": [node("Pad", ["rows", "below"], ["y"])],
    "a largest column": [node("ArgMax", ["rows"], ["y"], axis=0)],
    "all": [node("ReduceSum", ["rows"], ["y"], keepdims=0)],
    "numbered by two": [*LENGTH, node("Mul", ["n", "two"], ["m2"]),
                        node("Range", ["first", "m2", "two"], ["i"]),
                        node("Cast", ["i"], ["f"], to=1), node("Add", ["s", "f"], ["y"])],
    "more": [*LENGTH, node("Add", ["length", "one"], ["k"]), node("Expand", ["single", "k"], ["e"]),
             node("ReduceSum", ["e", "zero"], ["w"]), node("Add", ["rows", "w"], ["y"])],
    "other for five": [*LENGTH, node("Equal", ["length", "five"], ["is"]),
                       node("Where", ["is", "four", "length"], ["w"]),
                       node("Expand", ["single", "w"], ["e"]),
                       node("Unsqueeze", ["e", "one"], ["u"]),
                       node("Gather", ["x", "zero"], ["top"], axis=0),
                       node("Mul", ["u", "top"], ["y"])],
    "none for five": [*LENGTH, node("Sub", ["length", "five"], ["d"]),
                      node("Cast", ["d"], ["is"], to=9), node("Cast", ["is"], ["f"], to=1),
                      node("Mul", ["rows", "f"], ["y"])],
    "columns": [*NUMBERED, node("Gather", ["x", "numbers"], ["r"], axis=0),
                node("Transpose", ["r"], ["t"]), node("MatMul", ["t", "rows"], ["y"])],
    "added in two rows": [node("Unsqueeze", ["at", "zero"], ["a1"]),
                          node("Concat", ["a1", "a1"], ["t"], axis=0),
                          node("Unsqueeze", ["rows", "zero"], ["r1"]),
                          node("Concat", ["r1", "r1"], ["u"], axis=0),
                          node("ScatterND", ["x", "t", "u"], ["y"], reduction="add")],
    "picked below": [node("ArgMax", ["rows"], ["i"], axis=0, keepdims=1),
                     node("GatherElements", ["rows", "i"], ["y"], axis=0)],
}  # fmt: skip
HELD["one_axis"] = np.int64(1)
COUNTS = (6, 0, SIZE, 1, 5, 17, 5)


def feed(count: int, size: int = SIZE) -> Feeds:
    """Returns an input of which `count` rows are found, with values that sums hold exactly."""
    x = chance(size, 4) * 4 - 1
    x[:, 0] = 0.25
    x[np.random.default_rng(count).permutation(size)[:count], 0] = 0.75
    return {"x": np.round(x * 64).astype(np.float32) / 64}


def used(nodes: Sequence[Any]) -> dict[str, Array]:
    return {name: HELD[name] for one in nodes for name in one.input if name in HELD}


def checked(
    nodes: Sequence[Any], given: Sequence[Feeds], shapes: Mapping[str, Any] | None = None
) -> Any:
    """Asserts that results are the CPU's. Returns the report."""
    data = build(nodes, given[0], ["y"], used(nodes), shapes)
    ours, theirs = session(data, force=1), cpu(data)
    for one in given:
        (got,), (wanted,) = ours.run(None, one), theirs.run(None, one)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-6)
    return tflgpu_plugin.report(ours)


@pytest.mark.parametrize("case", KEPT)
def test_rows_are_in_the_partition_that_counts(case: str) -> None:
    report = checked(FOUND + KEPT[case], [feed(n) for n in COUNTS])
    assert {one.where for one in report.nodes} == {"gpu"}, str(report)
    (partition,) = report.partitions
    assert (partition.runs, partition.host_runs) == (len(COUNTS), 0)


@pytest.mark.parametrize("case", KEPT)
def test_rows_of_other_shapes_than_the_first(case: str) -> None:
    given = [feed(count, size) for count, size in ((6, 21), (9, 30), (30, 30), (0, 12), (3, 17))]
    report = checked(FOUND + KEPT[case], given, {"x": ("size", 4)})
    assert sum(one.host_runs for one in report.partitions) == 0


@pytest.mark.parametrize("case", APART)
def test_what_needs_the_count_is_in_a_later_partition(case: str) -> None:
    given = [feed(n) for n in COUNTS if n]
    assert len(checked(FOUND + APART[case], given).partitions) == 2


def test_indices_beyond_the_count_are_not_read() -> None:
    """They would be out of range; indices of the rows that were found are not."""
    nodes = [*FOUND, node("Mul", ["s", "hundred"], ["h"]), node("Floor", ["h"], ["w"]),
             node("Cast", ["w"], ["i1"], to=7), node("Sub", ["i1", "offset"], ["i"]),
             node("Unsqueeze", ["i", "one"], ["u"]),
             node("GatherElements", ["rows", "u"], ["y"], axis=1)]  # fmt: skip
    HELD.update(hundred=np.float32(100), offset=np.int64([73]))
    (partition,) = checked(nodes, [feed(n) for n in COUNTS]).partitions
    assert partition.host_runs == 0


@pytest.mark.parametrize(
    ("op", "index"), [("Gather", "numbers"), ("Gather", "down"), ("GatherND", "down")]
)
def test_numbers_beyond_the_count_are_not_read(op: str, index: str) -> None:
    """There are more of them than rows in the table, which a run may count at most."""
    nodes = [*FOUND, *NUMBERED, node("Unsqueeze", ["numbers", "one"], ["down"]),
             node(op, ["table", index], ["y"])]  # fmt: skip
    HELD["table"] = chance(7, 3)
    report = checked(nodes, [feed(n) for n in COUNTS if n < 8])
    assert {one.where for one in report.nodes} == {"gpu"}, str(report)
    (partition,) = report.partitions
    assert partition.host_runs == 0


def test_few_updates_of_many_take_little_time() -> None:
    """Each element looks at the updates that are there, not at as many as there may be."""
    if not adapter.open_device(adapter.select(None)).target.software:
        pytest.skip("A GPU takes little time for many updates, too.")
    times = []
    for count in (5, 2000):
        given = feed(count, 2000)
        ours = session(build(FOUND + KEPT["written"], given, ["y"], used(FOUND)), force=1)
        ours.run(None, given)
        started = time.perf_counter()
        ours.run(None, given)
        times.append(time.perf_counter() - started)
    assert times[0] < times[1] / 4  # measured: 0.01


@pytest.mark.parametrize("name", ["into fixed rows", "into counted rows"])
def test_updates_out_of_range_fail_as_on_the_cpu(name: str) -> None:
    """Indices between the count and the bound are out of range, too."""
    into = [node("ScatterND", ["x", "far_at", "rows"], ["y"])]
    if name == "into counted rows":
        into = [node("ScatterND", ["rows", "far_at", "rows"], ["y"])]
    nodes = [*FOUND, node("Add", ["at", "far"], ["far_at"]), *into]
    data = build(nodes, feed(3), ["y"], used(nodes))
    ours, theirs = session(data, force=1), cpu(data)
    low = feed(0)["x"].copy()
    low[:4, 0] = 0.75
    for given in ({"x": low}, feed(SIZE), feed(0)):
        if refused(theirs, given):
            assert refused(ours, given)
        else:
            np.testing.assert_array_equal(ours.run(None, given)[0], theirs.run(None, given)[0])
