"""Counts, bounds, sizes and shapes that are inputs of a run decide shapes without a new plan for
each: the results are those of the host's reference kernels, for values in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.cases import seeded
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, places
from tests.support.traced import traced
from tflgpu_plugin import engine
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, Graph, Target

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]

X = np.random.default_rng(2).uniform(-1, 1, (24, 30)).astype(np.float32)
IMAGE = np.random.default_rng(3).uniform(-1, 1, (1, 8, 9, 3)).astype(np.float32)
RUNS = 16
NAMES = {np.dtype(np.float32): "f32", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}


def ints(*numbers: int, kind: type = np.int32) -> Array:
    return np.array(numbers, kind)


def pairs(*numbers: int) -> Array:
    return ints(*numbers).reshape(-1, 2)


VERSIONS = {"RESIZE_BILINEAR": 3, "BROADCAST_TO": 2}


def added(
    model: Model, op: str, inputs: Sequence[int | None], rank: int, options: str = "",
    dtypes: Sequence[str] = ("f32",), **given: Any,
) -> list[int]:  # fmt: skip
    """Adds an operator and returns its results, of which the model states nothing but the rank."""
    made = model.multi_op(op, inputs, options or None, given, shapes=[(1,) * rank] * len(dtypes),
                          dtypes=dtypes, version=VERSIONS.get(op, 1))  # fmt: skip
    for tensor in made:
        model.tensors[tensor].signature = (-1,) * rank
    return made


@dataclass(frozen=True)
class Case:
    """A model of one operator, whose inputs are x and `values(k)` in run k, and the constants
    `held`. RUNS of them may make at most `plans` plans."""

    op: str
    values: Callable[[int], Sequence[Array]]
    plans: int
    x: Array | None = field(default_factory=lambda: X)
    held: Sequence[Array] = ()
    options: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 2
    dtypes: Sequence[str] = ("f32",)
    newer: bool = False  # tflite-runtime lacks the operator
    templates: int = 1  # that are traced; other plans only have larger buffers

    def feed(self, run: int) -> list[Array]:
        return [*([] if self.x is None else [self.x]), *self.values(run)]

    def model(self) -> bytes:
        model, feed = Model(), self.feed(0)
        inputs = [model.input(f"x{k}", v.shape, NAMES[v.dtype]) for k, v in enumerate(feed)]
        inputs += [model.constant(value) for value in self.held]
        found, *others = added(
            model, self.op, inputs, self.rank, self.options, self.dtypes, **self.given
        )
        model.output(*added(model, "TANH", [found], self.rank), *others)
        return model.to_bytes()


SHAPES = [(24, 30), (30, 24), (72, 10), (-1, 16), (60, 12), (12, -1), (360, 2), (8, 90)]
CASES = {
    "reshape": Case("RESHAPE", lambda k: [ints(*SHAPES[k % 8])], 8, options="ReshapeOptions",
                    templates=5),
    "reshape to another rank": Case(
        "RESHAPE", lambda k: [ints(2, -1, (3, 4, 5, 6, 8, 9)[k % 6])], 4, rank=3,
        options="ReshapeOptions", templates=2,
    ),
    "slice": Case("SLICE", lambda k: [ints(k % 5, k % 7), ints(3 + k % 9, 5 + k % 11)], 5),
    "slice to the end": Case("SLICE", lambda k: [ints(k % 5, k), ints(-1, 9)], 4),
    "window": Case("SLICE", lambda k: [ints(k, k + 9)], 3, held=[ints(4, 5)]),
    "slice in 64 bits": Case(
        "SLICE", lambda k: [ints(k % 5, k, kind=np.int64), ints(4 + k % 3, 5, kind=np.int64)], 5,
    ),
    "strided slice": Case(
        "STRIDED_SLICE", lambda k: [ints(k % 5, k % 7 - 20), ints(8 + k % 9, 24 + k % 11)], 6,
        held=[ints(1, 1)], options="StridedSliceOptions",
    ),
    "steps": Case(
        "STRIDED_SLICE", lambda k: [ints(0, k), ints(20, 30), ints(1 + k % 3, 1)], 12,
        options="StridedSliceOptions",
    ),
    "row": Case(
        "STRIDED_SLICE", lambda k: [ints(k), ints(k + 1)], 3, held=[ints(1)], rank=1,
        options="StridedSliceOptions", given={"shrinkAxisMask": 1},
    ),
    "pad": Case("PAD", lambda k: [pairs(k % 4, k % 5, k % 3, k % 7)], 5),
    "pad with a value": Case(
        "PADV2", lambda k: [pairs(k % 4, k % 5, k % 3, k % 7)], 5, held=[np.full(1, 2.5, "f4")],
    ),
    "mirrored pad": Case(
        "MIRROR_PAD", lambda k: [pairs(k % 4, 1, 0, k % 3)], 6, options="MirrorPadOptions",
        given={"mode": "REFLECT"},
    ),
    "dilations": Case(
        "DILATE", lambda k: [ints(1 + k % 4, 1 + k % 5)], 6, held=[np.float32(2.5)],
        options="DilateOptions", newer=True, templates=3,
    ),
    "tile": Case("TILE", lambda k: [ints(1 + k % 4, 1 + k % 5)], 7),
    "largest": Case(
        "TOPK_V2", lambda k: [np.array(1 + k, np.int32)], 8, options="TopKV2Options",
        dtypes=("f32", "i32"),
    ),
    "image": Case(
        "RESIZE_BILINEAR", lambda k: [ints(4 + k, 5 + 2 * k)], 12, x=IMAGE, rank=4,
        options="ResizeBilinearOptions", given={"halfPixelCenters": True},
    ),
    "nearest pixels": Case(
        "RESIZE_NEAREST_NEIGHBOR", lambda k: [ints(4 + k, 5 + 2 * k)], 8, x=IMAGE, rank=4,
        options="ResizeNearestNeighborOptions",
    ),
    "nearest corners": Case(
        "RESIZE_NEAREST_NEIGHBOR", lambda k: [ints(1 + 5 * k % 19, 2 + 7 * k % 23)], 8,
        x=IMAGE, rank=4, options="ResizeNearestNeighborOptions", given={"alignCorners": True},
    ),
    "nearest middles": Case(
        "RESIZE_NEAREST_NEIGHBOR", lambda k: [ints(1 + 5 * k % 19, 2 + 7 * k % 23)], 8,
        x=IMAGE, rank=4, options="ResizeNearestNeighborOptions", given={"halfPixelCenters": True},
    ),
    "broadcast": Case(
        "BROADCAST_TO", lambda k: [ints(2 + k % 9, 30)], 8, x=X[:1], options="BroadcastToOptions",
    ),
    "fill": Case(
        "FILL", lambda k: [ints(2 + k % 9, 3 + k % 7), np.array(k - 3.5, np.float32)], 9, x=None,
        options="FillOptions",
    ),
    "depth": Case(
        "ONE_HOT", lambda k: [np.array(3 + k, np.int32)], 9, x=np.arange(9, dtype=np.int32),
        held=[np.float32(1), np.float32(-2)], options="OneHotOptions", given={"axis": -1},
    ),
    "axis": Case(
        "MEAN", lambda k: [ints(k % 2)], 2, options="ReducerOptions", given={"keepDims": True},
    ),
    "crops": Case(
        "BATCH_TO_SPACE_ND", lambda k: [ints(2, 2), pairs(k % 3, k % 2, k % 4, 0)], 2,
        x=np.tile(IMAGE, (4, 1, 1, 1)), rank=4,
    ),
    "parts": Case(
        "SPLIT_V", lambda k: [ints(3 + k, 27 - k)], 9, held=[np.array(1, np.int32)],
        options="SplitVOptions", given={"numSplits": 2}, dtypes=("f32", "f32"),
    ),
    "a part and the rest": Case(
        "SPLIT_V", lambda k: [ints(-1, 1 + k)], 9, held=[np.array(0, np.int32)],
        options="SplitVOptions", given={"numSplits": 2}, dtypes=("f32", "f32"),
    ),
}  # fmt: skip


def reference(model: bytes, host: str, feed: Sequence[Array]) -> Any:
    """Returns the results of the host's reference kernels. Each run has an interpreter of its own:
    hosts keep shapes of an earlier run."""
    cpu = hosts.interpreter(model, host, "reference")
    cpu.allocate_tensors()
    return hosts.invoke(cpu, [feed])[0]


def assert_same(interpreter: Any, model: bytes, host: str, feed: Sequence[Array]) -> None:
    ours, theirs = hosts.invoke(interpreter, [feed])[0], reference(model, host, feed)
    for got, wanted in zip(ours, theirs, strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def on_gpu(model: bytes, host: str, **options: Any) -> Any:
    return gpu(model, host, force=1, **options)


def runs(made: Any) -> set[tuple[int, int, int]]:
    """Returns (runs on the GPU, on the host's kernels, failures) of each partition in use."""
    found = (one for one in tflgpu_plugin.report(made).partitions if one.live)
    return {(one.runs, one.host_runs, one.failures) for one in found}


@pytest.mark.parametrize("name", CASES)
def test_values_have_few_plans(host: str, name: str, monkeypatch: Any) -> None:
    case, templates = CASES[name], traced(monkeypatch)
    if case.newer and host == "tflite_runtime":
        pytest.skip("tflite-runtime lacks the operator")
    model = case.model()
    interpreter, made = on_gpu(model, host)
    assert set(places(made).values()) == {"gpu"}
    with engine.watch() as built:
        for run in range(RUNS):
            assert_same(interpreter, model, host, case.feed(run))
    assert runs(made) == {(RUNS, 0, 0)} and len(built) <= case.plans
    assert len(templates) <= case.templates


def number(value: int, kind: type = np.int32) -> Array:
    return np.array(value, kind)


RANGES: dict[str, tuple[Callable[[int], Sequence[Array]], Sequence[Array]]] = {
    "count": (lambda k: [number(0), number(3 + 5 * k % 23), number(1)], []),
    "from below 0": (lambda k: [number(k % 5 - 2), number(9 + k % 7)], [number(2)]),
    "down": (lambda k: [number(9 + k % 7)], [number(-2), number(-2)]),
    "in 64 bits": (
        lambda k: [number(1 + k % 3, np.int64), number(5 + k, np.int64)], [number(1, np.int64)],
    ),
}  # fmt: skip


def ranged(name: str) -> bytes:
    """Returns a model of tanh of a range."""
    values, held = RANGES[name]
    model, feed = Model(), values(0)
    dtype = NAMES[feed[0].dtype]
    given = [model.input(f"x{k}", v.shape, NAMES[v.dtype]) for k, v in enumerate(feed)]
    given += [model.constant(value) for value in held]
    (found,) = added(model, "RANGE", given, 1, "RangeOptions", (dtype,))
    kinds = {"inDataType": "INT32" if dtype == "i32" else "INT64", "outDataType": "FLOAT32"}
    (real,) = added(model, "CAST", [found], 1, "CastOptions", **kinds)
    model.output(*added(model, "TANH", [real], 1))
    return model.to_bytes()


@pytest.mark.parametrize("name", RANGES)
def test_ranges_have_one_plan(host: str, name: str, monkeypatch: Any) -> None:
    (values, _), model, templates = RANGES[name], ranged(name), traced(monkeypatch)
    if name == "in 64 bits" and host == "tflite_runtime":
        pytest.skip("tflite-runtime has ranges of int32 and float32 only")
    interpreter, made = on_gpu(model, host)
    assert set(places(made).values()) == {"gpu"}
    for run in range(RUNS):
        assert_same(interpreter, model, host, values(run))
    assert runs(made) == {(RUNS, 0, 0)}
    assert len(templates) == 1 and not templates[0].trace.fixed


def test_ranges_that_are_empty_or_wrong(host: str) -> None:
    model = ranged("count")
    interpreter, _ = on_gpu(model, host)
    for first, last, by in ((0, 5, 1), (3, 3, 1), (2, 9, 3), (0, 6000, 1), (9, 2, -1), (0, 7, 1)):
        assert_same(interpreter, model, host, [number(first), number(last), number(by)])
    for wrong in ((0, 5, 0), (0, 5, -1)):
        with pytest.raises(RuntimeError):
            reference(model, host, [number(n) for n in wrong])
        with pytest.raises(RuntimeError):
            hosts.invoke(interpreter, [[number(n) for n in wrong]])
        assert_same(interpreter, model, host, [number(1), number(8), number(2)])


# ---- values that are unlike the others ----------------------------------------------------------


def test_a_first_value_that_was_not_guessed_and_its_repeats(host: str) -> None:
    """Values may change without another allocation, and come again after others."""
    case = CASES["reshape"]
    model = case.model()
    interpreter, made = on_gpu(model, host)
    for run in (5, 5, 2, 5, 3, 2):
        assert_same(interpreter, model, host, case.feed(run))
    assert runs(made) == {(6, 0, 0)}


EMPTY = {
    "slice": [ints(3, 4), ints(0, 5)],
    "strided slice": [ints(5, 3), ints(5, 9)],
    "tile": [ints(0, 2)],
    "slice to the end": [ints(24, 4), ints(-1, 9)],
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_results_between_others(host: str, name: str) -> None:
    case = CASES[name]
    model = case.model()
    interpreter, made = on_gpu(model, host)
    for values in (case.values(1), EMPTY[name], case.values(2), case.values(3), EMPTY[name]):
        assert_same(interpreter, model, host, [X, *values])
    ((on_device, on_host, failures),) = runs(made)
    assert on_device + on_host == 5 and not failures


def test_fill_of_extents_that_are_empty_or_wrong(host: str) -> None:
    case, value = CASES["fill"], np.array(2.5, np.float32)
    model = case.model()
    interpreter, _ = on_gpu(model, host)
    for extents in (ints(3, 4), ints(0, 5), ints(4, 4), ints(7, 0)):
        assert_same(interpreter, model, host, [extents, value])
    with pytest.raises(RuntimeError):
        hosts.invoke(interpreter, [[ints(3, -1), value]])
    assert_same(interpreter, model, host, [ints(2, 6), value])


WRONG = {
    "reshape": [ints(7, 11)],
    "slice": [ints(20, 4), ints(9, 5)],
    "largest": [np.array(31, np.int32)],
    "pad": [pairs(-1, 0, 0, 0)],
    "broadcast": [ints(3, 7)],
    "broadcast to fewer elements": [ints(3, 1)],
    "image": [ints(0, 5)],
    "image without columns": [ints(4, 0)],
}


@pytest.mark.parametrize("name", WRONG)
def test_values_that_no_run_can_have_are_the_errors_of_the_host(host: str, name: str) -> None:
    case = CASES[name.partition(" ")[0]]
    model = case.model()
    interpreter, _ = on_gpu(model, host)
    for run in range(4):
        assert_same(interpreter, model, host, case.feed(run))
        feed = [*case.feed(run)[:1], *WRONG[name]]
        with pytest.raises(RuntimeError):
            reference(model, host, feed)
        with pytest.raises(RuntimeError, match="failed to"):
            hosts.invoke(interpreter, [feed])


def test_numbers_beyond_32_bits_are_clamped(host: str) -> None:
    case = CASES["slice in 64 bits"]
    model = case.model()
    interpreter, _ = on_gpu(model, host)
    far = ints(1 << 40, 5, kind=np.int64)
    for run in range(4):
        assert_same(interpreter, model, host, case.feed(run))
        with pytest.raises(RuntimeError):
            hosts.invoke(interpreter, [[X, ints(0, 0, kind=np.int64), far]])


# ---- more than one operator ---------------------------------------------------------------------

ONE = [1]


def cut(model: Model, x: int, end: int) -> int:
    """Adds x without its rows from `end` on."""
    bounds = [model.constant(ints(0)), end, model.constant(ints(1))]
    return added(model, "STRIDED_SLICE", [x, *bounds], 2, "StridedSliceOptions")[0]


def most(model: Model, numbers: int) -> int:
    """Adds the largest of some integers, less one."""
    axis, one = model.constant(ints(0)), model.constant(ints(1))
    options = {"keepDims": True}
    found = model.op("REDUCE_MAX", [numbers, axis], "ReducerOptions", options, shape=ONE,
                     dtype="i32", name="most")  # fmt: skip
    return model.op("SUB", [found, one], "SubOptions", {}, shape=ONE, dtype="i32", name="less")


def test_nodes_that_compute_a_bound_from_a_few_integers_run_on_the_cpu(host: str) -> None:
    model = Model()
    x, numbers = model.input("x", X.shape), model.input("numbers", (3,), "i32")
    large = model.op("TANH", [x], shape=X.shape, name="large")
    rows = cut(model, large, most(model, numbers))
    model.output(*added(model, "EXP", [rows], 2), large)
    data = model.to_bytes()
    interpreter, made = on_gpu(data, host)
    left = {name for name, place in places(made).items() if place == "cpu"}
    assert left == {"most", "less"}
    with engine.watch() as built:
        for k in range(RUNS):
            assert_same(interpreter, data, host, [X, ints(3, 2 + k, 1)])
    assert runs(made) == {(RUNS, 0, 0)} and len(built) <= 8


def two_parts(between: str) -> bytes:
    """Returns a model of a slice and a node `between`, then another slice."""
    model = Model()
    x = model.input("x", X.shape)
    first, last = (model.input(name, (1,), "i32") for name in ("first", "last"))
    (rows,) = added(model, "TANH", [cut(model, x, first)], 2)
    (middle,) = added(model, between, [rows], 2)
    model.output(*added(model, "EXP", [cut(model, middle, last)], 2), rows)
    return model.to_bytes()


@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("left", ["", "SIN", "EXP"])
def test_partitions_pass_on_tensors_of_changing_shapes(host: str, left: str) -> None:
    """The node in the middle, or the last one, may be on the CPU."""
    data = two_parts("SIN")
    interpreter, made = on_gpu(data, host, exclude=left)
    for k in (5, 9, 9, 20, 3, 24, 5):
        assert_same(interpreter, data, host, [X, ints(k), ints(max(1, k - 2))])
        assert_same(interpreter, data, host, [X, ints(k), ints(max(1, k - 1))])
    assert all(not on_host and not failed for _, on_host, failed in runs(made))


def test_a_value_is_computed_with_too(host: str) -> None:
    model = Model()
    x, count = model.input("x", X.shape), model.input("count", (1,), "i32")
    rows = cut(model, x, count)
    kinds = {"inDataType": "INT32", "outDataType": "FLOAT32"}
    number = model.op("CAST", [count], "CastOptions", kinds, shape=ONE)
    twice = model.op("MUL", [number, model.constant(np.full(1, 2, np.float32))], "MulOptions", {},
                     shape=ONE)  # fmt: skip
    model.output(*added(model, "MUL", [rows, twice], 2, "MulOptions"))
    data = model.to_bytes()
    interpreter, made = on_gpu(data, host)
    for k in (5, 9, 2, 24, 7, 5):
        assert_same(interpreter, data, host, [X, ints(k)])
    assert sum(on_device for on_device, _, _ in runs(made)) >= 6


@pytest.mark.usefixtures("resolver")
def test_shapes_and_values_change_in_turn(host: str) -> None:
    """Between allocation and run, outputs that depend on no value have their shapes."""
    model = Model()
    x, count = model.input("x", (4, 5), signature=(-1, 5)), model.input("count", (1,), "i32")
    whole = model.op("TANH", [x], shape=(4, 5), name="whole")
    model.output(*added(model, "EXP", [cut(model, whole, count)], 2), whole)
    data = model.to_bytes()
    interpreter, made = on_gpu(data, host)
    index = interpreter.get_input_details()[0]["index"]
    for rows, count in ((6, 2), (6, 5), (9, 5), (4, 3), (9, 8), (6, 5)):
        interpreter.resize_tensor_input(index, (rows, 5))
        interpreter.allocate_tensors()
        details = interpreter.get_output_details()
        assert tuple(details[1]["shape"]) == (rows, 5)
        feed = [X[:rows, :5], ints(count)]
        ours = hosts.invoke(interpreter, [feed])[0]
        np.testing.assert_allclose(ours[1], np.tanh(feed[0]), atol=1e-5)
        np.testing.assert_allclose(ours[0], np.exp(np.tanh(feed[0][:count])), atol=1e-5)
    assert {found[1:] for found in runs(made)} == {(0, 0)}


def test_interpreters_that_share_a_delegate_have_values_of_their_own(host: str) -> None:
    case = CASES["slice"]
    model = case.model()
    first, made = on_gpu(model, host)
    second = hosts.interpreter(model, host, "reference", experimental_delegates=[made])
    second.allocate_tensors()
    for run in range(6):
        for interpreter, other in ((first, run), (second, run + 7)):
            assert_same(interpreter, model, host, case.feed(other))
    assert runs(made) == {(6, 0, 0)}


def test_a_cache_directory_keeps_plans_for_values(
    host: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, assembly = list[Graph](), compiler.assembly

    def counted(graph: Graph, target: Target) -> Any:
        planned.append(graph)
        return assembly(graph, target)

    monkeypatch.setattr(compiler, "assembly", counted)
    case = CASES["slice"]
    model = case.model()
    for again in (False, True):
        planned.clear()
        interpreter, made = on_gpu(model, host, serialization_dir=tmp_path, model_token="slices")
        for run in range(RUNS):
            assert_same(interpreter, model, host, case.feed(run))
        assert runs(made) == {(RUNS, 0, 0)} and bool(planned) != again
        del interpreter, made


def test_variables_beside_values(host: str) -> None:
    """The state goes on when values change."""
    model = Model()
    x, count = model.input("x", (2, 5)), model.input("count", (1,), "i32")
    state = model.variable("state", (2, 24))
    weights = [seeded(6, 5), seeded(6, 4, seed=2)]
    layer = model.op(
        "SVDF", [x, *map(model.constant, weights), None, state], "SVDFOptions",
        {"rank": 3, "fusedActivationFunction": "NONE"}, shape=(2, 2),
    )  # fmt: skip
    model.output(*added(model, "TANH", [cut(model, layer, count)], 2), layer)
    data = model.to_bytes()
    interpreter, made = on_gpu(data, host)
    other = hosts.interpreter(data, host, "reference")
    other.allocate_tensors()
    for run, rows in enumerate((1, 2, 1, 2, 2, 1)):
        feed = [X[run : run + 2, :5], ints(rows)]
        (_, ours), (_, theirs) = (hosts.invoke(one, [feed])[0] for one in (interpreter, other))
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert set(places(made).values()) == {"gpu"} and runs(made) == {(6, 0, 0)}


def test_a_node_on_the_cpu_reads_what_its_op_has_no_place_for(host: str) -> None:
    """An axis, which must be constant on the GPU, becomes an attribute of the op. The partition
    that computes it has to write it for the host's kernel."""
    model = Model()
    x, value = model.input("x", (7, 2)), model.input("value", (1,), "i32")
    axis = model.op("NEG", [value], shape=(1,), dtype="i32")
    moved = model.op("TANH", [x], shape=(7, 2))
    model.output(*added(model, "EXPAND_DIMS", [moved, axis], 3, "ExpandDimsOptions"))
    data = model.to_bytes()
    interpreter, made = on_gpu(data, host)
    assert list(places(made).values()) == ["gpu", "gpu", "cpu"]
    for number in (0, 1, 2, -1, -3, 1):
        assert_same(interpreter, data, host, [X[:7, :2], ints(-number)])
