"""Tests runs that the GPU cannot do: the host's own kernels do them, with their results and their
changes of variables, and the next run is on the GPU again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import shape_models, small_models
from tests.support.interpreters import gpu, places, same
from tests.support.subprocesses import run_python
from tflgpu_plugin import engine
from tflgpu_plugin.errors import BuildError
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.providers.tflite.delegates import Placed

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]
PLANTED = "This is planted."
PLANNING = ("build", "planned", "template")  # methods of Partition


def counted(made: Any) -> tuple[int, int, int]:
    """Runs on the GPU, on the host's kernels, and failures, of what is in use."""
    found = [one for one in tflgpu_plugin.report(made).partitions if one.live]
    return (
        sum(one.runs for one in found),
        sum(one.host_runs for one in found),
        sum(one.failures for one in found),
    )


def refuse(*_: Any) -> Any:
    raise BuildError((), PLANTED)


def no_memory(*_: Any) -> Any:
    raise MemoryError


def defective(*_: Any) -> Any:
    raise RuntimeError("a defect")


def resize(interpreter: Any, shape: tuple[int, ...]) -> None:
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
    interpreter.allocate_tensors()


@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("planted", [refuse, no_memory, defective])
def test_a_build_that_fails_is_a_run_on_the_kernels_of_the_host(
    host: str, planted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model = small_models.guide()
    interpreter, made = gpu(model, host)
    same(interpreter, model, host)
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    with monkeypatch.context() as patch:
        for function in ("planned", "template"):
            patch.setattr(engine.Partition, function, planted)
        resize(interpreter, (2, 6, 5, 3))
        for seed in range(3):
            same(interpreter, model, host, seed)
    said = capfd.readouterr().err
    assert said.count("TFLite's own CPU kernels instead of the GPU") == 1  # once for a reason
    assert counted(made)[1:] == (3, 0)
    assert "3 on the host's kernels" in str(tflgpu_plugin.report(made))
    resize(interpreter, (1, 8, 8, 3))
    same(interpreter, model, host)
    resize(interpreter, (2, 6, 5, 3))
    same(interpreter, model, host)
    assert counted(made)[0] > 1 and set(places(made).values()) == {"gpu"}


@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("name", shape_models.RESIZED)
def test_shapes_that_are_known_without_a_plan(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared(host, name, monkeypatch, dict.fromkeys(PLANNING, refuse))


@pytest.mark.parametrize("name", shape_models.RESIZED)
def test_shapes_come_from_the_kernels_of_the_host(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes shapes that are only known after a run."""
    monkeypatch.setattr(Placed, "reshaped", unless(Placed.reshaped))
    compared(host, name, monkeypatch, dict.fromkeys(PLANNING, refuse))


def unless(reshaped: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a callback that refuses shapes as long as nothing can be planned."""

    def given(self: Placed, shapes: Any) -> Graph:
        if engine.Partition.planned is refuse:
            raise BuildError((), PLANTED)
        return reshaped(self, shapes)

    return given


def compared(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch, planted: dict[str, Any]
) -> None:
    """Asserts that the results are those of the host's kernels, with and without the planted
    defect."""
    model = shape_models.RESIZED[name]()
    interpreter, made = gpu(model, host)
    for shape in ((2, 8, 6, 3), (1, 10, 4, 3)):
        with monkeypatch.context() as patch:
            for function, other in planted.items():
                patch.setattr(engine.Partition, function, other)
            resize(interpreter, shape)
            same(interpreter, model, host)
        assert counted(made)[1:] != (0, 0) and counted(made)[2] == 0
    resize(interpreter, (1, 6, 5, 3))
    before = counted(made)
    same(interpreter, model, host)
    assert counted(made)[0] > before[0]


@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("place", [0, 1])
def test_one_of_two_partitions(host: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors passed from the first partition to the second stay on the device, or come from the
    host."""
    model = small_models.two_partitions()
    interpreter, made = gpu(model, host)
    chosen = [one.key for one in tflgpu_plugin.report(made).partitions][place]

    def unless_chosen(usual: Callable[..., Any]) -> Callable[..., Any]:
        def planned(self: engine.Partition, graph: Graph, *more: Any) -> Any:
            if self.number == chosen:
                raise BuildError((), PLANTED)
            return usual(self, graph, *more)

        return planned

    same(interpreter, model, host)
    shape = tuple(int(n) for n in interpreter.get_input_details()[0]["shape"])
    with monkeypatch.context() as patch:
        for function in ("build", "template"):
            usual = getattr(engine.Partition, function)
            patch.setattr(engine.Partition, function, unless_chosen(usual))
        resize(interpreter, (2, *shape[1:]))
        before = counted(made)  # a host may have made new kernels
        for seed in range(2):
            same(interpreter, model, host, seed)
        assert np.subtract(counted(made), before).tolist() == [2, 2, 0]
    resize(interpreter, shape)
    before = counted(made)
    same(interpreter, model, host)
    assert np.subtract(counted(made), before).tolist() == [2, 0, 0]


def test_a_number_beyond_int32(host: str) -> None:
    model = hosts_model()
    interpreter, made = gpu(model, host, "optimized")
    reference = hosts.interpreter(model, host, "optimized")
    reference.allocate_tensors()
    for number in (7, 2**40, 8):
        feed = [[np.array([[number, 1, -number]], np.int64)]]
        (got,), (wanted,) = (hosts.invoke(one, feed)[0] for one in (interpreter, reference))
        np.testing.assert_array_equal(got, wanted)
    assert counted(made) == (2, 1, 0)


def hosts_model() -> bytes:
    """Returns a model of y = -x in int64."""
    from conformance.models.tflite import Model

    model = Model()
    x = model.input("x", (1, 3), "i64")
    model.output(model.op("NEG", [x], None, {}, shape=(1, 3), dtype="i64"))
    return model.to_bytes()


@pytest.mark.parametrize("operator", ["GATHER", "GATHER_ND", "EMBEDDING_LOOKUP"])
def test_an_index_outside_is_an_error_of_the_host(host: str, operator: str) -> None:
    from conformance.models.tflite import Model

    model, shape = Model(), (2, 1) if operator == "GATHER_ND" else (2,)
    x, i = model.input("x", (5, 4)), model.input("i", shape, "i32")
    relu = model.op("RELU", [x], shape=(5, 4))
    options = {"GATHER": "GatherOptions"}.get(operator)
    reads = [i, relu] if operator == "EMBEDDING_LOOKUP" else [relu, i]
    model.output(model.op(operator, reads, options, {}, shape=(2, 4)))
    content = model.to_bytes()
    interpreter, made = gpu(content, host, "optimized")
    reference = hosts.interpreter(content, host, "optimized")
    reference.allocate_tensors()
    assert set(places(made).values()) == {"gpu"}
    table, said = np.arange(20, dtype=np.float32).reshape(5, 4), []
    for last in (4, 5, 3):
        feed = [[table, np.array([0, last], np.int32).reshape(shape)]]
        for one in (interpreter, reference) if last == 5 else ():
            with pytest.raises(RuntimeError) as raised:
                hosts.invoke(one, feed)
            said.append(str(raised.value).split("tflgpu:")[0].split("Node number")[0].strip())
        if last < 5:
            (got,), (wanted,) = (hosts.invoke(one, feed)[0] for one in (interpreter, reference))
            np.testing.assert_array_equal(got, wanted)
    assert said[0] == said[1]
    assert counted(made) == (2, 0, 1)


SEGMENTS = [f"UNSORTED_SEGMENT_{name}" for name in ("SUM", "PROD", "MIN", "MAX")]


@pytest.mark.parametrize("operator", ["SCATTER_ND", *SEGMENTS])
def test_a_place_outside_is_an_error_of_the_host(host: str, operator: str) -> None:
    """If a host accepts some of these, as tflite-runtime does for the last axis, there is a
    result."""
    from conformance.models.tflite import Model

    model, scatters = Model(), operator == "SCATTER_ND"
    x, i = model.input("x", (2,)), model.input("i", (2, 2) if scatters else (2,), "i32")
    relu = model.op("RELU", [x], shape=(2,))
    options = "".join(part.title() for part in operator.split("_")) + "Options"
    shape = (5, 4) if scatters else (3,)
    told = model.constant(np.array(shape if scatters else 3, np.int32))
    reads = [i, relu, told] if scatters else [relu, i, told]
    model.output(model.op(operator, reads, options, {}, shape=shape))
    content = model.to_bytes()
    interpreter, made = gpu(content, host, "optimized")
    reference = hosts.interpreter(content, host, "optimized")
    reference.allocate_tensors()
    assert set(places(made).values()) == {"gpu"}
    rows = [[0, 3], [0, 4], [5, 0], [-1, 0], [4, 3]] if scatters else [[2], [3], [-1], [0]]
    told_each: list[Any] = []
    for row in rows:
        index = np.array([row, [1, 1]] if scatters else [row[0], 1], np.int32)
        feed = [[np.array([2, 3], np.float32), index]]
        outcomes = [outcome(one, feed) for one in (interpreter, reference)]
        assert outcomes[0] == outcomes[1], row
        told_each.append(outcomes[0])
    assert any(isinstance(each, str) for each in told_each)
    assert counted(made)[0] == (2 if scatters else 3)  # an id below 0 is none, on the GPU, too


def outcome(interpreter: Any, feed: Any) -> list[float] | str:
    """Returns the elements of the first output of a run, or the host's error message."""
    try:
        return [float(v) for v in hosts.invoke(interpreter, feed)[0][0].reshape(-1)]
    except RuntimeError as error:
        return str(error).split("tflgpu:")[0].split("Node number")[0].strip()


LOST = """
import numpy as np, tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import interpreters, loop_models, small_models, variable_models
from tests.support.recurrent_loops import Loop
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter

host = {host!r}
MODELS = dict(
    guide=small_models.guide(), partitions=small_models.two_partitions(),
    streaming=variable_models.streaming(), loop=Loop("lstm", every=True).model(),
    gru=Loop("gru", fed=True, batch=2).model(), nested=loop_models.nested(16),
    choosing=loop_models.choosing(16), branch=loop_models.branching(16),
)
for name, model in MODELS.items():
    interpreter, made = interpreters.gpu(model, host)
    reference = hosts.interpreter(model, host, "reference")
    reference.allocate_tensors()
    for run in range(5):
        if run == 2:
            native.lib.tg_device_mark_lost(adapter.open_device(adapter.select(None)).handle)
        values = interpreters.feeds(reference, run)
        ours, theirs = (hosts.invoke(one, [values])[0] for one in (interpreter, reference))
        for got, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-5, err_msg=f"{{name}}, run {{run}}")
    found = [one for one in tflgpu_plugin.report(made).partitions if one.live]
    assert found and all((p.runs, p.host_runs, p.failures) == (2, 3, 0) for p in found), name
"""


def test_a_lost_device_leaves_answers_and_variables(host: str) -> None:
    """The test runs in a separate process, because others share the device. The host keeps the
    variables."""
    done = run_python(LOST.format(host=host))
    assert done.returncode == 0, done.stderr


KEPT = """
import numpy as np, pytest
from conformance import host as hosts
from tests.support import interpreters
from tests.support.state_models import Layers
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter

host = {host!r}
layers = Layers(1).grown("basic")
model = layers.to_bytes()
interpreter, made = interpreters.gpu(model, host)
reference = hosts.interpreter(model, host, "reference")
reference.allocate_tensors()

def run(one, seed):
    return hosts.invoke(one, [interpreters.feeds(reference, seed)])[0]

for seed in range(2):
    run(interpreter, seed)
native.lib.tg_device_mark_lost(adapter.open_device(adapter.select(None)).handle)
for _ in range(2):
    with pytest.raises(RuntimeError, match='"state 0" cannot be fetched from the GPU: .* Reset'):
        run(interpreter, 2)
    with pytest.raises(RuntimeError, match="lost"):
        interpreter.get_tensor(layers.states[0])
interpreter.reset_all_variables()
for seed in range(3):
    np.testing.assert_allclose(run(interpreter, seed), run(reference, seed), atol=1e-5)
    for state in layers.states:
        got, wanted = (one.get_tensor(state) for one in (interpreter, reference))
        np.testing.assert_allclose(got, wanted, atol=1e-5)
"""


def test_variables_on_a_lost_device_are_lost(host: str) -> None:
    """The model runs again after they are reset."""
    done = run_python(KEPT.format(host=host))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("operator", ["FLOOR_DIV", "FLOOR_MOD", "POW"])
def test_an_operand_that_the_host_refuses_is_its_error(host: str, operator: str) -> None:
    """Integers are divided by zero or raised to a negative exponent; the last lane is padding."""
    from conformance.models.tflite import Model

    model = Model()
    x, e = (model.input(name, (1, 3), "i32") for name in ("x", "e"))
    model.output(model.op(operator, [x, e], shape=(1, 3), dtype="i32"))
    content = model.to_bytes()
    interpreter, made = gpu(content, host, "optimized")
    reference = hosts.interpreter(content, host, "optimized")
    reference.allocate_tensors()
    assert set(places(made).values()) == {"gpu"}
    refused = -1 if operator == "POW" else 0
    for second in (2, refused, 3):
        feed = [[np.array([[5, -7, 9]], np.int32), np.array([[1, second, 2]], np.int32)]]
        outcomes = [outcome(one, feed) for one in (interpreter, reference)]
        assert outcomes[0] == outcomes[1]
        assert isinstance(outcomes[1], str) == (second == refused)
    assert counted(made) == (2, 0, 1)


@pytest.mark.parametrize("operator", ["GATHER", "EMBEDDING_LOOKUP"])
def test_a_constant_index_below_zero_is_left_to_the_host(host: str, operator: str) -> None:
    from conformance.models.tflite import Model

    model = Model()
    x = model.input("x", (5, 4))
    indices = model.constant(np.array([0, -1], np.int32))
    options = {"GATHER": "GatherOptions"}.get(operator)
    reads = [indices, x] if operator == "EMBEDDING_LOOKUP" else [x, indices]
    model.output(model.op(operator, reads, options, {}, shape=(2, 4)))
    content = model.to_bytes()
    interpreter, made = gpu(content, host, "optimized")
    reference = hosts.interpreter(content, host, "optimized")
    reference.allocate_tensors()
    assert set(places(made).values()) == {"cpu"}
    feed = [[np.ones((5, 4), np.float32)]]
    assert isinstance(outcome(reference, feed), str)
    assert outcome(interpreter, feed) == outcome(reference, feed)


@pytest.mark.parametrize("shapes", [[(1, 3), (2, 3), (2, 3)], [(2, 3), (1, 3), (2, 3)]])
def test_conditions_of_shapes_are_asked_of_each_shape(
    host: str, shapes: list[tuple[int, ...]]
) -> None:
    """SELECT does not broadcast: what the host refuses after a resize is refused here, too."""
    made = Model()
    kinds, whole = ("bool", "f32", "f32"), (2, 3)
    given = [made.input(f"x{k}", whole, kind) for k, kind in enumerate(kinds)]
    made.output(made.op("SELECT", given, shape=whole))
    interpreter, _ = gpu(made.to_bytes(), host)

    def run(extents: list[tuple[int, ...]]) -> None:
        for one, shape in zip(interpreter.get_input_details(), extents, strict=True):
            interpreter.resize_tensor_input(one["index"], shape)
        interpreter.allocate_tensors()
        interpreter.invoke()

    run([(2, 3)] * 3)
    with pytest.raises((RuntimeError, ValueError), match="SELECT"):
        run(shapes)
