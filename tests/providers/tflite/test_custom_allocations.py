"""Tensors in memory of the program's own (custom allocations), which may be at any address, in the
middle of other data.

Python's interpreters have no method for them, so tests call the function of C++, which the library
of tflite-runtime exports."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import feeds, gpu
from tests.support.small_models import guide, two_partitions
from tests.support.state_models import Layers
from tflgpu_plugin import native
from tflgpu_plugin.providers.tflite import snapshot

HOST = "tflite_runtime"
SET = "_ZN6tflite8Subgraph28SetCustomAllocationForTensorEiRK22TfLiteCustomAllocationl"
UNALIGNED_TOO = 1  # the flag with which the host does not ask for 64 bytes
FILL = 0xA5

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(HOST not in hosts.installed(), reason="only it exports the function"),
]


class Allocation(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


@pytest.fixture
def setter(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Sets the memory of a tensor of the newest interpreter, and returns it as an array."""
    graphs, take = [], snapshot.take

    def noted(ffi: Any, context: Any) -> Any:
        graphs.append(int(native.ffi.cast("uintptr_t", context.unused_impl)))
        return take(ffi, context)

    monkeypatch.setattr(snapshot, "take", noted)
    (path,) = Path(hosts.module(HOST).__file__).parent.glob("_pywrap*.so")
    function = getattr(ctypes.CDLL(str(path)), SET)
    function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)

    def place(interpreter: Any, tensor: int, offset: int) -> Any:
        detail = next(d for d in interpreter.get_tensor_details() if d["index"] == tensor)
        size = int(np.prod(detail["shape"])) * np.dtype(detail["dtype"]).itemsize
        memory = np.full(size + 256, FILL, np.uint8)
        first = 64 - memory.ctypes.data % 64 + offset
        given = Allocation(memory.ctypes.data + first, size)
        assert function(graphs[-1], tensor, ctypes.byref(given), UNALIGNED_TOO) == 0
        found = memory[first : first + size].view(detail["dtype"]).reshape(detail["shape"])
        kept.append((memory, first, size))
        return found

    kept: list[tuple[Any, int, int]] = []
    yield place
    for memory, first, size in kept:  # nothing around it was written
        assert (memory[:first] == FILL).all() and (memory[first + size :] == FILL).all()


def odd_sizes() -> bytes:
    """Returns a model of tensors of seven bytes."""
    model = Model()
    x = model.input("x", (1, 7), "bool")
    model.output(model.op("LOGICAL_NOT", [x], shape=(1, 7), dtype="bool"))
    return model.to_bytes()


@pytest.mark.parametrize("offset", range(9))
@pytest.mark.parametrize("build", [guide, two_partitions, odd_sizes])
def test_inputs_and_outputs_at_any_address(
    setter: Callable[..., Any], build: Callable[[], bytes], offset: int
) -> None:
    model = build()
    interpreter, made = gpu(model, HOST, force=1)
    reference = hosts.interpreter(model, HOST)
    reference.allocate_tensors()
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    memory = setter(interpreter, given["index"], offset)
    found = setter(interpreter, result["index"], 8 - offset)
    interpreter.allocate_tensors()
    for seed in range(3):
        (value,) = feeds(reference, seed)
        memory[...] = value
        interpreter.invoke()
        (wanted,) = hosts.invoke(reference, [[value]])[0]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert all(part.runs for part in tflgpu_plugin.report(made).partitions if part.live)


@pytest.mark.parametrize("offset", [0, 1, 6])
def test_variables_are_where_the_program_wants_them(
    setter: Callable[..., Any], offset: int
) -> None:
    """After each run, without a call: also those that had stayed on the device before. The host
    does not reset them."""
    layers = Layers(1).grown("basic")
    model = layers.to_bytes()
    interpreter, _ = gpu(model, HOST)
    reference = hosts.interpreter(model, HOST)
    reference.allocate_tensors()
    feed = [feeds(reference, seed) for seed in range(6)]
    for values in feed[:2]:
        hosts.invoke(interpreter, [values])
    memory = [setter(interpreter, state, offset) for state in layers.states]
    interpreter.allocate_tensors()
    for state in memory:
        state[...] = 0.25
    for state in layers.states:
        reference.set_tensor(state, np.full((layers.batch, layers.units), 0.25, np.float32))
    for number, values in enumerate(feed):
        if number == 3:
            memory[0][...] = 0.5
            reference.set_tensor(layers.states[0], memory[0].copy())
            interpreter.reset_all_variables()
        got, wanted = (hosts.invoke(one, [values])[0][0] for one in (interpreter, reference))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
        for state, mine in zip(layers.states, memory, strict=True):
            np.testing.assert_allclose(mine, reference.get_tensor(state), rtol=0, atol=1e-5)
            np.testing.assert_array_equal(mine, interpreter.get_tensor(state))


def test_a_tensor_between_partitions_is_written(setter: Callable[..., Any]) -> None:
    """It stays on the device otherwise, and the program reads it without a call."""
    model = two_partitions()
    interpreter, made = gpu(model, HOST, force=1)
    (p,) = (d for d in interpreter.get_tensor_details() if d["name"] == "p")
    alone = hosts.interpreter(model, HOST, experimental_preserve_all_tensors=True)
    alone.allocate_tensors()
    memory = None
    for seed in range(6):
        if seed == 3:
            memory = setter(interpreter, p["index"], 2)
            interpreter.allocate_tensors()
        values = feeds(alone, seed)
        got, wanted = (hosts.invoke(one, [values])[0][0] for one in (interpreter, alone))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
        if memory is not None:
            np.testing.assert_allclose(memory, alone.get_tensor(p["index"]), rtol=0, atol=1e-5)
    assert all(part.runs for part in tflgpu_plugin.report(made).partitions if part.live)
