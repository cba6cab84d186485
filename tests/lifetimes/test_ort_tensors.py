"""Tensors on the GPU that outlive their session, the library's registration, their device or the
process; each in a new process whose exit status counts."""

from __future__ import annotations

import sys

import pytest

from tests.support.subprocesses import run_python

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

HEAD = """
import gc, os, sys, threading
from dataclasses import replace
import numpy as np, onnxruntime as ort, tflgpu_plugin
from tests.support import onnx_models as m
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
DATA = np.arange(3000, dtype=np.float32)
def made(op="Mul"):
    two = {"c": np.full(1, 2, np.float32)}
    return m.session(m.model([m.node(op, ["x", "c"], ["y"])], {"x": ["n"]}, {"y": ["n"]}, two))
def run(s, x):
    b = s.io_binding(); b.bind_ortvalue_input("x", x); b.bind_output("y", "gpu")
    s.run_with_iobinding(b); return b.get_outputs()[0]
def same(a, b): assert np.array_equal(a, b), (a, b)
def device(): return adapter.open_device(adapter.select(None)).handle
def refused(work, *sentences):
    try: work()
    except Exception as error: text = str(error)
    else: raise SystemExit("it worked")
    assert any(sentence in text for sentence in sentences), text
    print(text)
s = made()
x = ort.OrtValue.ortvalue_from_numpy(DATA, "gpu")
y = run(s, x)
"""
CASES = {
    "the session goes first": "del s; gc.collect(); same(y.numpy(), 2 * DATA)",
    "a later session reads it": """
del s; gc.collect()
same(run(made("Add"), y).numpy(), 2 * DATA + 2)
""",
    "the tensor goes first": "del x, y; gc.collect(); same(s.run(None, {'x': DATA})[0], 2 * DATA)",
    "the process ends": "sys.exit(0)",
    "the process ends in a cycle": "s.keep = [y, s]; y.keep = s",
    "the library is unregistered before": """
del s; gc.collect()
ort.unregister_execution_provider_library("tflgpu")
refused(y.numpy, "opy")
del y; gc.collect()
""",
    "the library is registered again": """
del s; gc.collect()
ort.unregister_execution_provider_library("tflgpu")
tflgpu_plugin.register()
same(y.numpy(), 2 * DATA)
same(run(made(), y).numpy(), 4 * DATA)
""",
    "freed on another thread": """
held = [x, y]; del x, y
t = threading.Thread(target=held.clear); t.start(); t.join(); gc.collect()
same(s.run(None, {'x': DATA})[0], 2 * DATA)
""",
    "the device is lost": """
native.lib.tg_device_destroy(device())
refused(y.numpy, "The GPU device was lost")
other = made()                                 # on a new device
same(run(other, x).numpy(), 2 * DATA)          # x is in host memory, too
other.disable_fallback()
refused(lambda: run(other, y), "The GPU device was lost")
del y; gc.collect()
""",
    "the device is marked lost": """
native.lib.tg_device_mark_lost(device())
refused(y.numpy, "The GPU device was lost")
same(run(s, x).numpy(), 2 * DATA)              # on the host's own kernels
""",
    "two devices": """
first, select = device(), adapter.select
z = ort.OrtValue.ortvalue_from_numpy(DATA, "gpu")
for _ in range(3): run(s, z)                   # z is on the first device, too
adapter.select = lambda wanted=None: replace(select(wanted), index=7)
assert device() != first
other = made("Add")
same(run(other, y).numpy(), 2 * DATA + 2)      # through the CPU
same(run(other, z).numpy(), DATA + 2)
same(run(s, run(other, z)).numpy(), 2 * DATA + 4)
""",
}


# Two runs whose outputs are expected to be read, of which none is waited for.
IN_FLIGHT = """
y.numpy()
y, z = run(s, x), run(s, x)
"""


@pytest.mark.parametrize("case", CASES)
def test_a_tensor_outlives(case: str) -> None:
    run_python(HEAD + CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_a_tensor_in_flight_outlives(case: str) -> None:
    run_python(HEAD + IN_FLIGHT + CASES[case])


def test_a_tensor_in_flight_is_overwritten_and_freed() -> None:
    """A tensor is overwritten by the host, by a copy and by a run, and freed while a run uses it;
    the next tensor at its address is independent."""
    run_python(
        HEAD
        + IN_FLIGHT
        + """
y.update_inplace(DATA + 5)
same(y.numpy(), DATA + 5)
y, z = run(s, x), run(s, x)
b = s.io_binding(); b.bind_ortvalue_input("x", z); b.bind_ortvalue_output("y", z)
s.run_with_iobinding(b)
same(z.numpy(), 4 * DATA)
z = run(s, x); place = z.data_ptr(); del b, z; gc.collect()
z = ort.OrtValue.ortvalue_from_numpy(DATA + 7, "gpu")
assert z.data_ptr() == place
same(z.numpy(), DATA + 7)
same(y.numpy(), 2 * DATA)
"""
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_may_free_tensors_and_gets_a_sentence() -> None:
    done = run_python(
        HEAD
        + """
child = os.fork()
if not child:
    refused(y.numpy, "forked after the GPU was opened")
    del x, y; gc.collect(); sys.stdout.flush(); os._exit(0)
assert os.waitpid(child, 0)[1] == 0
same(y.numpy(), 2 * DATA)
"""
    )
    assert "forked" in done.stdout


def test_threads_make_bind_and_free_tensors_while_sessions_come_and_go() -> None:
    run_python(
        HEAD
        + """
failed = []
def work(k):
    try:
        mine = made("Add" if k % 2 else "Mul")
        for turn in range(30):
            z = run(mine, run(s, ort.OrtValue.ortvalue_from_numpy(DATA[: 100 + turn], "gpu")))
            wanted = 2 * DATA[: 100 + turn]
            same(z.numpy(), wanted + 2 if k % 2 else 2 * wanted)
            if turn % 10 == 0: del mine; gc.collect(); mine = made("Add" if k % 2 else "Mul")
    except BaseException as error: failed.append(error)
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not failed, failed
"""
    )


def test_another_provider_with_the_same_memory_is_left_alone() -> None:
    """A stand-in has the name of the WebGPU plugin, which offers no device without a GPU."""
    run_python(
        """
import numpy as np, onnxruntime as ort, tflgpu_plugin
from types import SimpleNamespace
from tests.support import onnx_models as m
real = ort.get_ep_devices
ort.get_ep_devices = lambda: [*real(), SimpleNamespace(ep_name="WebGpuExecutionProvider")]
tflgpu_plugin.register()
s, x = m.session(m.add_relu()), np.ones((2, 3, 5), np.float32)
wanted = s.run(None, {"x": x})[0]
tflgpu_plugin.assert_used(s)
try: ort.OrtValue.ortvalue_from_numpy(x, "gpu")
except RuntimeError as error: print(error)
else: raise SystemExit("there is memory")
b = s.io_binding(); b.bind_cpu_input("x", x); b.bind_output("y", "gpu"); s.run_with_iobinding(b)
assert np.array_equal(b.get_outputs()[0].numpy(), wanted)
"""
    )
