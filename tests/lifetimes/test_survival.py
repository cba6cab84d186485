"""Other events in a process: devices are lost, modules removed, threads fork, other interpreters
and copies of the package come and go. Each in a new process whose exit status counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.lifetimes.test_lifetimes import PRELUDE
from tests.support.subprocesses import run_python

HOSTS = hosts.installed()
RESOLVER = hosts.KERNELS["default"]
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not HOSTS, reason="no TFLite host: pip install -e .[tflite]"),
]

CASES = {
    # wgpu-native panics, which ends the process, so the device is checked first.
    "the device is destroyed while threads run and build": """
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
device = adapter.open_device(adapter.select(None))
ready, said, ended = [make(load_delegate("tflgpu")) for _ in range(3)], [], []
def repeat(work):
    try:
        while not ended: work()
    except Exception as error: said.append(str(error))  # a tensor that lay on the lost device
works = [lambda i=i: run(i) for i in ready] + [lambda: make(load_delegate("tflgpu"))]
threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
[t.start() for t in threads]; time.sleep(0.1)
native.lib.tg_device_destroy(device.handle)
time.sleep(1); ended.append(True); [t.join(20) for t in threads]
assert not any(t.is_alive() for t in threads)
assert all("GPU device was lost; make a new interpreter" in text for text in said), said
assert native.lib.tg_device_is_lost(device.handle)
del ready, works, threads; gc.collect()
check(make(load_delegate("tflgpu")))       # on a new device
""",
    "modules are purged with a live interpreter": """
i = make(load_delegate("tflgpu")); check(i)
first = tflgpu_plugin.load_delegate()
def purge():
    for name in [name for name in sys.modules if name.split(".")[0] == "tflgpu_plugin"]:
        del sys.modules[name]
del tflgpu_plugin; purge(); gc.collect(); gc.collect()
check(i)
i.resize_tensor_input(0, (1, 7, 5, 3)); i.allocate_tensors()
check(i, np.ones((1, 7, 5, 3), np.float32))
check(make(load_delegate("tflgpu")))
import tflgpu_plugin
again = load_delegate("tflgpu"); j = make(again); check(j)
assert tflgpu_plugin.report(again).count("gpu") == 3
try: tflgpu_plugin.report(first)
except TypeError: pass                     # never the report of another delegate
else: raise SystemExit("a report of what the modules before have made")
i.resize_tensor_input(0, (1, 8, 5, 3)); i.allocate_tensors()
check(i, np.ones((1, 8, 5, 3), np.float32))
""",
    "modules are emptied with a live interpreter": """
i = make(load_delegate("tflgpu")); check(i); wanted = expected(2 * X)
for name in [name for name in sys.modules if name.split(".")[0] == "tflgpu_plugin"]:
    sys.modules.pop(name).__dict__.clear()
gc.collect()
np.testing.assert_allclose(run(i, 2 * X), wanted, atol=1e-5)
for work in (lambda: load_delegate("tflgpu"), lambda: i.resize_tensor_input(0, (1, 7, 5, 3))):
    try: work()
    except Exception as error: print(error)
""",
    "Ctrl-C while the first delegate is made": """
from tflgpu_plugin import providers
find, calls = providers.find, []
def interrupted(name):
    calls.append(name)
    if len(calls) == 1: raise KeyboardInterrupt
    return find(name)
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
providers.find = interrupted
try:
    load_delegate("tflgpu"); time.sleep(5)
except KeyboardInterrupt: pass
else: raise SystemExit("it was not heard")
check(make(load_delegate("tflgpu")))
""",
    "another interpreter of Python imports the package and ends": """
try: import _interpreters as subs
except ImportError: import _xxsubinterpreters as subs
i = make(load_delegate("tflgpu")); check(i)
for _ in range(2):
    sub = subs.create()
    try: failed = subs.run_string(sub, "import tflgpu_plugin")
    except Exception as error: failed = error
    assert "main interpreter only" in str(failed) or "not support" in str(failed), failed
    subs.destroy(sub)
i.resize_tensor_input(0, (1, 7, 5, 3)); i.allocate_tensors()
check(i, np.ones((1, 7, 5, 3), np.float32)); check(make(load_delegate("tflgpu")))
""",
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("case", CASES)
def test_the_process_lives_on(case: str, host: str) -> None:
    run_python(PRELUDE.format(host=host, resolver=RESOLVER) + CASES[case])


def test_a_destroyed_device_whose_buffers_cannot_be_mapped() -> None:
    """Results go through staging buffers on such a device."""
    case = "the device is destroyed while threads run and build"
    run_python(
        PRELUDE.format(host=HOSTS[0], resolver=RESOLVER) + CASES[case], TFLGPU_NO_MAPPING="1"
    )


FORK = """
import os, sys, signal, threading, time
import tflgpu_plugin
from {host}.interpreter import Interpreter, load_delegate
from tests.support import small_models
model = small_models.two_partitions()
def first():
    delegate = {how}load_delegate("tflgpu")
    Interpreter(model_content=model, experimental_delegates=[delegate]).allocate_tensors()
thread = threading.Thread(target=first); thread.start()
modules = len(sys.modules)
while len(sys.modules) < modules + {imported}: time.sleep(0)
child = os.fork()
if not child:
    signal.alarm(20)
    try: first()
    except (ValueError, RuntimeError) as error: os._exit(0 if "forked" in str(error) else 3)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
thread.join(); first()
"""


@pytest.mark.parametrize("imported", [1, 20, 80])
@pytest.mark.parametrize("how", ["", "tflgpu_plugin."])
def test_a_fork_while_another_thread_makes_its_first_delegate(imported: int, how: str) -> None:
    """The child gets the sentence and does not wait for a lock that nobody releases. The host's own
    load_delegate loads a library before it calls us. If the fork happens during another library
    load, the C library ends the child (it does not support that), and another run must decide; our
    load_delegate checks first."""
    code = FORK.format(host=HOSTS[0], imported=imported, how=how)
    for _ in range(1 if how else 5):
        try:
            run_python(code)
        except AssertionError as error:
            if how or "Inconsistency detected by ld.so" not in str(error):
                raise
            continue
        return
    pytest.fail("Every fork fell into the loading of a library.")


def test_a_session_lives_on_without_its_modules() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    run_python("""
import gc, sys
import numpy as np
import onnxruntime as ort
from tests.support import onnx_models as m
import tflgpu_plugin
tflgpu_plugin.register()
model, x = m.convolutions(), [np.ones((1, 3, size, 16), np.float32) for size in (16, 17, 18)]
cpu = ort.InferenceSession(model)
def right(session):
    for value in x:
        ours, theirs = (one.run(None, {"x": value})[0] for one in (session, cpu))
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
session = m.session(model); before = session.run(None, {"x": x[0]})
for name in [name for name in sys.modules if name.split(".")[0] == "tflgpu_plugin"]:
    del sys.modules[name]
del tflgpu_plugin; gc.collect(); gc.collect()
right(session)                             # plans for two other shapes
right(m.session(model))
import tflgpu_plugin
tflgpu_plugin.register()
other = m.session(model); right(other); right(session)
tflgpu_plugin.assert_used(other)
""")


def test_a_second_copy_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """`load_delegate("tflgpu")` finds the first copy's library as long as the process lives."""
    package = tmp_path / "tflgpu_plugin"
    root = Path(str(tflgpu_plugin.__file__)).parent
    shutil.copytree(root, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in Path(tflgpu_plugin.get_library_path()).parent.glob("*.*"):
        shutil.copy(file, package / "native")
    run_python(f"""
import sys
import tflgpu_plugin
for name in [name for name in sys.modules if name.split(".")[0] == "tflgpu_plugin"]:
    del sys.modules[name]
sys.meta_path = [one for one in sys.meta_path if "ditable" not in type(one).__name__
                 and "skbc" not in type(one).__module__]
sys.path.insert(0, {str(tmp_path)!r})
try: import tflgpu_plugin
except ImportError as error: assert "another copy" in str(error) and {str(package)!r} in str(error)
else: raise SystemExit(tflgpu_plugin.__file__)
""")


@pytest.mark.parametrize("megabytes", [5, 20, 200])
def test_little_address_space_is_a_sentence(megabytes: int) -> None:
    """The address space is far too small for the driver; with a little more, the driver may crash
    for lack of memory."""
    run_python(f"""
import resource
import tflgpu_plugin
from {HOSTS[0]}.interpreter import load_delegate
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + ({megabytes} << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try: load_delegate("tflgpu")
except ValueError as error: assert "eport" not in str(error), error
else: raise SystemExit("it was made")
""")
