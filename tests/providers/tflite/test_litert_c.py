"""LiteRT's C functions, some of which its Python lacks, with our accelerator: runs that do not
wait, buffers that are cleared or locked twice or hold float16, and a runtime that refuses
requirements."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.support.litert_models import MARKS
from tests.support.subprocesses import run_python

pytestmark = MARKS

MADE = """
import ctypes as c
import numpy as np
import tflgpu_plugin
from tests.providers.tflite.test_litert_buffers import OURS, exponential
from tflgpu_plugin import native
from tflgpu_plugin.providers.tflite import litert

class Value(c.Structure):
    _fields_ = [("kind", c.c_int), ("pointer", c.c_void_p)]

class Option(c.Structure):
    _fields_ = [("tag", c.c_int), ("value", Value)]

class Type(c.Structure):
    _fields_ = [("element", c.c_int), ("rank", c.c_uint), ("dims", c.c_int * 8),
                ("strides", c.c_uint * 8)]

library = c.CDLL({library!r})

def call(name, *given):
    status = getattr(library, "LiteRt" + name)(*given)
    assert status == 0, (name, status)

def made(name, *given):
    out = c.c_void_p()
    call("Create" + name, *given, c.byref(out))
    return out

shape, content = (1, 32, 32, 4), exponential(1, 32, 32, 4)
folder = c.create_string_buffer(litert.folder({{"force": "1"}}).encode())
chosen = [Option(22, Value(8, c.cast(folder, c.c_void_p)))]
{before}
environment = made("Environment", len(chosen), (Option * len(chosen))(*chosen))
options = made("Options")
call("SetOptionsHardwareAccelerators", options, 3)
models = [made("CompiledModel", environment,
               made("ModelFromBuffer", environment, content, c.c_size_t(len(content))), options)
          for _ in range(2)]
kind = Type(1, 4, (c.c_int * 8)(*shape))
size = c.c_size_t(4 * int(np.prod(shape)))
buffers = [made("ManagedTensorBuffer", environment, OURS, c.byref(kind), size) for _ in range(3)]

def locked(buffer, mode):
    at = c.c_void_p()
    call("LockTensorBuffer", buffer, c.byref(at), mode)
    return np.ctypeslib.as_array(c.cast(at, c.POINTER(c.c_float)), (size.value // 4,))

def written(buffer, seed):
    x = np.random.default_rng(seed).uniform(-1, 1, size.value // 4).astype(np.float32)
    locked(buffer, 1)[:] = x
    call("UnlockTensorBuffer", buffer)
    return x

def read(buffer):
    found = locked(buffer, 0).copy()
    call("UnlockTensorBuffer", buffer)
    return found

def run(number, waits):
    pair = [(c.c_void_p * 1)(one) for one in buffers[number : number + 2]]
    given = [models[number], c.c_size_t(0), c.c_size_t(1), pair[0], c.c_size_t(1), pair[1]]
    if waits:
        return call("RunCompiledModel", *given)
    events = c.c_bool()
    call("RunCompiledModelAsync", *given, c.byref(events))
    assert not events.value  # whoever locks the buffer waits

def check(got, x):
    np.testing.assert_allclose(got, np.exp(-np.abs(x)), rtol=1e-6)

def freed():
    for buffer in buffers:
        library.LiteRtDestroyTensorBuffer(buffer)
    for model in models:
        library.LiteRtDestroyCompiledModel(model)
"""

ASYNCHRONOUS = """
for seed in range(4):
    x = written(buffers[0], seed)
    run(0, False)
    run(1, False)
    check(read(buffers[2]), np.exp(-np.abs(x)))
call("ClearTensorBuffer", buffers[2])
assert not locked(buffers[2], 0).any()
call("UnlockTensorBuffer", buffers[2])
(second,) = tflgpu_plugin.last_report().partitions
print(second.runs, second.uploaded_bytes, second.device_inputs)
freed()
"""


def ran(body: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Returns what a process says that runs this after it has made two models and three buffers;
    `before` may add to the options of their environment."""
    package = importlib.util.find_spec("ai_edge_litert")
    assert package is not None and package.origin is not None
    library = Path(package.origin).parent / "libLiteRt.so"
    if not library.exists():
        pytest.skip("ai-edge-litert has no library of C functions here")
    return run_python(MADE.format(library=str(library), before=before) + body)


def test_asynchronous_runs_and_cleared_buffers() -> None:
    assert ran(ASYNCHRONOUS).stdout.split() == ["4", "0", "4"]


READ_BY_A_RUN = """
from tflgpu_plugin.providers.tflite import delegates
(_, first), *_ = sorted(delegates.kept.partitions.items())
for seed in range(4):
    x = written(buffers[0], seed)
    before = first.state().downloaded_bytes
    run(0, False)
    assert first.state().downloaded_bytes == before  # else the run has waited
    run(1, True)
    check(read(buffers[1]), x)
    check(read(buffers[2]), np.exp(-np.abs(x)))
assert first.state().downloaded_bytes == 4 * size.value
freed()
"""


def test_a_run_that_waits_and_reads_the_buffer_of_one_that_does_not() -> None:
    """The first model's runs go on without a wait."""
    ran(READ_BY_A_RUN)


TWO_LOCKS = """
handlers, at = native.lib.LiteRtAcceleratorImpl.handlers, native.ffi.new("void **")
handle = c.c_void_p()
call("GetTensorBufferCustomTensorBufferHandle", buffers[1], c.byref(handle))
memory = native.ffi.cast("tgr_memory *", handle.value)
x = written(buffers[0], 0)
run(0, True)
run(1, True)
for order in ((1, 0), (0, 1), (2, 0), (0, 2)):
    for mode in order:
        assert handlers.lock(memory, mode, at) == 0
    x = x * np.float32(0.5)
    native.ffi.memmove(at[0], x, x.nbytes)
    for _ in order:
        assert handlers.unlock(memory) == 0
    run(1, True)
    check(read(buffers[2]), x)
    state = tflgpu_plugin.last_report().partitions[0]
    run(1, True)  # without another lock there is nothing to send
    assert tflgpu_plugin.last_report().partitions[0].uploaded_bytes == state.uploaded_bytes
freed()
"""


def test_what_is_written_under_two_locks_replaces_a_result() -> None:
    """LiteRT 2.3 refuses a second lock itself; a runtime that does not may hold several."""
    ran(TWO_LOCKS)


HALVES = """
values = np.resize(np.float32([0, -0.0, 1, 1 / 3, 2049, 2051, 65504, 65519, 65520, 1e30, np.inf,
                               -np.inf, np.nan, 6e-8, 2.98e-8, 2.99e-8, 9e-8, 6.1e-5, 6.09e-5, -2]),
                   shape)
x = values.ravel()
x[20:] = np.random.default_rng(0).uniform(-1, 1, x.size - 20) * 2.0 ** np.random.default_rng(1
    ).uniform(-26, 17, x.size - 20)
half = Type(10, 4, (c.c_int * 8)(*shape))
buffers += [made("ManagedTensorBuffer", environment, kind_, c.byref(half), size)
            for kind_ in (OURS, 1)]

def passes(given, taken):
    one, other = (c.c_void_p * 1)(buffers[given]), (c.c_void_p * 1)(buffers[taken])
    return library.LiteRtRunCompiledModel(copies, c.c_size_t(0), c.c_size_t(1), one,
                                          c.c_size_t(1), other)

copies = made("CompiledModel", environment,
              made("ModelFromBuffer", environment, CONTENT, c.c_size_t(len(CONTENT))), options)
with np.errstate(over="ignore"):
    wanted = np.where(np.isfinite(x), np.clip(x, -65504, 65504), x).astype(np.float16)
for taken in (3, 4, 3):
    locked(buffers[0], 1)[:] = x
    call("UnlockTensorBuffer", buffers[0])
    assert passes(0, taken) == 0
    got = locked(buffers[taken], 0).view(np.float16)[: x.size].copy()
    call("UnlockTensorBuffer", buffers[taken])
    np.testing.assert_array_equal(got, wanted)
partition = tflgpu_plugin.last_report().partitions[0]
print(partition.runs, partition.host_runs)
assert passes(3, 2) != 0
print(tflgpu_plugin.last_report().partitions[0].failure)
library.LiteRtDestroyCompiledModel(copies)
freed()
"""


COPIES = """
model = Model()
CONTENT = model.input("x", shape)
y = model.op("RESHAPE", [CONTENT, model.constant(np.int32(shape))], "ReshapeOptions",
             {"newShape": list(shape)}, shape=shape)
z = model.op("TRANSPOSE", [y, model.constant(np.int32([0, 1, 2, 3]))], "TransposeOptions", {},
             shape=shape)
model.output(z)
CONTENT = model.to_bytes()
"""


def test_float32_values_go_into_a_buffer_of_float16_as_float16() -> None:
    """LiteRT-LM makes such a buffer for a model's scores, unless its activations are float32."""
    content = f"from conformance.models.tflite import Model\n{COPIES}"
    runs, failure = ran(HALVES, content).stdout.splitlines()
    assert runs == "3 0"
    assert 'Input tensor "x" is float32, and its buffer is of float16' in failure


REFUSING = """
definition = native.ffi.new("tgr_definition *", native.lib.LiteRtAcceleratorImpl)
create = definition.create_delegate
tables = []

@native.ffi.callback("int32_t(tgr_buffers *, tgr_tensor *, tgr_requirements *)")
def refuses(all, tensor, owned):
    return 3

@native.ffi.callback("int32_t(tgr_runtime *, tgr_environment *, tgr_accelerator *, tgr_options *, "
                     "tgr_wrapper **)")
def creates(runtime, *given):
    tables.append(native.ffi.new("char[]", bytes(native.ffi.buffer(runtime, runtime.header.bytes))))
    table = native.ffi.cast("tgr_runtime *", tables[-1])
    table.take_requirements = refuses
    return create(table, *given)

definition.create_delegate = creates
at = int(native.ffi.cast("uintptr_t", definition))
chosen.append(Option(30, Value(9, at)))
"""
REFUSED = """
x = written(buffers[0], 0)
run(0, True)
run(1, True)
check(read(buffers[2]), np.exp(-np.abs(x)))
print(len(tables), tflgpu_plugin.last_report().partitions[0].runs)
freed()
"""


def test_a_runtime_that_takes_no_buffers_is_a_warning() -> None:
    done = ran(REFUSED, REFUSING)
    assert done.stdout.split() == ["2", "1"]
    for name in ("x", "exp_2"):
        text = f'LiteRT takes no buffers of the plugin for tensor "{name}" (status 3), so it goes'
        assert done.stderr.count(text) == 2  # once for each model
