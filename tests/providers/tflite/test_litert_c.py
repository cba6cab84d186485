"""LiteRT's C functions, some of which its Python lacks, with our accelerator: runs that do not
wait, and buffers that are cleared."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.litert_models import MARKS
from tests.support.subprocesses import run_python

pytestmark = MARKS

ASYNCHRONOUS = """
import ctypes as c
import numpy as np
import tflgpu_plugin
from tests.providers.tflite.test_litert_buffers import OURS, exponential
from tflgpu_plugin.providers.tflite import litert

class Value(c.Structure):
    _fields_ = [("kind", c.c_int), ("text", c.c_char_p)]

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
option = Option(22, Value(8, litert.folder({{"force": "1"}}).encode()))
environment = made("Environment", 1, c.byref(option))
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
    array = np.ctypeslib.as_array(c.cast(at, c.POINTER(c.c_float)), (size.value // 4,))
    return array

for seed in range(4):
    x = np.random.default_rng(seed).uniform(-1, 1, size.value // 4).astype(np.float32)
    locked(buffers[0], 1)[:] = x
    call("UnlockTensorBuffer", buffers[0])
    for number, model in enumerate(models):
        waits = c.c_bool()
        pair = [(c.c_void_p * 1)(one) for one in buffers[number : number + 2]]
        call("RunCompiledModelAsync", model, c.c_size_t(0), c.c_size_t(1), pair[0], c.c_size_t(1),
             pair[1], c.byref(waits))
        assert not waits.value  # no event: whoever locks the buffer waits
    got = locked(buffers[2], 0).copy()
    call("UnlockTensorBuffer", buffers[2])
    np.testing.assert_allclose(got, np.exp(-np.exp(-np.abs(x))), rtol=1e-6)
call("ClearTensorBuffer", buffers[2])
assert not locked(buffers[2], 0).any()
call("UnlockTensorBuffer", buffers[2])
(second,) = tflgpu_plugin.last_report().partitions
print(second.runs, second.uploaded_bytes, second.device_inputs)
for buffer in buffers:
    library.LiteRtDestroyTensorBuffer(buffer)
for model in models:
    library.LiteRtDestroyCompiledModel(model)
"""


def test_asynchronous_runs_and_cleared_buffers() -> None:
    package = importlib.util.find_spec("ai_edge_litert")
    assert package is not None and package.origin is not None
    library = Path(package.origin).parent / "libLiteRt.so"
    if not library.exists():
        pytest.skip("ai-edge-litert has no library of C functions here")
    said = run_python(ASYNCHRONOUS.format(library=str(library))).stdout
    assert said.split() == ["4", "0", "4"]
