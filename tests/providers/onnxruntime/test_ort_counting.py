"""Tests ONNX operators whose results are counted in a run: results equal the CPU's, whatever the
count is, with nodes that read them and in compiled models; and the conditions of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.providers.onnxruntime.test_ort_integers import build, same
from tests.support.onnx_models import Array, Shape, cpu, node, places, session
from tests.support.onnx_nodes import Node
from tflgpu_plugin.runtime.program import Instance, Program

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

Feeds = Mapping[str, Array]


def chance(*shape: int, below: float = 1.0, seed: int = 0) -> Array:
    return np.random.default_rng([*shape, seed]).random(shape).astype(np.float32) * np.float32(
        below
    )


def check(nodes: Sequence[Any], feeds: Sequence[Feeds], outputs: Sequence[str],
          constants: Feeds | None = None, shapes: Mapping[str, Shape] | None = None,
          cpu_nodes: Sequence[str] = ()) -> None:  # fmt: skip
    """Asserts equal results for all feeds in one session, and that only these operators are on the
    CPU."""
    data = build(nodes, feeds[0], outputs, constants, shapes)
    ours, theirs = session(data, force=1), cpu(data)
    assert {op for op, where in places(ours).items() if where == "cpu"} == {*cpu_nodes}
    for feed in feeds:
        same(ours, theirs, feed)
        for got, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            assert got.shape == wanted.shape


@pytest.mark.adapter
@pytest.mark.parametrize("kind", [np.float32, np.bool_, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("shape", [(9,), (3, 5), (2, 3, 4), (1, 2, 33, 17)])
def test_nonzero(kind: type, shape: tuple[int, ...]) -> None:
    feeds = [{"x": (chance(*shape) < part).astype(kind)} for part in (0.3, 0, 1, 0.9)]
    check([node("NonZero", ["x"], ["y"])], feeds, ["y"])


@pytest.mark.adapter
def test_nonzero_of_odd_numbers() -> None:
    x = np.float32([0, -0.0, 1e-40, np.nan, -np.inf, 5, 0, -3])
    check([node("NonZero", ["x"], ["y"])], [{"x": x}], ["y"])


@pytest.mark.adapter
def test_nonzero_of_other_shapes_and_of_nothing() -> None:
    feeds = [{"x": chance(*shape) > 0.5} for shape in ((3, 4), (1, 1), (0, 4), (5, 0), (70, 3))]
    check([node("NonZero", ["x"], ["y"])], feeds, ["y"], shapes={"x": ("a", "b")})


@pytest.mark.adapter
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(axis: int | None) -> None:
    more = {} if axis is None else {"axis": axis}
    x, extent = chance(4, 5, 6), 120 if axis is None else (4, 5, 6)[axis]
    for count in (extent, extent - 2):
        feeds = [{"x": x, "c": chance(count, seed=1) < part} for part in (0.5, 0, 1)]
        check([node("Compress", ["x", "c"], ["y"], **more)], feeds, ["y"])


@pytest.mark.adapter
@pytest.mark.parametrize("axis", [None, 1])
def test_compress_of_other_shapes_and_of_nothing(axis: int | None) -> None:
    more = {} if axis is None else {"axis": axis}
    sizes = ((2, 9, 9), (1, 7, 5), (0, 8, 6), (2, 0, 0), (2, 6, 0))
    feeds = [{"x": chance(a, b, 3), "c": chance(c, seed=1) < 0.5} for a, b, c in sizes]
    shapes: dict[str, Shape] = {"x": ("a", "b", 3), "c": ("c",)}
    check([node("Compress", ["x", "c"], ["y"], **more)], feeds, ["y"], shapes=shapes)


@pytest.mark.adapter
@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("sorted_", [0, 1])
def test_unique(kind: type, sorted_: int) -> None:
    shapes = ((3, 7), (1, 1), (1, 2), (20, 30), (0, 4))
    feeds = [{"x": np.floor(chance(*shape, below=12) - 5).astype(kind)} for shape in shapes]
    one = node("Unique", ["x"], ["y", "first", "kinds", "counts"], sorted=sorted_)
    check([one], feeds, ["y", "first", "kinds", "counts"], shapes={"x": ("a", "b")})
    only = node("Unique", ["x"], ["y", "", "kinds"], sorted=sorted_, axis=-1)
    check([only], [{"x": feeds[3]["x"].reshape(-1)}], ["y", "kinds"])


@pytest.mark.adapter
@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("sorted_", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_parts(kind: type, sorted_: int, axis: int) -> None:
    """Many parts are equal, some differ only in the last element; there is a single part, and there
    are only different ones."""
    outputs = ["y", "first", "kinds", "counts"]
    one = node("Unique", ["x"], outputs, sorted=sorted_, axis=axis)
    shapes = [(40, 2, 1), (2, 40, 2), (1, 2, 40), (9, 1, 3), (1, 1, 1), (5, 6, 7), (3, 50, 4)]
    feeds = [
        {"x": np.floor(chance(*shape, below=below) - 1).astype(kind)}
        for shape in shapes for below in (2, 3)
    ]  # fmt: skip
    check([one], feeds, outputs, shapes={"x": ("a", "b", "c")})
    only = node("Unique", ["x"], ["y", "", "", "counts"], sorted=sorted_, axis=axis % 2)
    check([only], [{"x": feeds[0]["x"].reshape(-1, 2)}], ["y", "counts"])


def boxes(batches: int, classes: int, count: int, step: float = 0) -> Feeds:
    """Returns boxes and scores with many ties, because they are multiples of a step."""
    given = chance(batches, count, 4), chance(batches, classes, count)
    rounded = [np.round(x / step) * np.float32(step) if step else x for x in given]
    return {"b": rounded[0].astype(np.float32), "s": rounded[1].astype(np.float32)}


LIMITS = [
    ((1, 1, 30), 10, 0.5, 0.2), ((2, 3, 100), 20, 0.3, None), ((1, 20, 300), 30, 0.45, 0.25),
    ((1, 2, 50), 1000, None, None), ((2, 2, 50), 5, 0.0, 0.5), ((1, 1, 600), 600, 1.0, 0.0),
    ((1, 4, 200), 200, 0.5, 0.999), ((1, 2, 9), 0, 0.5, 0.1), ((1, 2, 9), -3, 0.5, 0.1),
]  # fmt: skip


@pytest.mark.adapter
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("centre", [0, 1])
def test_non_max_suppression(limits: Any, centre: int) -> None:
    """A box with a negative side overlaps no other one if it has a centre; if it has two corners,
    these may be in either order."""
    sizes, *numbers = limits
    kinds = (np.int64, np.float32, np.float32)
    held = {name: np.array([number], kind)
            for name, number, kind in zip("koi", numbers, kinds, strict=True)
            if number is not None}  # fmt: skip
    names = ["b", "s", *(name if name in held else "" for name in "koi")]
    one = node("NonMaxSuppression", names, ["y"], center_point_box=centre)
    feeds = [boxes(*sizes), boxes(*sizes, 0.25)]
    feeds += [{**feed, "b": feed["b"] - np.float32(0.25)} for feed in feeds]
    check([one], feeds, ["y"], held)
    check([one], [{**feed, **held} for feed in feeds], ["y"])


THRESHOLDS = [
    (0.5, 0.2), (0.3, 0.6), (0.0, 0.2), (1.0, 0.2), (1e-40, 0.5), (np.float32(1) - 2**-24, 0.0),
    (0.5, np.nan), (0.5, np.inf), (0.5, -np.inf), (0.25, 0.5),
]  # fmt: skip


@pytest.mark.adapter
@pytest.mark.parametrize("step", [0, 0.25])
def test_thresholds_may_be_made_beside_the_boxes(step: float) -> None:
    nodes = [
        node("Mul", ["overlap", "one"], ["o"]), node("Mul", ["score", "one"], ["i"]),
        node("NonMaxSuppression", ["b", "s", "k", "o", "i"], ["y"]),
    ]  # fmt: skip
    feed = {**boxes(1, 3, 60, step), **dict.fromkeys(("overlap", "score"), np.zeros(1, np.float32))}
    held = {"k": np.array([20]), "one": np.ones(1, np.float32)}
    data = build(nodes, feed, ["y"], held)
    ours, theirs = session(data), cpu(data)
    for overlap, score in THRESHOLDS:
        each = {"overlap": np.float32([overlap]), "score": np.float32([score])}
        same(ours, theirs, feed | each)
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert (partition.runs, partition.host_runs) == (len(THRESHOLDS), 0)


@pytest.mark.adapter
@pytest.mark.parametrize("most", [0, 20])
@pytest.mark.parametrize("overlap", [-0.1, 1.5, np.nan])
def test_an_overlap_of_a_run_that_is_none_fails_as_on_the_cpu(most: int, overlap: float) -> None:
    one = node("NonMaxSuppression", ["b", "s", "k", "o"], ["y"])
    feed = {**boxes(1, 3, 60), "o": np.float32([overlap])}
    data = build([one], feed, ["y"], {"k": np.array([most])})
    for each in (cpu(data), session(data)):
        with pytest.raises(Exception, match="iou_threshold"):
            each.run(None, feed)


@pytest.mark.adapter
def test_no_boxes() -> None:
    one = node("NonMaxSuppression", ["b", "s", "k"], ["y"])
    feeds = [boxes(1, 2, count) for count in (5, 0, 7)]
    shapes: dict[str, Shape] = {"b": (1, "n", 4), "s": (1, 2, "n")}
    check([one], feeds, ["y"], {"k": np.array([3])}, shapes)
    check([node("NonMaxSuppression", ["b", "s"], ["y"])], feeds[:1], ["y"])


@pytest.mark.adapter
def test_what_reads_a_counted_result() -> None:
    """Nodes that read it run in a separate partition, whose shapes are known in each run."""
    nodes = [
        node("Greater", ["x", "half"], ["b"]), node("NonZero", ["b"], ["z"]),
        node("Transpose", ["z"], ["places"]), node("GatherND", ["x", "places"], ["v"]),
        node("Mul", ["v", "half"], ["w"]), node("Shape", ["z"], ["shape"]),
        node("Relu", ["x"], ["r"]),
    ]  # fmt: skip
    feeds = [{"x": chance(13, 11, below=below)} for below in (1.0, 0.6, 0.4, 0.7)]
    held = {"half": np.float32(0.5)}
    check(nodes, feeds, ["w", "z", "shape", "r"], held, cpu_nodes=["Shape"])


SCATTERED = {
    "ScatterND": [
        ((4, 3), (2, 1), (2, 3)), ((4, 3), (0, 1), (0, 3)), ((4, 3), (2, 0), (2, 4, 3)),
        ((4, 3), (2, 0), (2, 3)), ((4, 3), (0, 1), (0, 4)), ((4, 3), (0, 2), (0,)),
        ((4, 3), (0, 2), (0, 3)), ((0, 3), (0, 1), (0, 3)), ((4, 0), (2, 1), (2, 0)),
    ],
    "ScatterElements": [
        ((4, 3), (2, 3), (2, 3)), ((4, 3), (0, 3), (0, 3)), ((4, 3), (2, 0), (2, 0)),
        ((4, 3), (0, 3), (2, 3)), ((4, 3), (0, 3), (0, 2)), ((0, 3), (0, 3), (0, 3)),
    ],
}  # fmt: skip


def refused(running: Any, values: Feeds) -> bool:
    """Whether a run raises; onnxruntime's errors have no base class of their own."""
    try:
        running.run(None, values)
    except Exception:
        return True
    return False


@pytest.mark.adapter
@pytest.mark.parametrize("op", SCATTERED)
def test_scatters_of_any_number_of_elements(op: str) -> None:
    """Without an element, too, shapes must fit; an index of no coordinate selects all data."""
    for data, at, given in SCATTERED[op]:
        shapes = {"x": data, "at": at, "given": given}
        values: Feeds = {
            name: np.zeros(shape, np.int64) if name == "at" else chance(*shape)
            for name, shape in shapes.items()
        }
        built = build([node(op, ["x", "at", "given"], ["y"])], values, ["y"])
        ours, theirs = session(built, force=1), cpu(built)
        if refused(theirs, values):
            assert refused(ours, values), shapes
        else:
            same(ours, theirs, values)


@pytest.mark.adapter
def test_a_scatter_of_as_many_elements_as_a_mask_has() -> None:
    """Splines of speech synthesis write back what is outside of an interval. A run with nothing to
    write is the GPU's, too."""
    nodes = [
        node("Greater", ["x", "top"], ["b"]), node("NonZero", ["b"], ["z"]),
        node("Transpose", ["z"], ["at"], perm=[1, 0]), node("GatherND", ["x", "at"], ["given"]),
        node("Neg", ["x"], ["base"]), node("ScatterND", ["base", "at", "given"], ["y"]),
    ]  # fmt: skip
    feeds: list[Feeds] = [{"x": chance(3, 4), "top": np.float32(top)} for top in (0.5, 2, -1)]
    data = build(nodes, feeds[0], ["y"])
    ours, theirs = session(data, force=1), cpu(data)
    for given in feeds:
        same(ours, theirs, {name: np.asarray(value) for name, value in given.items()})
    report = tflgpu_plugin.report(ours)
    assert not report.host_runs and {one.where for one in report.nodes} == {"gpu"}


@pytest.mark.adapter
def test_a_shape_that_hangs_on_a_count_is_worked_out_anew() -> None:
    """The bound is not the shape, neither for its readers nor for values computed from it."""
    nodes = [
        node("NonZero", ["x"], ["z"]), node("Shape", ["z"], ["shape"]),
        node("ConstantOfShape", ["shape"], ["zeros"]), node("Cast", ["z"], ["floats"], to=1),
        node("Add", ["floats", "zeros"], ["y"]),
    ]  # fmt: skip
    data = build(nodes, {"x": chance(4, 6)}, ["y"])
    ours, theirs = session(data, force=1), cpu(data)
    for part in (0.5, 0, 0.9):
        same(ours, theirs, {"x": np.float32(chance(4, 6) < part)})


@pytest.mark.adapter
def test_a_told_count_is_below_the_bound() -> None:
    """A model may state the count, for one input."""
    from onnx import TensorProto, helper

    x = np.float32([[1, 0], [1, 1]])
    graph = helper.make_graph(
        [node("NonZero", ["x"], ["y"])], "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [2, 3])],
    )  # fmt: skip
    opset = helper.make_opsetid("", 18)
    data = helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
    ours = session(data)
    assert places(ours) == {"NonZero": "gpu"}
    same(ours, cpu(data), {"x": x})


@pytest.mark.adapter
def test_a_compiled_model(tmp_path: Path) -> None:
    nodes = [node("Unique", ["x"], ["y", "", "", "n"]), node("NonZero", ["x"], ["z"])]
    feeds = [{"x": np.floor(chance(n, below=5))} for n in (30, 7, 30)]
    data = build(nodes, feeds[0], ["y", "n", "z"], shapes={"x": ("n",)})
    (tmp_path / "model.onnx").write_bytes(data)
    made = tmp_path / "made.onnx"
    entries = {"ep__context_enable": "1", "ep__context_file_path": str(made)}
    opened(str(tmp_path / "model.onnx"), **entries)
    again, theirs = opened(str(made)), cpu(data)
    assert set(places(again).values()) == {"gpu"}
    for feed in feeds:
        same(again, theirs, feed)


def opened(path: str, **entries: str) -> Any:
    import onnxruntime

    import tflgpu_plugin
    from tests.support.onnx_models import EP, quiet

    tflgpu_plugin.register()
    return onnxruntime.InferenceSession(path, quiet(**entries), providers=[EP])


def another(partition: Any) -> Instance:
    """Returns a second instance of the plan; native code has taken over the first."""
    device = partition.device
    return Instance(Program(partition.instance.plan, device.handle, device.pipelines))


@pytest.mark.adapter
def test_a_count_beyond_its_room_is_an_error() -> None:
    """Whatever a device reports, nothing is read past the data that it has written."""
    import tflgpu_plugin
    from tflgpu_plugin.providers.onnxruntime import sessions

    ours = session(build([node("NonZero", ["x"], ["y"])], {"x": chance(3, 4)}, ["y"]), force=1)
    (partition,) = tflgpu_plugin.report(ours).partitions
    placed = sessions.kept.claimed(partition.key, "")
    placed.add(placed.handle, placed.interface.key, [(9, -1)], another(placed.partition))
    assert ours.run(None, {"x": np.float32(chance(3, 4) < 0)})[0].shape == (9, 0)
    with pytest.raises(Exception, match="bytes, but its plan has room for 192"):
        ours.run(None, {"x": np.ones((3, 4), np.float32)})


def misplanned(given: Shape | None, made: Shape) -> tuple[Any, Shape]:
    """Returns a session whose partition got a plan for other shapes: for inputs of `given` (None:
    the right shape) and results of `made`; and the shape of its input."""
    import tflgpu_plugin
    from tflgpu_plugin.providers.onnxruntime import sessions

    data = build([node("Relu", ["x"], ["y"])], {"x": chance(1)}, ["y"], shapes={"x": (3, "n")})
    ours = session(data, force=1)
    (partition,) = tflgpu_plugin.report(ours).partitions
    placed = sessions.kept.claimed(partition.key, "")
    (planned,) = placed.interface.key
    placed.add(placed.handle, [given or planned], [made], another(placed.partition))
    return ours, given or planned


@pytest.mark.adapter
def test_an_input_of_other_bytes_than_its_plan_is_the_hosts(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import tflgpu_plugin

    ours, _ = misplanned((3, 5), (3, 5))
    x = chance(3, 5) - np.float32(0.5)
    np.testing.assert_array_equal(ours.run(None, {"x": x})[0], np.maximum(x, 0))
    assert 'Input "x" has 60 bytes, but its plan takes ' in capfd.readouterr().err
    assert tflgpu_plugin.report(ours).host_runs == 1


@pytest.mark.adapter
def test_an_output_of_other_bytes_than_its_plan_is_an_error() -> None:
    """Nothing is written past its end. onnxruntime returns each output only once per run, so its
    own kernels cannot do this run."""
    ours, shape = misplanned(None, (3, 5))
    with pytest.raises(Exception, match='Output "y" has 60 bytes, but its plan gives '):
        ours.run(None, {"x": np.ones(shape, np.float32)})


FLAGS = ("bool", (3,))
BOUNDS: list[tuple[Node, str]] = [
    (Node("NonZero", (3, 4)), ""),
    (Node("NonZero", ()), "rank.unsupported"),
    (Node("Compress", (3, 4), FLAGS), ""),
    (Node("Compress", (3, 4), ("bool", (3, 1))), "constant.invalid"),
    (Node("Unique", (64, 64)), ""),
    (Node("Unique", (64, 65)), "shape.too_large"),
    (Node("Unique", (3, 4), axis=1), ""),
    (Node("Unique", (64, 1024), axis=0), ""),
    (Node("Unique", (64, 1025), axis=0), "shape.too_large"),
    (Node("Unique", (2, 2048, 1), axis=-2), "shape.too_large"),
    (Node("Unique", (3, 0), axis=0), "shape.too_large"),
    (Node("Unique", (2, 0, 3), axis=1), "shape.too_large"),
    (Node("Unique", (4,), axis=0), ""),
    (Node("NonMaxSuppression", (1, 9, 4), (1, 2, 9), np.array(3)), ""),
    (Node("NonMaxSuppression", (1, 9, 4), (1, 2, 9)), ""),
    (Node("NonMaxSuppression", (1, 9, 5), (1, 2, 9), np.array(3)), "constant.required"),
    (Node("NonMaxSuppression", (1, 9, 4), (1, 2, 8), np.array(3)), "constant.required"),
    (Node("NonMaxSuppression", (2, 9, 4), (1, 2, 9), np.array(3)), "constant.required"),
    (Node("NonMaxSuppression", (9, 4), (1, 2, 9), np.array(3)), "constant.required"),
    (Node("NonMaxSuppression", (1, 9, 4), (2, 9), np.array(3)), "constant.required"),
    (Node("NonMaxSuppression", (1, 9, 4), (1, 2, 9), np.array(3), np.float32(1.5)),
     "constant.required"),
    (Node("NonMaxSuppression", (1, 9, 4), (1, 2, 9), np.array(3), np.float32(-0.5)),
     "constant.required"),
    (Node("NonMaxSuppression", (1, 9, 4), (1, 2, 9), np.array(3), np.float32(1)), ""),
    (Node("NonMaxSuppression", (1, 50000, 4), (1, 2, 50000), np.array(5000)), ""),
    (Node("NonMaxSuppression", (1, 50000, 4), (1, 2, 50000), np.array(6000)), "constant.required"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "wanted"), BOUNDS)
def test_a_row_asks_for_what_it_needs_and_no_more(one: Node, wanted: str) -> None:
    assert one.code == wanted, one.reason
