"""A thread that waits for the GPU lets others submit. A rebuilt library counts waits in wgpu,
during which nobody else can submit, and holds a waiting thread until another one has submitted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import sandbox

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler on Linux"
    ),
]

HOOKS = """
#include "core/internal.h"
static __typeof__(tgi_wgpu.DevicePoll) poll;
static __typeof__(tgi_wgpu.QueueSubmitForIndex) submit;
static __typeof__(tgi_wgpu.DeviceCreateBuffer) create;
static WGPUQueueWorkDoneCallbackInfo last;
static atomic_int waits, looks, submissions, buffers, holds, freed;

/* wgpu may call back when the next run is submitted: here it does so only when it is polled. */
static WGPUFuture when_polled(WGPUQueue queue, WGPUQueueWorkDoneCallbackInfo info) {
  last = info;
  return (WGPUFuture){0};
}

static WGPUBool counted_poll(WGPUDevice device, WGPUBool wait, WGPUSubmissionIndex const *index) {
  int before = atomic_load(&submissions);
  atomic_fetch_add(wait ? &waits : &looks, 1);
  if (!wait && atomic_exchange(&holds, 0)) {
    for (int k = 0; k < 60000 && atomic_load(&submissions) == before; k++) tgi_sleep(1000);
    atomic_store(&freed, atomic_load(&submissions) > before);
  }
  WGPUBool empty = poll(device, wait, index);
  WGPUStringView none = {0};
  if (last.callback)
    last.callback(WGPUQueueWorkDoneStatus_Success, none, last.userdata1, last.userdata2);
  return empty;
}

static WGPUSubmissionIndex counted_submit(WGPUQueue queue, size_t count,
                                          WGPUCommandBuffer const *commands) {
  WGPUSubmissionIndex index = submit(queue, count, commands);
  atomic_fetch_add(&submissions, 1);
  return index;
}

static WGPUBuffer counted_create(WGPUDevice device, WGPUBufferDescriptor const *descriptor) {
  atomic_fetch_add(&buffers, 1);
  return create(device, descriptor);
}

#define PUBLIC __attribute__((visibility("default")))
PUBLIC void tg_test_hook(void) {
  poll = tgi_wgpu.DevicePoll;
  submit = tgi_wgpu.QueueSubmitForIndex;
  create = tgi_wgpu.DeviceCreateBuffer;
  tgi_wgpu.DevicePoll = counted_poll;
  tgi_wgpu.QueueSubmitForIndex = counted_submit;
  tgi_wgpu.DeviceCreateBuffer = counted_create;
}
static WGPUFuture never(WGPUQueue queue, WGPUQueueWorkDoneCallbackInfo info) {
  return (WGPUFuture){0};
}

PUBLIC void tg_test_drop(void) {
  tgi_wgpu.QueueOnSubmittedWorkDone = never;
}
PUBLIC void tg_test_delay(void) {
  tgi_wgpu.QueueOnSubmittedWorkDone = when_polled;
}
PUBLIC int tg_test_waits(void) { return atomic_load(&waits); }
PUBLIC int tg_test_looks(void) { return atomic_load(&looks); }
PUBLIC int tg_test_submissions(void) { return atomic_load(&submissions); }
PUBLIC int tg_test_buffers(void) { return atomic_load(&buffers); }
PUBLIC void tg_test_hold(void) { atomic_store(&holds, 1); }
PUBLIC int tg_test_is_held(void) { return !atomic_load(&holds) && !atomic_load(&freed); }
PUBLIC int tg_test_is_freed(void) { return atomic_load(&freed); }
"""
HOOKED = """
import ctypes, sys, threading, time
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
handle = adapter.open_device(adapter.select(None)).handle
library = ctypes.CDLL(str(native.library_path()))
library.tg_test_hook()
def counts(): return [getattr(library, f"tg_test_{name}")() for name in KINDS]
def made(work, *arguments):
    before = counts()
    work(*arguments)
    return dict(zip(KINDS, (now - then for now, then in zip(counts(), before))))
KINDS = "waits", "looks", "submissions", "buffers"
def elsewhere(work, *arguments):
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    return thread
"""
HEAD = (
    HOOKED
    + """
from tests.native.test_runs import check, make
first, second = make(handle), make(handle)
"""
)
ALONE = """
for seed in range(40): check(first, seed)
for seed in range(5): assert made(check, first, seed)["waits"] == 1
"""
IN_TURNS = """
for seed in range(40):
    check(first, seed)
    elsewhere(check, second, seed + 1).join()
assert counts()[0] == 0
waits = [made(check, first, seed)["waits"] for seed in range(10)]
assert waits == [0] * 7 + [1] * 3, waits      # alone again
"""
GONE = """
check(first, 1)
elsewhere(check, second, 2).join()
library.tg_test_drop()
said = []
def refused():
    try: check(first, 3)
    except native.NativeError as error: said.append(str(error))
before = counts()[1]
waiting = elsewhere(refused)
while counts()[1] < before + 100: time.sleep(0.001)   # it sleeps as long as it ever does
native.lib.tg_device_destroy(handle)
waiting.join(100)
assert not waiting.is_alive() and "The GPU device was lost" in said[0], said
"""
HELD = """
check(first, 1)
elsewhere(check, second, 2).join()
library.tg_test_hold()
waiting = elsewhere(check, first, 3)
while not library.tg_test_is_held(): time.sleep(0.001)
check(second, 4)                              # while the other run is being waited for
waiting.join()
assert library.tg_test_is_freed()
"""
BOUND = (
    HOOKED
    + """
import numpy as np, onnxruntime as ort, tflgpu_plugin
from tests.support import onnx_models as m
tflgpu_plugin.register()
two = {"c": np.full(1, 2, np.float32)}
options = m.quiet()
options.intra_op_num_threads = 2              # run_async has one of them
double = m.model([m.node("Mul", ["x", "c"], ["y"])], {"x": ["n"]}, {"y": ["n"]}, two)
s = m.onnx.opened(double, options, {})
DATA = np.arange(3000, dtype=np.float32)
x = ort.OrtValue.ortvalue_from_numpy(DATA, "gpu")
ring = [ort.OrtValue.ortvalue_from_numpy(DATA, "gpu") for _ in range(3)]
def run(k):
    b = s.io_binding()
    b.bind_ortvalue_input("x", x)
    b.bind_ortvalue_output("y", ring[k])
    s.run_with_iobinding(b)
def read(k): assert np.array_equal(ring[k].numpy(), 2 * DATA)
NOTHING = dict.fromkeys(KINDS, 0)
"""
)
ASYNC = """
other, answers, done = m.session(m.add_relu()), [], threading.Event()
wanted = other.run(None, {"x": np.ones((2, 3, 5), np.float32)})[0]
s.run(None, {"x": DATA})
def answered(outputs, data, error):
    answers.append((outputs, error))
    done.set()
library.tg_test_hold()
s.run_async(None, {"x": DATA}, answered, None)
while not library.tg_test_is_held(): time.sleep(0.001)
assert np.array_equal(other.run(None, {"x": np.ones((2, 3, 5), np.float32)})[0], wanted)
assert done.wait(100)
((outputs, error),) = answers
assert not error and np.array_equal(outputs[0], 2 * DATA)
assert library.tg_test_is_freed()
"""
IN_FLIGHT = """
library.tg_test_delay()
for k in range(10): run(0)
read(0)
for k in range(2): assert made(run, k) == NOTHING | {"submissions": 1, "buffers": 1 + k}, k
assert made(run, 2)["waits"] == 1             # for the first one
"""
RING = """
for k in range(4): run(k % 2); read(k % 2)
run(0)
for k in range(1, 9):
    before = made(run, k % 2)
    assert before["submissions"] == 1 and not before["buffers"], before
    after = made(read, 1 - k % 2)             # while the newest run may not be done
    assert not after["submissions"] and not after["buffers"], after
read(0)
assert made(read, 0) == NOTHING               # it is in host memory
"""
UNREAD = """
for runs, submissions in (2, 0), (5, 0), (6, 1), (1, 0):
    for _ in range(2): run(0); read(0)
    for _ in range(runs): run(0)
    assert made(read, 0)["submissions"] == submissions, runs   # 1: nobody was expected to read it
run(0)
ring[0].update_inplace(DATA + 1)              # instead of reading it
assert np.array_equal(ring[0].numpy(), DATA + 1)
run(0)
read(0)
"""
TWO_READERS = """
library.tg_test_delay()
for _ in range(2): run(0); read(0)
elsewhere(run, 1).join()
run(0)
library.tg_test_hold()
values = []
first = elsewhere(lambda: values.append(ring[0].numpy()))
while not library.tg_test_is_held(): time.sleep(0.001)
second = elsewhere(lambda: values.append(ring[0].numpy()))
second.join(0.5)                              # it waits for the first one, as far as it gets
run(1)                                        # which goes on now
first.join()
second.join()
assert len(values) == 2 and all(np.array_equal(each, 2 * DATA) for each in values)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sandbox.rebuild(tmp_path_factory.mktemp("waiting"), added=HOOKS)


@pytest.mark.parametrize(
    "code", [ALONE, IN_TURNS, HELD, GONE], ids=["alone", "in turns", "held", "gone"]
)
def test_who_waits(tree: Path, code: str) -> None:
    passes(tree, HEAD + code)


def test_two_sessions_run_at_once(tree: Path) -> None:
    pytest.importorskip("onnxruntime")
    passes(tree, BOUND + ASYNC)


@pytest.mark.parametrize(
    "code",
    [IN_FLIGHT, RING, UNREAD, TWO_READERS],
    ids=["in flight", "ring", "unread", "two readers"],
)
def test_outputs_on_the_gpu_are_not_waited_for(tree: Path, code: str) -> None:
    """A run leaves them to their reader, who does not wait for later runs."""
    pytest.importorskip("onnxruntime")
    passes(tree, BOUND + code)


def passes(tree: Path, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin", "PYTHONPATH": str(tree), "LP_NUM_THREADS": "0"},
        cwd=sandbox.ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
