"""Counts, bounds and shapes that are inputs of a run are symbols: random sequences of them give the
CPU provider's results, with few plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import EP, Array, cpu, model, node, places, quiet
from tests.support.traced import traced
from tflgpu_plugin import engine

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

X = np.random.default_rng(2).uniform(-1, 1, (24, 30)).astype(np.float32)
RUNS = 24
Chance = np.random.Generator
LARGE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Case:
    """A model whose runs have this `shape`; `draw` gives the integers of the inputs "a", "b" ...;
    RUNS of them may make at most `plans` plans."""

    nodes: Sequence[Any]
    draw: Callable[[Chance], Sequence[Any]]
    plans: int
    held: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    shape: tuple[int, ...] = (-1,)
    wide: bool = True  # the operator takes int64 only

    def feeds(self, seed: int, kind: type = np.int64) -> list[Any]:
        chance = np.random.default_rng(seed)
        return [{"x": X} | {name: np.array(numbers, kind).reshape(self.shape)
                for name, numbers in zip("ab", self.draw(chance), strict=False)}
                for _ in range(RUNS)]  # fmt: skip

    def data(self, feed: Mapping[str, Array]) -> bytes:
        kind = next(iter(feed[name].dtype for name in "ab" if name in feed))
        held = {
            name: number if isinstance(number, np.ndarray) else np.array(number, kind)
            for name, number in self.held.items()
        }
        kinds = {name: array.dtype for name, array in feed.items()}
        kinds |= {"i": np.dtype(np.int64)} if "i" in self.outputs else {}
        shapes = {name: array.shape for name, array in feed.items()}
        return model(self.nodes, shapes, dict.fromkeys(self.outputs), held, opset=18, kinds=kinds)


def _cut(chance: Chance, extent: int) -> tuple[int, int]:
    """Returns the bounds of a slice that is not empty; they may be negative or out of range."""
    start = int(chance.integers(-extent, extent - 1))
    end = int(chance.integers(start % extent + 1, extent + 9))
    return start, end if end > extent or chance.integers(2) else (end - extent) or extent


BOXES = np.random.default_rng(3).uniform(0, 1, (1, 30, 4)).astype(np.float32)
SCORES = np.random.default_rng(4).uniform(0, 1, (1, 1, 30)).astype(np.float32)
CASES = {
    "count": Case([node("TopK", ["x", "a"], ["y", "i"])], lambda c: [c.integers(1, 31)], 6,
                  outputs=("y", "i")),
    "slice": Case([node("Slice", ["x", "a", "b", "axis"], ["y"])], lambda c: _cut(c, 30), 6,
                  {"axis": [1]}, wide=False),
    "window": Case([node("Add", ["a", "four"], ["b"]), node("Slice", ["x", "a", "b", "axis"],
                   ["y"])], lambda c: [c.integers(0, 27)], 4, {"axis": [1], "four": [4]},
                   wide=False),
    "repeats": Case([node("Tile", ["x", "a"], ["y"])], lambda c: [c.integers(2, 7, 2)], 8),
    "pads": Case([node("Pad", ["x", "a"], ["y"])], lambda c: [c.integers(1, 9, 4)], 6),
    "cropped": Case([node("Pad", ["x", "a"], ["y"])],
                    lambda c: [[-c.integers(1, 9), c.integers(9), c.integers(9), 0]], 9),
    "depth": Case([node("ArgMax", ["x"], ["i"], axis=1), node("OneHot", ["i", "a", "values"],
                  ["y"])], lambda c: [c.integers(30, 90)], 5, {"values": np.float32([-1, 2])},
                  shape=(), wide=False),
    "diagonal": Case([node("Trilu", ["x", "a"], ["y"])], lambda c: [c.integers(-30, 40)], 3,
                     shape=()),
    "frames": Case([node("Reshape", ["x", "shape"], ["s"]), node("STFT", ["s", "a", "", "length"],
                   ["y"], onesided=1)], lambda c: [c.integers(9, 60)], 8,
                   {"length": 16, "shape": np.array([2, 360, 1])}, shape=(), wide=False),
    "range": Case([node("Range", ["zero", "a", "one"], ["r"]), node("Gather", ["x", "r"], ["y"])],
                  lambda c: [c.integers(2, 24)], 6, {"zero": 0, "one": 1}, shape=(), wide=False),
    "range down": Case([node("Range", ["a", "zero", "step"], ["r"]),
                        node("Gather", ["x", "r"], ["y"])], lambda c: [c.integers(5, 24)], 6,
                       {"zero": 0, "step": -2}, shape=(), wide=False),
    "range from below 0": Case([node("Range", ["a", "b", "one"], ["r"]),
                               node("Gather", ["x", "r"], ["y"])],
                              lambda c: [c.integers(-20, -1), c.integers(3, 24)], 9, {"one": 1},
                              shape=(), wide=False),
    "boxes": Case([node("NonMaxSuppression", ["boxes", "scores", "a"], ["n"]),
                   node("Cast", ["n"], ["m"], to=1), node("ReduceSum", ["m"], ["s"], keepdims=0),
                   node("Add", ["x", "s"], ["y"])], lambda c: [c.integers(16, 40)], 8,
                  {"boxes": BOXES, "scores": SCORES}),
}  # fmt: skip


def ours(data: bytes) -> Any:
    import onnxruntime

    tflgpu_plugin.register()
    providers = [(EP, {"force": "1"}), "CPUExecutionProvider"]
    return onnxruntime.InferenceSession(data, quiet(), providers=providers)


def _same(got: Sequence[Array], wanted: Sequence[Array]) -> None:
    for mine, other in zip(got, wanted, strict=True):
        assert mine.shape == other.shape and mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, atol=1e-5)


def _assert_same_error(session: Any, theirs: Any, feed: Mapping[str, Array]) -> None:
    with pytest.raises(Exception) as wanted:
        theirs.run(None, feed)
    with pytest.raises(type(wanted.value)) as caught:
        session.run(None, feed)
    assert str(wanted.value).rsplit("Status Message: ", 1)[-1] in str(caught.value)


KINDS = [
    *((name, np.int64) for name in CASES),
    *((name, np.int32) for name, case in CASES.items() if not case.wide),
]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_random_values_have_few_plans(name: str, kind: type, monkeypatch: Any) -> None:
    """At most two plans are traced; the others have larger buffers."""
    templates = traced(monkeypatch)
    case = CASES[name]
    feeds = case.feeds(len(name), kind)
    data = case.data(feeds[0])
    session, theirs = ours(data), cpu(data, optimize=False)
    with engine.watch() as built:
        for feed in feeds:
            _same(session.run(None, feed), theirs.run(None, feed))
    partitions = tflgpu_plugin.report(session).partitions
    assert {part.runs for part in partitions} == {RUNS} and len(built) <= case.plans
    assert len(templates) <= 2


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_nearest_pixels_of_any_type_have_few_plans(coordinates: str, kind: type) -> None:
    chance = np.random.default_rng(9)
    image = (99 * chance.uniform(0, 1, (1, 3, 8, 9))).astype(kind)
    resized = node("Resize", ["x", "", "", "a"], ["y"], mode="nearest",
                   coordinate_transformation_mode=coordinates)  # fmt: skip
    kinds = {"x": np.dtype(kind), "y": np.dtype(kind), "a": np.dtype(np.int64)}
    data = model([resized], {"x": image.shape, "a": [4]}, {"y": None}, opset=19, kinds=kinds)
    session, theirs = ours(data), cpu(data, optimize=False)
    with engine.watch() as built:
        for _ in range(RUNS):
            feed = {"x": image, "a": np.array([1, 3, *chance.integers(2, 30, 2)])}
            _same(session.run(None, feed), theirs.run(None, feed))
    (partition,) = tflgpu_plugin.report(session).partitions
    assert partition.runs == RUNS and len(built) <= 11


def test_a_range_beyond_int32() -> None:
    """The bounds in a key are clipped to int32, so that such a run is the host's."""
    nodes = [node("Range", ["a", "b", "one"], ["r"]), node("Cast", ["r"], ["f"], to=1),
             node("Relu", ["f"], ["y"]), node("Relu", ["x"], ["z"])]  # fmt: skip
    inputs, kinds = {"a": [], "b": [], "x": [3]}, dict.fromkeys("ab", np.int64)
    data = model(nodes, inputs, {"y": ["n"], "z": [3]}, {"one": np.array(1)}, kinds=kinds)
    session, theirs = ours(data), cpu(data, optimize=False)
    for first in (3, 1 << 40, -(1 << 40), (1 << 31) - 3):
        feed = {"a": np.array(first), "b": np.array(first + 5), "x": X[0, :3]}
        _same(session.run(None, feed), theirs.run(None, feed))
    (partition,) = tflgpu_plugin.report(session).partitions
    assert (partition.runs, partition.host_runs) == (1, 3)


@pytest.mark.parametrize("name", CASES)
def test_threads_with_values_of_their_own(name: str) -> None:
    case = CASES[name]
    feeds = [case.feeds(seed) for seed in range(3)]
    data = case.data(feeds[0][0])
    session, theirs = ours(data), cpu(data, optimize=False)

    def run(given: Sequence[Any]) -> list[Any]:
        return [session.run(None, feed) for feed in given]

    with ThreadPoolExecutor(len(feeds)) as threads:
        for given, found in zip(feeds, threads.map(run, feeds), strict=True):
            for feed, got in zip(given, found, strict=True):
                _same(got, theirs.run(None, feed))


def test_a_value_on_the_gpu_and_one_tensor_for_two_inputs() -> None:
    import onnxruntime

    pads = node("Slice", ["x", "a", "b"], ["y"])
    data = model([pads], {"x": X.shape, "a": (1,), "b": (1,)}, {"y": None}, opset=18,
                 kinds={"a": np.int64, "b": np.int64})  # fmt: skip
    session = ours(data)
    for start, end in ((2, 9), (3, 12), (5, 11), (7, 23), (7, 7), (-9, -2), (-8, -2)):
        first = onnxruntime.OrtValue.ortvalue_from_numpy(np.array([start]), "gpu")
        last = first if start == end else onnxruntime.OrtValue.ortvalue_from_numpy(np.array([end]))
        feed = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(X), "a": first, "b": last}
        (made,) = session.run_with_ort_values(None, feed)
        np.testing.assert_array_equal(made.numpy(), X[start:end])


def test_values_that_no_run_can_have_are_the_errors_of_the_host() -> None:
    case = CASES["count"]
    feeds = case.feeds(5)
    data = case.data(feeds[0])
    session, theirs = ours(data), cpu(data, optimize=False)
    for k, feed in enumerate(feeds):
        _same(session.run(None, feed), theirs.run(None, feed))
        wrong = feed | {"a": np.array([(31, -1, -LARGE)[k % 3]])}
        _assert_same_error(session, theirs, wrong)
        empty = feed | {"a": np.array([(0, 1 << 40)[k % 2]])}  # the host takes the low 32 bits
        _same(session.run(None, empty), theirs.run(None, empty))


def test_bounds_beyond_32_bits_are_clamped() -> None:
    case = CASES["slice"]
    feeds = case.feeds(4)
    data = case.data(feeds[0])
    session, theirs = ours(data), cpu(data, optimize=False)
    for k, feed in enumerate(feeds):
        far = feed | {"b": np.array([(1 << 31, LARGE, (1 << 31) - 1, (1 << 31) - 2)[k % 4]])}
        before = feed | {"a": np.array([(-LARGE, -(1 << 31), 1 - (1 << 31), 0)[k % 4]])}
        for one in (far, before, feed):
            _same(session.run(None, one), theirs.run(None, one))


def test_empty_results_between_others() -> None:
    """A slice may select nothing, even if earlier ones did not."""
    case = CASES["slice"]
    data = case.data(case.feeds(0)[0])
    session, theirs = ours(data), cpu(data, optimize=False)
    chance = np.random.default_rng(1)
    for _ in range(40):
        feed = {"x": X} | {name: chance.integers(-40, 40, 1) for name in "ab"}
        _same(session.run(None, feed), theirs.run(None, feed))


def _trimmed(between: Sequence[Any], **held: Any) -> bytes:
    """A model that cuts the rows of tanh(x) to "end", which nodes `between` compute from "n"."""
    nodes = [node("Tanh", ["x"], ["t"]), *between,
             node("Slice", ["t", "zero", "end"], ["s"]), node("Exp", ["s"], ["y"])]  # fmt: skip
    constants = {"zero": np.array([0])} | {name: np.array(value) for name, value in held.items()}
    return model(nodes, {"x": X.shape, "n": (3,)}, {"y": None}, constants, opset=18,
                 kinds={"n": np.int64})  # fmt: skip


MOST = [node("ReduceMax", ["n", "axis"], ["m"], keepdims=1), node("Sub", ["m", "one"], ["end"])]


def test_a_bound_that_nodes_compute_from_a_few_integers() -> None:
    """These nodes stay on the CPU, and no others do."""
    data = _trimmed(MOST, axis=[0], one=[1])
    session, theirs = ours(data), cpu(data, optimize=False)
    chance = np.random.default_rng(6)
    with engine.watch() as built:
        for _ in range(RUNS):
            feed = {"x": X, "n": chance.integers(3, 25, 3)}
            _same(session.run(None, feed), theirs.run(None, feed))
    assert places(session) == {"Tanh": "gpu", "ReduceMax": "cpu", "Sub": "cpu", "Slice": "gpu",
                               "Exp": "gpu"}  # fmt: skip
    reasons = {node.refusal_code for node in tflgpu_plugin.report(session).nodes}
    assert reasons == {None, "dynamic.value"} and len(built) <= 5


def test_nodes_that_read_more_than_a_few_integers_stay_on_the_gpu() -> None:
    """Among the nodes before a bound, only those that compute with a few integers move."""
    large = [node("ReduceSum", ["x", "axes"], ["r"], keepdims=0), node("Cast", ["r"], ["c"], to=7),
             node("ReduceMax", ["n", "axis"], ["m"], keepdims=1),
             node("Add", ["m", "c"], ["b"]), node("Sub", ["b", "c"], ["end"])]  # fmt: skip
    data = _trimmed(large, axis=[0], axes=[0, 1])
    session, theirs = ours(data), cpu(data, optimize=False)
    for most in (7, 20, 3):
        feed = {"x": X, "n": np.array([1, most, 2])}
        _same(session.run(None, feed), theirs.run(None, feed))
    found = places(session)
    moved = {name for name, place in found.items() if place == "cpu"}
    assert moved == {"ReduceMax", "Add", "Sub"}


def test_no_node_moves_for_one_that_stays_on_the_cpu_anyway() -> None:
    """The end of the slice is a cast of a float."""
    nodes = [node("ReduceSum", ["x", "axes"], ["r"], keepdims=0),
             node("Reshape", ["r", "list"], ["f"]), node("Cast", ["f"], ["end"], to=7),
             node("ReduceMax", ["n", "axis"], ["start"], keepdims=1),
             node("Slice", ["x", "start", "end"], ["y"])]  # fmt: skip
    held = {"axis": np.array([0]), "axes": np.array([0, 1]), "list": np.array([1])}
    data = model(nodes, {"x": X.shape, "n": (3,)}, {"y": None}, held, opset=18,
                 kinds={"n": np.int64})  # fmt: skip
    session, theirs = ours(data), cpu(data, optimize=False)
    feed = {"x": X, "n": np.array([0, 2, 1])}
    _same(session.run(None, feed), theirs.run(None, feed))
    assert {name for name, place in places(session).items() if place == "cpu"} == {"Slice"}


@pytest.mark.parametrize("step", [1, 3, -2])
def test_empty_ranges_between_others(step: int) -> None:
    nodes = [node("Range", ["a", "b", "step"], ["r"]), node("Gather", ["x", "r"], ["y"])]
    bounds = ((2, 9), (3, 14), (5, 5), (7, 2), (6, 20), (0, 1), (9, 3))
    feeds = [{"x": X, "a": np.array(first), "b": np.array(last)} for first, last in bounds]
    data = model(nodes, {"x": X.shape, "a": (), "b": ()}, {"y": None}, {"step": np.array(step)},
                 opset=18, kinds={"a": np.int64, "b": np.int64})  # fmt: skip
    session, theirs = ours(data), cpu(data, optimize=False)
    for feed in (*feeds, *reversed(feeds)):
        _same(session.run(None, feed), theirs.run(None, feed))


def test_a_depth_that_outgrows_the_list_of_numbers() -> None:
    case = CASES["depth"]
    feeds = case.feeds(1)[:3]
    data = case.data(feeds[0])
    session, theirs = ours(data), cpu(data)
    for depth in (31, 40, 5000, 4000, 9000):
        feed = feeds[0] | {"a": np.array(depth)}
        _same(session.run(None, feed), theirs.run(None, feed))


def test_pads_that_crop_and_add_in_turn() -> None:
    case = CASES["pads"]
    data = case.data(case.feeds(1)[0])
    session, theirs = ours(data), cpu(data)
    chance = np.random.default_rng(5)
    for _ in range(30):
        feed = {"x": X, "a": chance.integers(-9, 9, 4)}
        _same(session.run(None, feed), theirs.run(None, feed))


ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


@pytest.mark.parametrize("nearest", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_sizes_to_the_nearest_pixel(coordinates: str, nearest: str) -> None:
    """The pixels are those of the CPU, exactly; infinite ones do not spread to others."""
    resize = node("Resize", ["x", "", "", "a"], ["y"], mode="nearest", nearest_mode=nearest,
                  coordinate_transformation_mode=coordinates)  # fmt: skip
    image = np.random.default_rng(1).normal(size=(1, 2, 16, 21)).astype(np.float32)
    image[0, 0, 3, 4:7] = np.inf, -np.inf, np.inf
    data = model([resize], {"x": image.shape, "a": (4,)}, {"y": None}, opset=18,
                 kinds={"a": np.int64})  # fmt: skip
    session, theirs = ours(data), cpu(data)
    chance = np.random.default_rng(len(coordinates + nearest))
    with engine.watch() as built:
        for _ in range(RUNS):
            feed = {"x": image, "a": np.array([1, 2, *chance.integers(3, 90, 2)])}
            (got,), (wanted,) = session.run(None, feed), theirs.run(None, feed)
            np.testing.assert_array_equal(got, wanted)
    (partition,) = tflgpu_plugin.report(session).partitions
    assert partition.runs == RUNS and len(built) <= 10
