"""A thread that waits for the GPU lets others submit. A rebuilt library counts waits in wgpu, in
which nobody else can submit, and holds a waiting thread until another one has submitted."""

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
static atomic_int waits, submissions, holds, freed;

static WGPUBool counted_poll(WGPUDevice device, WGPUBool wait, WGPUSubmissionIndex const *index) {
  int before = atomic_load(&submissions);
  if (wait) atomic_fetch_add(&waits, 1);
  else if (atomic_exchange(&holds, 0)) {
    for (int k = 0; k < 60000 && atomic_load(&submissions) == before; k++) tgi_sleep(1000);
    atomic_store(&freed, atomic_load(&submissions) > before);
  }
  return poll(device, wait, index);
}

static WGPUSubmissionIndex counted_submit(WGPUQueue queue, size_t count,
                                          WGPUCommandBuffer const *commands) {
  WGPUSubmissionIndex index = submit(queue, count, commands);
  atomic_fetch_add(&submissions, 1);
  return index;
}

#define PUBLIC __attribute__((visibility("default")))
PUBLIC void tg_test_hook(void) {
  poll = tgi_wgpu.DevicePoll;
  submit = tgi_wgpu.QueueSubmitForIndex;
  tgi_wgpu.DevicePoll = counted_poll;
  tgi_wgpu.QueueSubmitForIndex = counted_submit;
}
PUBLIC int tg_test_waits(void) { return atomic_exchange(&waits, 0); }
PUBLIC void tg_test_hold(void) { atomic_store(&holds, 1); }
PUBLIC int tg_test_is_held(void) { return !atomic_load(&holds) && !atomic_load(&freed); }
PUBLIC int tg_test_is_freed(void) { return atomic_load(&freed); }
"""
HEAD = """
import ctypes, sys, threading, time
from tests.native.test_runs import check, make
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
handle = adapter.open_device(adapter.select(None)).handle
first, second = make(handle), make(handle)
library = ctypes.CDLL(str(native.library_path()))
library.tg_test_hook()
def elsewhere(work, *arguments):
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    return thread
"""
ALONE = """
for seed in range(40): check(first, seed)
library.tg_test_waits()
for seed in range(5): check(first, seed)
assert library.tg_test_waits() == 5
"""
IN_TURNS = """
for seed in range(40):
    check(first, seed)
    elsewhere(check, second, seed + 1).join()
assert library.tg_test_waits() == 0
for seed in range(40): check(first, seed)     # alone again
assert library.tg_test_waits() > 0
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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sandbox.rebuild(tmp_path_factory.mktemp("waiting"), added=HOOKS)


@pytest.mark.parametrize("code", [ALONE, IN_TURNS, HELD], ids=["alone", "in turns", "held"])
def test_who_waits(tree: Path, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        env={"PATH": "/usr/bin", "PYTHONPATH": str(tree), "LP_NUM_THREADS": "0"},
        cwd=sandbox.ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
