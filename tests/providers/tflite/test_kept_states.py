"""Variable tensors stay on the device between runs, and the program finds them where it looks."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import feeds, gpu
from tests.support.small_models import append_subgraph
from tests.support.state_models import KINDS, Layers, any_steps, program

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]


def reference_of(model: bytes, host: str) -> Any:
    made = hosts.interpreter(model, host)
    made.allocate_tensors()
    return made


def run(pair: tuple[Any, Any], seed: int) -> None:
    """Both give the same outputs."""
    values = feeds(pair[1], seed)
    ours, theirs = (hosts.invoke(one, [values])[0] for one in pair)
    for got, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


def same_states(pair: tuple[Any, Any], states: list[int]) -> None:
    for state in states:
        got, wanted = (one.get_tensor(state) for one in pair)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


def traffic(delegate: Any) -> tuple[int, int]:
    parts = [part for part in tflgpu_plugin.report(delegate).partitions if part.live]
    assert parts and not any(part.host_runs or part.failures for part in parts)
    return sum(p.uploaded_bytes for p in parts), sum(p.downloaded_bytes for p in parts)


@pytest.mark.parametrize("kind", KINDS)
def test_no_byte_of_a_state_passes_through_the_cpu(host: str, kind: str) -> None:
    layers = Layers(1).grown(*KINDS[kind])
    model = layers.to_bytes()
    interpreter, made = gpu(model, host, force=1)
    pair = interpreter, reference_of(model, host)
    run(pair, 0)
    same_states(pair, layers.states)
    run(pair, 0)
    before, parts = traffic(made), 2 if kind == "two parts" else 1
    for seed in range(1, 13):
        run(pair, seed)
    row = 4 * layers.batch * layers.units * parts * 12
    assert np.subtract(traffic(made), before).tolist() == [row, row]
    same_states(pair, layers.states)


def test_short_tensors_may_begin_as_the_mark_of_kept_states_does(host: str) -> None:
    """Found by an int8 output of one element with the mark's first byte."""
    mark = np.array([0x7FC5FE91, 0xFFD7FCA3, 0x7FCAFD1D, 0xFFE3FF47], np.uint32)
    for units in (1, 2, 3):
        interpreter, _ = gpu(Layers(1, batch=1, units=units).grown("basic").to_bytes(), host)
        (given,) = interpreter.get_input_details()
        value = mark[: np.prod(given["shape"])].view(np.float32).reshape(given["shape"])
        interpreter.set_tensor(given["index"], value)
        assert interpreter.get_tensor(given["index"]).tobytes() == value.tobytes()


def test_the_smallest_states_are_copied(host: str) -> None:
    """A program might assign the byte pattern that marks kept states."""
    layers = Layers(1, batch=1, units=3).grown("basic")
    model = layers.to_bytes()
    interpreter, made = gpu(model, host)
    pair = interpreter, reference_of(model, host)
    run(pair, 0)
    before = traffic(made)
    run(pair, 1)
    assert np.subtract(traffic(made), before).tolist() == [12 + 2 * 12] * 2


def test_a_variable_that_is_an_output_is_copied(host: str) -> None:
    """Signatures return outputs without the methods that fetch variables."""
    layers = Layers(1).grown("basic")
    layers.model.output(layers.states[0])
    model = layers.to_bytes()
    interpreter, made = gpu(model, host)
    pair = interpreter, reference_of(model, host)
    for seed in range(3):
        run(pair, seed)
    assert traffic(made)[1] == 3 * (48 + 2 * 48)


def test_variables_of_another_graph_are_copied(host: str) -> None:
    """The methods that fetch variables do not know its tensors."""
    from flatbuffers import Builder

    layers, other = Layers(1).grown("svdf"), Model()
    layers.model.output(layers.x)
    shape = (layers.batch, layers.units)
    other.output(other.op("RELU", [other.input("x", shape)], shape=shape))
    whole = Model()
    given = [whole.input("which", (), "bool"), whole.input("x", shape)]
    options = {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}
    whole.output(whole.op("IF", given, "IfOptions", options, shape=shape))
    packed = whole.unpacked()
    for more in (layers.model, other):
        append_subgraph(packed, more.unpacked())
    builder = Builder(1 << 16)
    builder.Finish(packed.Pack(builder), b"TFL3")
    model = bytes(builder.Output())
    interpreter, made = gpu(model, host, force=1)
    pair = interpreter, reference_of(model, host)
    for seed in range(3):
        feed = [np.array(True), feeds(pair[1], seed)[1]]
        got, wanted = (hosts.invoke(one, [feed])[0][0] for one in pair)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
        for state in layers.states:
            got, wanted = (one.get_tensor(state, 1) for one in pair)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    assert any(part.runs for part in tflgpu_plugin.report(made).partitions)


def test_a_refused_run_leaves_the_states_to_the_host(host: str) -> None:
    """The host's kernels change the states before they find the index that is out of range."""
    layers = Layers(1).grown("svdf")
    model = layers.model
    index = model.input("index", (1,), "i32")
    options = {"axis": 0, "batchDims": 0}
    layers.x = model.op("GATHER", [layers.x, index], "GatherOptions", options, shape=(1, 6))
    content = layers.to_bytes()
    pair = gpu(content, host)[0], reference_of(content, host)
    for number, wanted in enumerate((0, 1, 9, 1, 0)):
        feed = [feeds(pair[1], number)[0], np.array([wanted], np.int32)]
        told = []
        for one in pair:
            try:
                told.append(hosts.invoke(one, [feed])[0][0])
            except RuntimeError:
                told.append(np.zeros(0))
        assert (told[0].size == 0) == (wanted == 9)
        np.testing.assert_allclose(*told, rtol=0, atol=1e-5)
    same_states(pair, layers.states)


class Steps:
    """Operations that a program performs on two interpreters between runs; one of them is the
    reference."""

    def __init__(self, pair: tuple[Any, Any], states: list[int], seed: int) -> None:
        self.pair, self.states, self.choose = pair, states, random.Random(seed)
        self.views: list[list[Any]] = []

    def run(self) -> None:
        run(self.pair, self.choose.randrange(1000))

    def reset(self) -> None:
        for one in self.pair:
            one.reset_all_variables()

    def read(self) -> None:
        same_states(self.pair, self.states)

    def write(self) -> None:
        state = self.choose.choice(self.states)
        shape = self.pair[1].get_tensor(state).shape
        value = np.random.default_rng(self.choose.randrange(99)).uniform(-1, 1, shape)
        for one in self.pair:
            one.set_tensor(state, value.astype(np.float32))

    def allocate(self) -> None:
        for one in self.pair:
            one.allocate_tensors()

    def view(self) -> None:
        """Changes an element in the host's memory, now and perhaps later."""
        state = self.choose.choice(self.states)
        self.views.append([one.tensor(state) for one in self.pair])
        for view in self.choose.choice(self.views):
            view()[0, 0] = 0.5

    def look(self) -> None:
        for views in self.views:
            got, wanted = (view() for view in views)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_seeded_programs(host: str, seed: int) -> None:
    """Every other seed also reads and writes the memory itself."""
    model, states = program(seed)
    pair = gpu(model, host, force=1)[0], reference_of(model, host)
    steps = Steps(pair, states, seed)
    kinds = [steps.run] * 8 + [steps.reset, steps.read, steps.write, steps.allocate]
    for _ in range(30):
        steps.choose.choice(kinds + seed % 2 * [steps.view, steps.look])()
    steps.read()


def test_a_program_keeps_a_view(host: str) -> None:
    """The same function may be called again after each run."""
    layers = Layers(2).grown("basic")
    model = layers.to_bytes()
    pair = gpu(model, host)[0], reference_of(model, host)
    run(pair, 0)
    views = [one.tensor(layers.states[0]) for one in pair]
    for seed in range(1, 4):
        got, wanted = (view().copy() for view in views)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
        run(pair, seed)


def test_methods_of_the_host_are_wrapped_once(host: str) -> None:
    """Errors of the host are those of its own methods, which the wrappers call."""
    model = Layers(5).grown("svdf").to_bytes()
    interpreters = [gpu(model, host)[0] for _ in range(3)]
    for name in ("get_tensor", "tensor"):
        method = getattr(hosts.module(host).Interpreter, name)
        assert not hasattr(method.__wrapped__, "__wrapped__")
    plain = hosts.module(host).Interpreter.get_tensor.__wrapped__
    for index in (-1, 10**6):
        with pytest.raises(ValueError) as wanted:
            plain(interpreters[0], index)
        with pytest.raises(ValueError, match=str(wanted.value)):
            interpreters[0].get_tensor(index)


def test_interpreters_of_one_delegate_have_their_own_states(host: str) -> None:
    """They are closed in another order than created."""
    layers = Layers(3).grown(*KINDS["two parts"])
    model = layers.to_bytes()
    delegate = hosts.load_delegate(host, {"force": 1})
    pairs = []
    for _ in range(3):
        one = hosts.interpreter(model, host, experimental_delegates=[delegate])
        one.allocate_tensors()
        pairs.append((one, reference_of(model, host)))
    for seed in range(8):
        run(pairs[seed % 3], seed)
    for number in (1, 0):
        del pairs[number]
        gc.collect()
        for pair in pairs:
            run(pair, 9 + number)
            same_states(pair, layers.states)


def test_another_length_begins_anew(host: str) -> None:
    """Each length is used long enough for commands to be prepared for it."""
    layers = any_steps(4)
    model = layers.to_bytes()
    pair = gpu(model, host, force=1)[0], reference_of(model, host)
    for length in (1, 3, 5, 1):
        for one in pair:
            one.resize_tensor_input(one.get_input_details()[0]["index"], (2, length, layers.units))
            one.allocate_tensors()
        for seed in range(12):
            run(pair, seed)
        same_states(pair, layers.states)
