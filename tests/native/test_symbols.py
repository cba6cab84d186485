"""Native code derives the plan of a run from the run's shapes and the symbols of a plan."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.support import native_plans
from tests.support.fake_host import ARENA, CUSTOM, OK, Host, V, X, Y
from tests.support.symbolic_plans import ROOM, SHOWN, Tables, copying, counting, plan, wanted
from tflgpu_plugin import engine, native, providers
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Plan, Target
from tflgpu_plugin.ir.plan import FORMULAS, GUARDS, WORDS
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import create
from tflgpu_plugin.runtime.program import Instance, Program, native_symbols

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(sys.platform == "win32", reason="calls with open ends as on Linux"),
]
MAPPABLE = "mappable-primary-buffers"
LARGEST = 1 << 63
STARTED: Mapping[int, tuple[int, ...]] = {X: (8,)}


@pytest.fixture(scope="module", params=["mapped", "staged"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Opens a new device, with buffers that can be mapped or without."""
    opened = adapter.open_device(adapter.select(None))
    if request.param == "mapped" and MAPPABLE not in opened.target.features:
        pytest.skip("this adapter does not share its memory")
    features = opened.target.features - {MAPPABLE}
    mapped = {MAPPABLE} if request.param == "mapped" else set()
    yield create(opened.info, sorted(features | mapped))
    gc.collect()


@dataclass
class Open(Host):
    """A host whose kernel has plans with symbols, or plans without symbols if it is `plain`."""

    tables: Tables | None = None
    device: Any = None
    change: Callable[[Plan], Plan] = lambda made: made
    plain: bool = False
    results: list[int] | None = None  # the shapes of the results, if not those of the plan
    more: tuple[int, ...] = ()  # the numbers of further symbols
    made: Any = None  # the newest instance

    def build(self, number: int, kernel: Any) -> None:
        assert self.tables
        made = self.change(plan(self.tables, len(self.data[X]), self.more))
        self.made = Instance(Program(made, self.device))
        self.hand_over(self.made, kernel)

    def hand_over(self, made: Instance, kernel: Any) -> None:
        looked = [n for k in self.shape_only for n in (self.data[k].ndim, *self.data[k].shape)]
        shapes = [1, *made.plan.inputs[0].shape, *looked]
        symbols = None if self.plain else native_symbols(made.plan)
        results = self.results or [1, *made.plan.outputs[0].shape]
        native_plans.add(kernel, shapes, results, made.replay, symbols=symbols)

    def run(self, n: int) -> bool:
        """Returns whether a run of n numbers needed no new plan; its result must be right."""
        before = len(self.built)
        self.shape(X, (n,))
        assert self.prepare() == [OK]
        self.data[X][:] = x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        self.data[Y][:] = np.nan
        assert not self.invoke() and self.tables
        found = self.data[Y].view(np.uint32)
        assert np.array_equal(found, wanted(self.tables, x, *self.more)), n
        return len(self.built) == before


Make = Callable[..., Open]


@pytest.fixture
def started(device: Any) -> Iterator[Make]:
    hosts: list[Open] = []

    def make(tables: Tables, shapes: Mapping[int, tuple[int, ...]] = STARTED, **more: Any) -> Open:
        hosts.append(Open(None, tables=tables, device=device, **more))  # type: ignore[arg-type]
        for k, shape in shapes.items():
            hosts[-1].shape(k, shape)
        assert hosts[-1].apply() == OK and hosts[-1].prepare() == [OK]
        return hosts[-1]

    yield make
    for each in hosts:
        each.destroy()
    providers.find("tflite").connect()  # for the tests that come after


# ---- runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", range(3))
def test_one_plan_is_run_with_many_shapes(started: Make, axis: int) -> None:
    running = started(copying(axis))
    sizes = (8, 9, 1, 100, 3, 3, 3, 7, 100, 99, 8, 8, 1, 2, 4, 5, 64)
    for n in sizes:
        assert running.run(n)
        assert running.data[Y].shape == (n + SHOWN,)
    state = running.state()
    assert (state.runs, state.failures) == (len(sizes), 0)
    assert state.uploaded_bytes == 4 * sum(sizes)
    assert state.downloaded_bytes == 4 * sum(n + SHOWN for n in sizes)


def test_shapes_that_last_and_others_between(started: Make) -> None:
    """Commands are prepared for shapes that repeat, and dropped when another shape lasts."""
    running = started(copying())
    for n, runs in ((8, 3), (20, 1), (8, 2), (30, 12), (31, 1), (30, 4), (5, 30), (30, 1), (5, 2)):
        assert all(running.run(n) for _ in range(runs))


def test_shapes_without_numbers(started: Make) -> None:
    """Tensors that are empty in one run have elements in the next."""
    tables = copying()
    tables.groups[0] = (1, 0, tables.formula("plus", ("formula", 0), 1))
    running = started(tables)
    assert all(running.run(n) for n in (5, 0, 0, 0, 6, 6, 6, 0, 3, 0, 0))


def test_runs_as_the_plan_was_made(started: Make) -> None:
    """Python runs the plan with its own shapes between runs of a host with other shapes."""
    tables = copying()
    tables.words.append((20, tables.formula("times", 0, 3), "i32"))
    running = started(tables)
    x = np.arange(8, dtype=np.float32)
    for n in (30, 30, 8, 3, 41):
        assert running.run(n)
        for _ in range(2):
            (found,) = running.made.run([x])
            assert np.array_equal(found.view(np.uint32), wanted(tables, x))


def test_one_replay_has_two_plans(started: Make) -> None:
    """Uniforms that the symbols of one plan change keep their initial values in runs of the
    other."""
    first, second = copying(), copying()
    first.words.append((32, first.formula("times", 0, 2), "u32"))
    first.words.append((40, first.constant(7), "u32"))
    second.words.append((32, second.constant(16), "u32"))
    second.words.append((40, second.constant(7), "u32"))
    running = started(first)
    made = running.made
    other = started(second, shape_only=(V,))
    other.made.replay = made.replay
    other.hand_over(other.made, other.kernels[0])
    for n in (9, 20, 20, 8, 5):
        assert running.run(n) and other.run(n + 1) and running.run(n)


def test_an_output_stays_on_the_device(started: Make) -> None:
    tables = copying()
    running = started(tables, stays=True)
    for n in (8, 30, 30, 5):
        running.shape(X, (n,))
        assert running.prepare() == [OK]
        running.data[X][:] = x = np.arange(n, dtype=np.float32)
        assert not running.invoke() and running.tensors[Y].is_stale
        assert not running.fetch(Y)
        assert np.array_equal(running.data[Y].view(np.uint32), wanted(tables, x)), n
    assert running.built == [0]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_state_goes_from_shape_to_shape(started: Make, keeps: bool, plain: bool) -> None:
    """This includes changes from plan to plan if these are `plain`. The state is right after
    prepared commands are dropped, and when the host sets it between runs. The program sometimes
    reads it from the device, and finally in memory of its own."""
    more = {"states": (V,), "keeps_states": keeps, "plain": plain}
    running = started(copying(), change=lambda made: counting(made, 16), **more)
    mine, total = np.zeros(16, np.float32), np.float32(0)
    for _ in range(4):
        running.made.run([np.zeros(8, np.float32)], [mine])
    assert np.all(mine == 32)
    for step, n in enumerate((8, 8, 8, 20, *[21] * 12, 8, 8, 8, 9)):
        if step == 5:
            running.data[V][:] = total = np.float32(1000)
        assert running.run(n) or plain
        total += n
        if not keeps or step in (2, 4, 10, 12):
            assert np.all(running.show(V) == total), step
            running.tensors[V].allocation = CUSTOM if step >= 12 else ARENA
        elif step < 12:
            assert np.isnan(running.data[V]).all(), step
        else:
            assert np.all(running.data[V] == total), step


def test_a_state_may_change_its_size(started: Make) -> None:
    """Kernels may write past its end, which the host's copy does not include."""
    tables = copying()
    tables.sizes.append((2, ("formula", 1)))

    def change(made: Plan) -> Plan:
        (n,) = made.inputs[0].shape
        made = counting(made, ROOM)
        return replace(made, states=(replace(made.states[0], shape=(n,), bytes=4 * n),))

    total = np.arange(ROOM, dtype=np.float32)
    running = started(tables, {X: (16,)}, states=(V,), change=change)
    for n in (16, 8, 8, 30, 7, 7, 30, 8, 16, 100):
        running.shape(V, (n,))
        running.data[V][:] = total[:n]
        assert running.run(n)
        total[:n] += n
        assert np.array_equal(running.data[V], total[:n]), n


# ---- numbers -------------------------------------------------------------------------------------


def test_arithmetic_is_pythons(started: Make) -> None:
    """Numbers have both signs, and quotients are exact or rounded."""
    tables = copying()
    shifted, at = tables.formula("plus", 0, -50), 4
    for name in FORMULAS:
        for other in (-7, -1, 1, 4, 60):
            tables.words.append((at, tables.formula(name, shifted, other), "i32"))
            at += 4
    tables.words += [(at, shifted, "f32"), (at + 4, shifted, "i32"), (at + 8, 0, "f32")]
    running = started(tables)
    assert all(running.run(n) for n in (8, 43, 46, 50, 54, 57, 64, 100))


def test_kinds_have_the_numbers_of_the_library() -> None:
    for names in (FORMULAS, GUARDS, WORDS):
        found = [getattr(native.lib, f"TG_{name.upper()}") for name in names]
        assert found == list(range(len(names)))


def test_every_type_has_its_words(started: Make) -> None:
    tables = copying()
    large = tables.formula("times", tables.formula("plus", 0, (1 << 20) - 8), 1 << 11)
    tables.words += [(8, large, "u32"), (12, tables.formula("plus", 0, -(1 << 31)), "i32"),
                     (16, tables.formula("times", large, large), "f32")]  # fmt: skip
    running = started(tables)
    assert all(running.run(n) for n in (8, 7, 1, 100))


Refuse = Callable[[Tables], None]


def _jump(tables: Tables, by: int) -> Any:
    """Returns a formula that is 0 for n < 20, and `by` for 20 <= n < 40."""
    return tables.formula("times", tables.formula("quotient", 0, 20), by)


def _word(kind: str, factor: int, more: int = 0) -> Refuse:
    """Returns a change that puts the word n * factor + more before the others."""
    return lambda t: t.words.insert(
        0, (8, t.formula("plus", t.formula("times", 0, factor), more), kind)
    )


def _divided(name: str, by: int, a: int = 1) -> Refuse:
    """Returns a change that divides `a` by n - `by`."""
    return lambda t: void(t.formula(name, t.constant(a), t.formula("plus", 0, -by)))


def void(*_: Any) -> None:
    """Does nothing."""


def _sum(sign: int) -> Refuse:
    def add(t: Tables) -> None:
        part = t.formula("times", 0, sign * (LARGEST // 32))
        t.formula("plus", part, sign * (LARGEST // 2))

    return add


def _group(by: int) -> Refuse:
    return lambda t: t.groups.append((0, 0, t.formula("plus", _jump(t, by), 16)))


def _size(port: int, by: int) -> Refuse:
    def change(t: Tables) -> None:
        t.sizes[port] = (port, t.formula("plus", t.sizes[port][1], _jump(t, by)))

    return change


def _extent(by: int) -> Refuse:
    def change(t: Tables) -> None:
        t.extents[0] = (1, t.formula("plus", t.extents[0][1], _jump(t, by)))

    return change


def _guard(name: str, *formula: Any) -> Refuse:
    return lambda t: t.guards.append((name, t.formula(formula[0], 0, formula[1])))


REFUSED: dict[str, tuple[Refuse, int, int]] = {
    "a product": (lambda t: void(t.formula("times", 0, LARGEST // 10)), 10, 11),
    "a sum": (_sum(1), 15, 20),
    "a difference": (_sum(-1), 15, 20),
    "a quotient by 0": (_divided("quotient", 20), 19, 20),
    "a rest by 0": (_divided("remainder", 20), 21, 20),
    "a quotient, rounded up, by 0": (_divided("rounded_up", 20), 19, 20),
    "the largest quotient": (_divided("quotient", 21, -LARGEST), 19, 20),
    "an unsigned word": (_word("u32", 1 << 28, (1 << 28) - 1), 15, 16),
    "an unsigned word below 0": (_word("u32", -1, 20), 20, 21),
    "a signed word": (_word("i32", 1 << 27, (1 << 27) - 1), 15, 16),
    "a signed word below 0": (_word("i32", -(1 << 27)), 16, 17),
    "none of the first": (void, 1, 0),
    "no workgroups": (_group(-16), 19, 20),
    "workgroups below 0": (_group(-17), 19, 20),
    "too many workgroups": (_group(1 << 30), 19, 20),
    "an input's buffer": (void, ROOM, ROOM + 1),
    "an input below 0": (_size(0, -200), 19, 20),
    "an output's buffer": (_size(1, 1 << 20), 19, 20),
    "an output below 0": (_size(1, -500), 19, 20),
    "an extent": (_extent(1 << 31), 19, 20),
    "an extent below 0": (_extent(-200), 19, 20),
    "at least 0": (_guard("not_negative", "plus", -5), 5, 4),
    "not 0": (_guard("not_zero", "plus", -13), 12, 13),
    "0": (_guard("zero", "quotient", 40), 39, 40),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_is_not_run_where_it_does_not_hold(started: Make, name: str) -> None:
    """It runs with the last shape that satisfies its guards; another plan is built for the next
    one."""
    change, good, bad = REFUSED[name]
    tables = copying()
    change(tables)
    running = started(tables)
    assert running.run(good)
    running.tables, running.plain = copying(), True
    running.change = lambda made: made
    assert not running.run(bad)
    assert running.run(bad)
    running.tables = tables
    assert running.run(good) and running.run(8)


# ---- shapes --------------------------------------------------------------------------------------


def test_places_of_a_symbol_are_equal_and_all_others_are_the_plans(started: Make) -> None:
    """The second tensor is (n, m, 5), where m is a symbol, too."""
    tables = replace(copying(), symbols=2, places=[(1, 0), (3, 0), (4, 1)])
    tables.words.append((12, 1, "u32"))
    tables.groups[0] = (1, 0, tables.formula("plus", ("formula", 0), 1))  # 0 is a shape, too

    def shaped(n: int, *shape: int) -> bool:
        running.shape(V, shape)
        running.more = shape[1:2]
        return running.run(n)

    running = started(tables, shapes={X: (8,), V: (8, 3, 5)}, shape_only=(V,), more=(3,))
    assert shaped(9, 9, 4, 5) and shaped(8, 8, 3, 5) and shaped(9, 9, 3, 5)
    running.plain = True
    for shape in ((8, 4, 5), (9, 4, 6), (9, 4)):
        assert not shaped(9, *shape)
    assert shaped(9, 9, 7, 5) and shaped(10, 10, 4, 5)


def test_shapes_of_other_ranks_are_others(started: Make) -> None:
    """(n) and (m) differ from (n, 1) and (), although the lists are equal after the first rank."""
    tables = replace(copying(), symbols=2, places=[(1, 0), (3, 1)])
    tables.words.append((12, 1, "u32"))
    running = started(tables, {X: (8,), V: (3,)}, shape_only=(V,), more=(3,))
    running.refusal = b"They are other ones."
    for x, v, builds in (((9,), (0,), 0), ((9, 1), (), 2), ((9,), (1,), 0)):
        running.built.clear()
        running.shape(X, x)
        running.shape(V, v)
        assert running.prepare() == [OK] and len(running.built) == builds


def test_the_largest_numbers_are_taken(started: Make) -> None:
    """Workgroups may reach the adapter's limit, and an extent that of int32; neither is run."""
    limit = adapter.open_device(adapter.select(None)).target.max_groups
    tables = copying()
    tables.groups.append((0, 1, tables.formula("plus", _jump(tables, limit - 1), 1)))
    grouped = started(tables)
    tables = copying()
    tables.extents = [(1, tables.formula("plus", _jump(tables, (1 << 31) - 21), 20))]
    extended = started(tables, results=[2, 20, 0])
    for running in (grouped, extended):
        running.refusal = b"They are too large."
        for n, builds in ((20, 0), (40, 2), (39, 0)):
            running.built.clear()
            running.shape(X, (n,))
            assert running.prepare() == [OK] and len(running.built) == builds, n


def test_a_plan_that_others_follow_from_is_in_use(started: Make) -> None:
    """It is not dropped from the 8 plans that are kept, unless no run is derived from it."""
    tables = copying()
    tables.guards.append(("zero", tables.formula("quotient", 0, 40)))
    running = started(tables)
    running.plain = True
    for n in range(41, 49):
        assert running.run(9) and running.run(10 + n % 2) and not running.run(n)
    assert not running.run(41)
    for n in range(50, 58):
        assert not running.run(n)
    assert not running.run(9)


def test_what_the_host_makes_next_takes_over_the_plans(started: Make) -> None:
    running = started(copying())
    assert running.run(9)
    after = started(copying())
    after.plain = True
    partitions = [native.ffi.cast("tg_partition *", each.kernels[0]) for each in (after, running)]
    native.lib.tg_partition_adopt(*partitions)
    assert after.run(9) and after.run(30) and running.run(31)


# ---- onnxruntime ---------------------------------------------------------------------------------


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a session whose partition is built with plans of this file."""
    pytest.importorskip("onnxruntime")
    from tests.support import onnx_models
    from tflgpu_plugin.compile import compiler

    def compile(graph: Graph, target: Target) -> Plan:
        (n,) = graph.shape(graph.inputs[0])
        made = plan(TABLES, n)
        ports = (made.inputs[0], graph.inputs[0]), (made.outputs[0], graph.outputs[0])
        inputs, outputs = ((replace(port, tensor=tensor),) for port, tensor in ports)
        symbols = made.symbols if n >= SMALLEST else None
        return replace(made, inputs=inputs, outputs=outputs, symbols=symbols)

    def refused(*_: Any) -> Any:
        raise Unsupported.of("device.limit", "There are only the plans of this file.")

    monkeypatch.setattr(compiler, "compile", compile)
    monkeypatch.setattr(engine.Partition, "template", refused)
    padded = onnx_models.node("Pad", ["x", "pads"], ["y"])
    pads = {"pads": np.int64([SHOWN, 0])}
    return onnx_models.session(onnx_models.model([padded], {"x": ("n",)}, {"y": ("m",)}, pads))


SMALLEST = 3
TABLES = copying()
TABLES.words.append((28, TABLES.formula("times", 0, 3), "i32"))
TABLES.guards.append(("not_negative", TABLES.formula("plus", 0, -SMALLEST)))


def check(session: Any, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    (found,) = session.run(None, {"x": x})
    assert np.array_equal(found.view(np.uint32), wanted(TABLES, x)), n


def test_two_threads_run_one_plan_with_shapes_of_their_own(session: Any) -> None:
    errors = list[BaseException]()

    def work(shapes: Iterator[int]) -> None:
        try:
            for n in shapes:
                check(session, n)
        except BaseException as error:
            errors.append(error)

    with engine.watch() as built:
        check(session, 5)
        before = len(built)
        given = (range(SMALLEST, 90), range(90, SMALLEST, -1), [7, 7, 7, 70] * 20)
        threads = [threading.Thread(target=work, args=(iter(each),)) for each in given]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors and len(built) == before


def test_a_session_has_another_plan_built_where_one_does_not_hold(session: Any) -> None:
    with engine.watch() as built:
        for n, builds in ((5, 0), (SMALLEST, 0), (2, 1), (70, 1), (1, 2), (2, 2), (71, 2)):
            check(session, n)
            assert len(built) == builds, n
