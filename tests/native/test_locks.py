"""The device's lock is held around every wgpu call that needs it: builds for tests (`sandbox`)
define TGI_CHECK_LOCKS, with which such a call without the lock ends the process."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import sandbox
from tflgpu_plugin import native

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler on Linux"
    ),
]

UNLOCKED = """
#include "core/internal.h"
__attribute__((visibility("default"))) int tg_test_alive(tg_device *device, int locked) {
  if (locked) tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  int alive = !tgi_scope_end(device, mark, "A test", NULL);
  if (locked) tgi_device_unlock(device);
  return alive;
}
"""
CODE = """
import ctypes, sys
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
device = adapter.open_device(adapter.select(None)).handle
library = ctypes.CDLL(str(native.library_path()))
pointer = ctypes.c_void_p(int(native.ffi.cast("uintptr_t", device)))
print("alive", library.tg_test_alive(pointer, int(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sandbox.rebuild(tmp_path_factory.mktemp("locks"), added=UNLOCKED)


@pytest.mark.parametrize("locked", [True, False])
def test_a_call_without_the_lock_is_seen(tree: Path, locked: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(int(locked))],
        env={"PATH": "/usr/bin", "PYTHONPATH": str(tree)},
        cwd=sandbox.ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    if locked:
        assert (done.returncode, done.stdout) == (0, "alive 1\n"), done.stderr
    else:
        assert done.returncode < 0
        assert re.search(r"wgpu\w+ was called without the device's lock", done.stderr)


def test_calls_that_report_errors_need_the_lock() -> None:
    """Only calls that release or poll a device or get its queue are made without it."""
    text = Path(native.__file__).with_name("core").joinpath("internal.h").read_text()
    free = re.findall(r"\bF\((\w+)\)", text)
    kinds = r"(?:Device|Queue|Buffer|Command|ComputePass)\w*"
    assert {name for name in free if re.match(kinds, name) and "Release" not in name} == {
        "DeviceGetQueue",
        "DevicePoll",
    }
