"""Tests the native delegate in a host made of Python: every call of a TFLite runtime, in orders and
with tensors that no real one has."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.native.test_refused_calls import SIZE, Spec, buffer, host, spec
from tests.support.fake_host import (
    ARENA,
    DYNAMIC,
    NO_HANDLE,
    NODES,
    OK,
    Host,
    V,
    X,
    Y,
    Z,
    ints,
)  # fmt: skip
from tflgpu_plugin import native, providers
from tflgpu_plugin.ir import Array

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(sys.platform == "win32", reason="calls with open ends as on Linux"),
]
__all__ = ["spec"]


@pytest.fixture
def made() -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def make(given: Spec, **more: Any) -> Host:
        hosts.append(Host(given, **more))
        return hosts[-1]

    yield make
    for each in hosts:
        each.destroy()
    providers.find("tflite").connect()  # for the tests that come after


Make = Callable[..., Host]


def started(make: Make, given: Spec, **more: Any) -> Host:
    running = make(given, **more)
    assert running.apply() == OK and running.prepare() == [OK] * len(running.makes)
    return running


def own(given: Spec) -> Spec:
    """Returns a kernel like `partition`'s, with separate buffers."""
    x, y = buffer(given.device), buffer(given.device)
    return replace(given, bindings=(x, y, None), inputs=((x, SIZE),), outputs=((y, SIZE),))


def values(seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(16).astype(np.float32)


def test_nodes_are_claimed_in_order_and_run(made: Make, spec: Spec) -> None:
    running = started(made, spec)
    assert running.claimed == sorted(NODES) and running.built == [0]
    for seed in range(2):
        running.data[X][:] = values(seed)
        assert not running.invoke()
        np.testing.assert_array_equal(running.data[Y], 2 * values(seed))
    state = running.state()
    assert (state.live, state.runs, state.failures, state.times_freed) == (1, 2, 0, 0)
    assert state.uploaded_bytes == state.downloaded_bytes == 2 * SIZE
    running.free()
    state = running.state()
    assert (state.live, state.times_freed) == (0, 1)


def test_what_is_claimed_otherwise_is_an_error(made: Make, spec: Spec) -> None:
    refused = made(spec, status=3)
    assert refused.apply() == 1
    assert refused.said == ["tflgpu: the host did not replace its nodes (status 3)."]
    idle = made(spec, inits=False)
    assert idle.apply() == 1
    assert idle.said == ["tflgpu: the host grouped the nodes differently than it had announced."]
    twice = made(spec, makes=((X, Y), (Y, Z)), twice=True)
    assert twice.apply() == OK and twice.again == [native.ffi.NULL] * 2
    other = made(spec, makes=((X, Y), (Y, Z)))
    assert other.apply() == OK and other.claimed == [5, 7, 9]
    part = native.ffi.new("tgl_partition *", {"nodes": other.keep(ints((5, 7)))})
    init = other.registration.init
    assert not init(other.context, native.ffi.cast("char *", part), 0)  # no claim is open
    stray = native.ffi.new("tgl_node *")
    assert other.registration.prepare(other.context, stray) == 1
    assert other.registration.invoke(other.context, stray) == 1
    assert set(other.said) == {"tflgpu: the host made a kernel that was not asked for."}


def test_outputs_get_the_shape_of_the_plan(made: Make, spec: Spec) -> None:
    for explicit in (True, False):
        running = made(spec, explicit=explicit)
        running.shape(Y, (2, 8))
        running.tensors[Y].allocation, running.tensors[Y].data = DYNAMIC, native.ffi.NULL
        assert running.apply() == OK and running.prepare() == [OK]
        assert running.resized == [(Y, (16,))] and running.tensors[Y].allocation == ARENA
        assert running.prepare() == [OK] and len(running.resized) == 1
        assert running.built == [0]
        assert not running.invoke()
    kept = made(spec)
    kept.tensors[Y].allocation = DYNAMIC  # with memory of its own
    assert kept.apply() == OK and kept.prepare() == [OK]
    assert not kept.resized and kept.tensors[Y].allocation == DYNAMIC
    failing = made(spec)
    failing.shape(Y, (4,))
    assert failing.apply() == OK
    failing.status = 1
    assert failing.prepare() == [1]
    assert failing.said == ["tflgpu: the host could not resize an output."]


NULL = "NULL"
WRONG: dict[str, tuple[int, dict[str, Any], str]] = {
    "input bytes": (X, {"bytes": 60}, 'Tensor "x" has 60 bytes, but its plan expects 64.'),
    "output bytes": (Y, {"bytes": 68}, 'Tensor "y" has 68 bytes, but its plan expects 64.'),
    "no input": (X, {"data": NULL}, 'Input tensor "x" has no memory.'),
    "no output": (Y, {"data": NULL}, 'Output tensor "y" has no memory.'),
    "no names": (X, {"data": NULL, "name": NULL}, 'Input tensor "" has no memory.'),
    "stale": (
        X, {"is_stale": True},
        'Input tensor "x" is stale: its bytes are no longer on the GPU.',
    ),
    "an old handle": (
        X, {"is_stale": True, "handle": 1 << 30},
        'Input tensor "x" is stale: its bytes are no longer on the GPU.',
    ),
    "rank": (
        Y, {"dims": (16, 1)},
        'Output tensor "y" does not have the shape of its plan, [16].',
    ),
    "extent": (
        Y, {"dims": (15,)},
        'Output tensor "y" does not have the shape of its plan, [16].',
    ),
    "no plan": (
        X, {"dims": (4, 4)},
        "There is no plan for these input shapes; call allocate_tensors().",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_tensor_that_does_not_fit_is_named(made: Make, spec: Spec, name: str) -> None:
    k, fields, sentence = WRONG[name]
    running = started(made, spec)
    tensor = running.tensors[k]
    before = {key: getattr(tensor, key) for key in fields}
    for key, value in fields.items():
        value = running.keep(ints(value)) if key == "dims" else value
        setattr(tensor, key, native.ffi.NULL if value is NULL else value)
    assert running.invoke() == f"tflgpu: {sentence}"
    for key, value in before.items():
        setattr(tensor, key, value)
    assert not running.invoke()
    assert (running.state().runs, running.state().failures) == (1, 1)


def test_an_old_handle_of_what_has_bytes_is_no_matter(made: Make, spec: Spec) -> None:
    running = started(made, spec)
    running.tensors[X].handle = 1 << 30
    assert not running.invoke()
    assert running.state().device_inputs == 0


def test_shapes_that_cannot_be_built_are_refused_when_run(made: Make, spec: Spec) -> None:
    running = made(spec, refusal=b"They are too large.")
    assert running.apply() == OK and running.prepare() == [OK]
    assert running.built == [0, 0]  # once more, for what has nothing to do with the shapes
    sentence = "tflgpu: This run could not be planned for the GPU: They are too large."
    assert running.invoke() == sentence
    running.refusal = b""
    assert running.prepare() == [OK] and not running.invoke()


def test_a_plan_that_is_not_kept_is_not_said_to_be_absent(
    made: Make, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To allocate tensors again would not help."""
    running = started(made, spec, values=(V,))
    monkeypatch.setattr(running, "build", lambda *_: None)
    running.shape(X, (4, 4))
    sentence = "tflgpu: The plan for these input shapes could not be kept."
    assert running.invoke() == sentence


def test_shapes_that_are_only_looked_at_choose_the_plan(made: Make, spec: Spec) -> None:
    running = started(made, spec, shape_only=(V,))
    assert not running.invoke()
    running.shape(V, (3, 5))
    assert "no plan for these input shapes" in running.invoke()
    assert running.prepare() == [OK] and not running.invoke()
    running.shape(V, (16,))
    assert not running.invoke() and running.built == [0, 0]


def test_the_last_eight_shapes_are_kept(made: Make, spec: Spec) -> None:
    running = started(made, spec, shape_only=(V,))
    for extent in range(1, 9):
        running.shape(V, (extent,))
        assert running.prepare() == [OK]
    assert len(running.built) == 9
    for extent in range(1, 9):
        running.shape(V, (extent,))
        assert not running.invoke()
    running.shape(V, (16,))
    assert "no plan for these input shapes" in running.invoke()
    assert running.prepare() == [OK] and len(running.built) == 10
    running.shape(V, (1,))  # the one that was not used for longest
    assert "no plan for these input shapes" in running.invoke()
    running.shape(V, (2,))
    assert not running.invoke()


# ---- what stays on the device --------------------------------------------------------------------


def test_an_output_that_stays_is_fetched_when_asked_for(made: Make, spec: Spec) -> None:
    running = started(made, spec, stays=True)
    y = running.tensors[Y]
    running.data[X][:] = values()
    assert not running.invoke()
    assert y.is_stale and y.handle > 0 and not running.data[Y].any()
    first = y.handle
    assert not running.fetch(Y)
    np.testing.assert_array_equal(running.data[Y], 2 * values())
    running.data[X][:] = values(1)
    assert not running.invoke() and y.handle == first
    assert not running.fetch(Y)
    np.testing.assert_array_equal(running.data[Y], 2 * values(1))
    assert running.state().downloaded_bytes == 2 * SIZE
    gone = "tflgpu: this tensor's bytes are no longer on the GPU; run the model again."
    assert running.fetch(Y, first + 1) == gone and running.fetch(Y, NO_HANDLE) == gone
    y.data = native.ffi.NULL
    assert running.fetch(Y) == "tflgpu: The host has no memory for this tensor."
    y.data, y.bytes = host(running.data[Y]), 60
    assert "Output 0 has 64 bytes on the GPU, but 60 are asked for" in running.fetch(Y)
    y.bytes = SIZE
    assert not running.fetch(Y)


def test_a_handle_that_is_given_back_leads_nowhere(made: Make, spec: Spec) -> None:
    running = started(made, spec, stays=True)
    assert not running.invoke()
    old = running.tensors[Y].handle
    place = native.ffi.new("int32_t *", old)
    running.delegate.free_handle(running.context, running.delegate, place)
    assert place[0] == NO_HANDLE and "no longer on the GPU" in running.fetch(Y, old)
    running.delegate.free_handle(running.context, running.delegate, place)
    assert not running.invoke() and running.tensors[Y].handle > old
    assert not running.fetch(Y)


def test_a_kernel_that_goes_takes_its_handles_with_it(made: Make, spec: Spec) -> None:
    running = started(made, spec, stays=True)
    assert not running.invoke()
    other = started(made, spec, stays=True)
    assert not other.invoke()
    old = running.tensors[Y].handle
    running.free()
    assert running.tensors[Y].handle == NO_HANDLE and not running.tensors[Y].is_stale
    running.kernels.clear()
    gc.collect()  # nobody has it any more
    assert "no longer on the GPU" in running.fetch(Y, old)
    assert not other.fetch(Y)
    other.tensors[Y].handle = 1 << 20  # the host has put something else there
    other.free()
    assert other.tensors[Y].handle == 1 << 20 and other.tensors[Y].is_stale


def test_many_handles(made: Make, spec: Spec) -> None:
    """There are more handles than the first table has room for, and they are removed in another
    order."""
    hosts = [started(made, own(spec), stays=True) for _ in range(130)]
    for k, running in enumerate(hosts):
        running.data[X][:] = k
        assert not running.invoke()
    handles = [running.tensors[Y].handle for running in hosts]
    assert handles == sorted(set(handles))
    for k in range(0, 130, 3):
        hosts[k].free()
    for k, running in enumerate(hosts):
        said = running.fetch(Y, handles[k])
        assert bool(said) == (k % 3 == 0), said
        assert said or (running.data[Y] == 2 * k).all()


def test_a_partition_reads_what_another_has_left_on_the_device(made: Make, spec: Spec) -> None:
    running = made(spec, makes=((X, Y), (Y, Z)), stays=True)
    assert running.apply() == OK
    assert running.registration.prepare(running.context, running.nodes[0]) == OK
    running.spec = own(spec)
    assert running.registration.prepare(running.context, running.nodes[1]) == OK
    for seed in range(3):
        running.data[X][:] = values(seed)
        assert not running.invoke(0) and not running.invoke(1)
        np.testing.assert_array_equal(running.data[Z], 4 * values(seed))
    assert running.state(1).device_inputs == 3 and running.state(1).uploaded_bytes == 0
    assert not running.data[Y].any()
    y = running.tensors[Y]
    y.bytes = 60
    assert running.invoke(1) == 'tflgpu: Tensor "y" has 60 bytes, but its plan expects 64.'
    y.bytes, y.is_stale = SIZE, False  # the host has fetched it: what is on the device is as good
    assert not running.invoke(1) and running.state(1).device_inputs == 4
    running.free(0)
    y.is_stale = True
    assert "is stale" in running.invoke(1)
