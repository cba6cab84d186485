"""Nodes that read results whose number a run counts run in the partition that counts, if each of
their results follows from the one at the same position; others are in a later partition. Results
equal the CPU's for any count, none and all included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.providers.onnxruntime.test_ort_counting import Feeds, boxes, chance, refused
from tests.providers.onnxruntime.test_ort_integers import build, same
from tests.support.counted_rows import FOUND, LENGTH
from tests.support.onnx_models import cpu, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

SIZE = 21
HELD: dict[str, Any] = {
    "half": np.float32(0.5), "three": np.float32([1, 2, 3]), "row": np.int64([[0, 1]]),
    "zero": np.int64([0]), "one": np.int64([1]), "two": np.int64([2]), "four": np.int64([4]),
    "first": np.int64(0), "column": np.int64([-1, 1]), "flat": np.int64([-1]),
    "bound": np.int64([SIZE, 1]), "many": chance(SIZE, 1), "ones": np.int64([1, 1]),
    "pairs": np.int64([-1, 2]), "both": np.int64([1, 0]), "least": np.int64([5]),
}  # fmt: skip
WIDE = [node("Unsqueeze", ["s", "one"], ["c"]), *LENGTH,
        node("Concat", ["length", "four"], ["wide"], axis=0)]  # fmt: skip

# Chains in the partition that counts.
KEPT: dict[str, list[Any]] = {
    "elementwise": [node("Mul", ["rows", "half"], ["a"]), node("Neg", ["a"], ["y"])],
    "two counted": [node("Unsqueeze", ["s", "one"], ["c"]), node("Add", ["rows", "c"], ["y"])],
    "cast": [node("Cast", ["rows"], ["y"], to=6)],
    "reshaped": [node("Reshape", ["s", "column"], ["y"])],
    "turned": [node("Transpose", ["rows"], ["y"], perm=[1, 0])],
    "around": [node("Unsqueeze", ["s", "both"], ["u"]), node("Squeeze", ["u", "one"], ["y"])],
    "sliced": [node("Slice", ["rows", "one", "four", "one"], ["y"])],
    "joined": [node("Concat", ["rows", "rows"], ["y"], axis=1)],
    "picked": [node("Gather", ["rows", "row"], ["y"], axis=1)],
    "indices": [node("Squeeze", ["at", "one"], ["i"]), node("Gather", ["x", "i"], ["y"], axis=0)],
    "expanded": [*WIDE, node("Expand", ["c", "wide"], ["y"])],
    "spread": [node("Unsqueeze", ["s", "one"], ["c"]), node("Expand", ["c", "ones"], ["y"])],
    "length": [*LENGTH, node("Concat", ["length", "one"], ["to"], axis=0),
               node("Reshape", ["s", "to"], ["y"])],
    "same": [node("Identity", ["rows"], ["y"])],
    "chosen": [
        node("Unsqueeze", ["rows", "zero"], ["b"]), node("Reshape", ["s", "three_axes"], ["w"]),
        node("NonMaxSuppression", ["b", "w", "least", "half_list"], ["y"]),
    ],
}  # fmt: skip
# Chains with a node that needs the count, or results at other positions.
APART: dict[str, list[Any]] = {
    "sum": [node("ReduceSum", ["rows", "zero"], ["y"], keepdims=0)],
    "running sum": [node("CumSum", ["rows", "first"], ["y"])],
    "largest": [node("ReduceMax", ["rows", "zero"], ["y"], keepdims=1)],
    "product": [node("Transpose", ["rows"], ["t"]), node("MatMul", ["t", "rows"], ["y"])],
    "cut": [node("Slice", ["rows", "zero", "four", "zero"], ["y"])],
    "cut at the length": [*LENGTH, node("Slice", ["rows", "zero", "length", "one"], ["y"])],
    "backwards": [node("Gather", ["rows", "last"], ["y"], axis=0)],
    "appended": [node("Concat", ["rows", "x"], ["y"], axis=0)],
    "flattened": [node("Reshape", ["rows", "flat"], ["y"])],
    "regrouped": [node("Reshape", ["rows", "pairs"], ["y"])],
    "length as a number": [*LENGTH, node("Cast", ["n"], ["f"], to=1),
                           node("Mul", ["rows", "f"], ["y"])],
    "at least five": [*WIDE[:-1], node("Max", ["length", "least"], ["more"]),
                      node("Concat", ["length", "more"], ["to"], axis=0),
                      node("Expand", ["c", "to"], ["y"])],
    "half of the boxes": [
        *LENGTH, node("Div", ["length", "two"], ["most"]),
        node("Unsqueeze", ["rows", "zero"], ["b"]), node("Reshape", ["s", "three_axes"], ["w"]),
        node("NonMaxSuppression", ["b", "w", "most", "half_list"], ["y"]),
    ],
    "picked from what needs the count": [
        node("ReduceMax", ["rows", "zero"], ["top"], keepdims=1),
        node("Mul", ["x", "top"], ["all"]), node("GatherND", ["all", "at"], ["y"]),
    ],
    "length read twice": [*WIDE, node("Expand", ["c", "wide"], ["e"]),
                          node("ConstantOfShape", ["length"], ["zeros"]),
                          node("Concat", ["s", "zeros"], ["t"], axis=0),
                          node("ReduceSum", ["e", "zero"], ["u"], keepdims=0),
                          node("Concat", ["t", "u"], ["y"], axis=0)],
    "two counts": [node("Less", ["scores", "half"], ["l"]), node("NonZero", ["l"], ["k"]),
                   node("Transpose", ["k"], ["other"]), node("GatherND", ["x", "other"], ["rest"]),
                   node("Concat", ["rows", "rest"], ["y"], axis=0)],
}  # fmt: skip
HELD |= {"three_axes": np.int64([1, 1, -1]), "half_list": np.float32([0.5]),
         "last": np.int64([0])}  # fmt: skip
HIGH = (0.3, 0.0, 1.0, 0.05, 0.9)


def feeds(*limits: float) -> list[Feeds]:
    """Returns inputs of which about this share is above a half; 0 gives none and 1 all."""
    x = chance(SIZE, 4)
    found = []
    for part in limits:
        x = x.copy()
        x[:, 0] = np.where(chance(SIZE, seed=3) < part, 0.75, 0.25) + 0.2 * chance(SIZE, seed=4)
        found.append({"x": np.round(x * 64).astype(np.float32) / 64})  # sums are exact
    return found


def used(nodes: Sequence[Any]) -> Feeds:
    return {name: HELD[name] for one in nodes for name in one.input if name in HELD}


def checked(nodes: Sequence[Any], given: Sequence[Feeds]) -> Any:
    """Asserts that results equal the CPU's. Returns the report."""
    data = build(nodes, given[0], ["y"], used(nodes))
    ours, theirs = session(data, force=1), cpu(data)
    for feed in given:
        same(ours, theirs, feed)
        assert ours.run(None, feed)[0].shape == theirs.run(None, feed)[0].shape
    return tflgpu_plugin.report(ours)


@pytest.mark.parametrize("case", KEPT)
def test_what_keeps_a_count_is_in_the_partition_that_counts(case: str) -> None:
    report = checked(FOUND + KEPT[case], feeds(*HIGH))
    assert {one.where for one in report.nodes} == {"gpu"}, str(report)
    (partition,) = report.partitions
    assert (partition.runs, partition.host_runs) == (2 * len(HIGH), 0)


@pytest.mark.parametrize("case", APART)
def test_what_needs_a_count_is_in_a_later_partition(case: str) -> None:
    assert len(checked(FOUND + APART[case], feeds(0.3, 1.0, 0.15, 0.9, 0.3)).partitions) == 2


def test_a_row_of_the_bound_is_not_of_the_count() -> None:
    """One found row broadcasts to as many rows as another input has."""
    nodes = [*FOUND, node("Unsqueeze", ["s", "one"], ["c"]), node("Add", ["c", "many"], ["y"])]
    data = build(nodes, feeds(0.3)[0], ["y"], used(nodes))
    ours, theirs = session(data, force=1), cpu(data)
    single = feeds(0.0)[0]["x"].copy()
    single[7, 0] = 0.9
    for feed in (feeds(1.0)[0], {"x": single}):
        same(ours, theirs, feed)
    few = feeds(0.3)[0]
    assert refused(theirs, few) and refused(ours, few)


def test_a_shape_of_the_bound_is_not_of_the_count() -> None:
    nodes = [*FOUND, node("Reshape", ["s", "bound"], ["y"])]
    data = build(nodes, feeds(0.3)[0], ["y"], used(nodes))
    ours, theirs = session(data, force=1), cpu(data)
    same(ours, theirs, feeds(1.0)[0])
    assert refused(theirs, feeds(0.3)[0]) and refused(ours, feeds(0.3)[0])


def test_an_index_outside_of_what_it_picks_from_fails_as_on_the_cpu() -> None:
    nodes = [*FOUND[:4], node("GatherND", ["few", "at"], ["y"])]
    held = used(nodes) | {"few": chance(SIZE - 4, 3)}
    data = build(nodes, feeds(1.0)[0], ["y"], held)
    ours, theirs = session(data, force=1), cpu(data)
    low = feeds(0.0)[0]["x"].copy()
    low[:9, 0] = 0.9
    same(ours, theirs, {"x": low})
    assert refused(theirs, feeds(1.0)[0]) and refused(ours, feeds(1.0)[0])


@pytest.mark.parametrize("threshold", [None, 0.3])
@pytest.mark.parametrize("step", [0, 0.25])
def test_boxes_that_were_counted(threshold: float | None, step: float) -> None:
    """Scores may tie, or be -inf: a box of that score counts, and what is beyond the count does
    not."""
    nodes = [
        node("Greater", ["t", "half"], ["m"]), node("NonZero", ["m"], ["z"]),
        node("Transpose", ["z"], ["at"]), node("GatherND", ["b", "at"], ["rows"]),
        node("GatherND", ["s", "at"], ["w"]), node("Transpose", ["w"], ["v"]),
        node("Unsqueeze", ["rows", "zero"], ["bs"]), node("Unsqueeze", ["v", "zero"], ["ss"]),
        node("NonMaxSuppression", ["bs", "ss", "most", "iou", "low"][: 4 + bool(threshold)], ["y"]),
    ]  # fmt: skip
    held = used(nodes) | {"most": np.int64([2**62]), "iou": np.float32([0.4])}
    if threshold is not None:
        held["low"] = np.float32([threshold])
    one = boxes(1, 3, 40, step)
    rows, scores = one["b"][0], one["s"][0].T.copy()
    scores[::7] = -np.inf
    given = [{"b": rows, "s": scores, "t": (chance(40, seed=5) < part).astype(np.float32)}
             for part in HIGH]  # fmt: skip
    report = checked_with(nodes, given, held)
    (partition,) = report.partitions
    assert partition.host_runs == 0


def test_more_boxes_than_can_be_selected_in_time() -> None:
    """The run that selects this many is the host's."""
    size = 4096
    nodes = [
        node("Greater", ["t", "half"], ["m"]), node("NonZero", ["m"], ["z"]),
        node("Transpose", ["z"], ["at"]), node("GatherND", ["b", "at"], ["rows"]),
        node("GatherND", ["t", "at"], ["s"]), node("Unsqueeze", ["rows", "zero"], ["bs"]),
        node("Unsqueeze", ["s", "both"], ["ss"]),
        node("NonMaxSuppression", ["bs", "ss", "most", "iou"], ["y"]),
    ]  # fmt: skip
    held = used(nodes) | {"most": np.int64([2**62]), "iou": np.float32([0.4])}
    corners = np.arange(size, dtype=np.float32)[:, None] * 2 + np.float32([0, 0, 1, 1])
    given = [{"b": corners, "t": chance(size) * np.float32(part)} for part in (0.51, 0.4, 0.52)]
    given.append({"b": corners, "t": chance(size) * np.float32(0.4) + np.float32(0.55)})
    (partition,) = checked_with(nodes, given, held).partitions
    assert (partition.runs, partition.host_runs) == (3, 1)


def checked_with(nodes: Sequence[Any], given: Sequence[Feeds], held: Feeds) -> Any:
    data = build(nodes, given[0], ["y"], held)
    ours, theirs = session(data, force=1), cpu(data)
    for feed in given:
        same(ours, theirs, feed)
    return tflgpu_plugin.report(ours)


def test_many_results_are_not_computed_for_the_bound() -> None:
    """Their number is worth another partition."""
    nodes = [
        node("Greater", ["x", "half"], ["m"]), node("NonZero", ["m"], ["z"]),
        node("Transpose", ["z"], ["at"]), node("GatherND", ["table", "at"], ["y"]),
    ]  # fmt: skip
    held = used(nodes) | {"table": chance(600, 1000)}
    given = [{"x": chance(600) * np.float32(part)} for part in (1.0, 0.55, 0.4)]
    assert len(checked_with(nodes, given, held).partitions) == 2


def test_more_results_for_the_bound_of_a_run_than_a_plan_allows() -> None:
    """The run is the host's, however few results it has."""
    nodes = [
        node("Greater", ["x", "half"], ["m"]), node("NonZero", ["m"], ["z"]),
        node("Transpose", ["z"], ["at"]), node("GatherND", ["x", "at"], ["s"]),
        node("Unsqueeze", ["s", "one"], ["c"]), node("Mul", ["c", "row_of_many"], ["y"]),
    ]  # fmt: skip
    held = used(nodes) | {"row_of_many": chance(1, 1000)}
    given = [{"x": chance(n) * np.float32(0.501)} for n in (900, 17_000, 30)]
    data = build(nodes, given[0], ["y"], held, {"x": ("n",)})
    ours, theirs = session(data, force=1), cpu(data)
    for feed in given:
        same(ours, theirs, feed)
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert (partition.runs, partition.host_runs) == (2, 1)


def test_other_shapes_than_the_first() -> None:
    """An extent that is 1 in the first run and as long as the count later needs the count."""
    nodes = [node("Greater", ["x", "half"], ["m"]), node("NonZero", ["m"], ["z"]),
             node("Transpose", ["z"], ["at"]), node("GatherND", ["x", "at"], ["s"]),
             node("Add", ["s", "term"], ["y"])]  # fmt: skip
    term = np.float32([0.5])
    given: list[Feeds] = [{"x": chance(n), "term": term} for n in (9, 30, 17, 30)]
    x = np.ones(6, np.float32)
    given += [{"x": x, "term": chance(6)}, {"x": chance(12), "term": term}]
    data = build(nodes, given[0], ["y"], used(nodes), {"x": ("n",), "term": ("m",)})
    ours, theirs = session(data, force=1), cpu(data)
    for feed in given:
        same(ours, theirs, feed)


def test_shape_arithmetic_is_where_it_is_read() -> None:
    """The length of an open input is read first where a later partition needs it."""
    nodes = [
        node("Relu", ["x"], ["r"]), node("Shape", ["r"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"], axis=0),
        node("Greater", ["r", "half"], ["m"]), node("NonZero", ["m"], ["z"]),
        node("Transpose", ["z"], ["at"]), node("GatherND", ["r", "at"], ["s"]),
        node("ReduceSum", ["s", "zero"], ["sum"], keepdims=1), node("Expand", ["sum", "n"], ["y"]),
    ]  # fmt: skip
    given = [{"x": np.round(chance(n) * 64) / 64} for n in (9, 30, 17, 30)]
    data = build(nodes, given[0], ["y"], used(nodes), {"x": ("n",)})
    ours, theirs = session(data, force=1), cpu(data)
    for feed in given:
        same(ours, theirs, feed)
    report = tflgpu_plugin.report(ours)
    assert {one.where for one in report.nodes} == {"gpu"}, str(report)
    assert len(report.partitions) == 2
