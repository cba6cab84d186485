"""Counts, bounds, sizes and shapes that are inputs of a run decide shapes without a new plan for
each: the results are those of the host's reference kernels, for values in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.cases import seeded
from conformance.models.tflite import Model
from tests.support.interpreters import places
from tests.support.run_values import (
    CASES,
    RUNS,
    X,
    added,
    assert_same,
    ints,
    on_gpu,
    pairs,
    reference,
    runs,
)
from tests.support.traced import traced
from tflgpu_plugin import engine
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Target

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]


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
