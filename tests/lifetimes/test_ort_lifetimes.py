"""The onnxruntime frontend never crashes the process: exits, unregistering, forks, threads and
failures, each in a separate Python."""

from __future__ import annotations

import importlib.util

import pytest

from tests.support.measured import measured
from tests.support.subprocesses import run_python

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]

HEAD = """
import atexit, gc, os, sys, threading
import numpy as np, onnxruntime as ort, tflgpu_plugin
from tests.support import onnx_models as m
fixed, open_ = m.add_relu(), m.add_relu(["n", 3, 5])
x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 5)).astype(np.float32)
wanted = m.cpu(fixed).run(None, {"x": x})[0]
def right(s):
    assert np.array_equal(s.run(None, {"x": x})[0], wanted)
s = m.session(fixed)
right(s)
"""


def test_exit_with_a_live_session() -> None:
    done = run_python(HEAD + "print('end')")
    assert done.stdout.endswith("end\n")


def test_exit_with_a_session_in_a_cycle() -> None:
    run_python(HEAD + "loop = [s]; loop.append(loop); del s, loop")


def test_exit_while_another_thread_runs() -> None:
    """A run that is on the GPU when the process exits does not return. (Threads between two runs
    abort the process in onnxruntime itself, with the CPU provider, too.)"""
    run_python(
        HEAD
        + """
import time
w = np.ones((64, 64, 3, 3), np.float32)
slow = m.session(m.model([m.node("Conv", ["x", "w"], ["y"])], {"x": [1, 64, 300, 300]},
                         {"y": [1, 64, 298, 298]}, {"w": w}))
big = np.ones((1, 64, 300, 300), np.float32)
start = time.perf_counter(); slow.run(None, {"x": big}); took = time.perf_counter() - start
if took < 0.2: sys.exit()   # a GPU that is too fast for this test
threading.Thread(target=lambda: slow.run(None, {"x": big}), daemon=True).start()
time.sleep(took / 2)
"""
    )


def test_sys_exit_keeps_its_status() -> None:
    run_python(HEAD + "sys.exit(7)", status=7)


def test_unregister_with_a_live_session() -> None:
    """onnxruntime unmaps the library, but it stays loaded, and the session keeps working."""
    run_python(
        HEAD
        + """
ort.unregister_execution_provider_library("tflgpu")
right(s); del s; gc.collect(); print("end")
"""
    )


def test_unregister_at_exit_with_a_live_session() -> None:
    run_python(HEAD + "atexit.register(ort.unregister_execution_provider_library, 'tflgpu')")


def test_unregister_and_register_again() -> None:
    run_python(
        HEAD
        + """
for _ in range(3):
    ort.unregister_execution_provider_library("tflgpu")
    tflgpu_plugin.register()
    right(m.session(fixed))
right(s)
"""
    )


def test_sessions_run_in_threads_at_once() -> None:
    """Four threads share one session and each also has one, all on the same device."""
    run_python(
        HEAD
        + """
failed = []
def work(k):
    try:
        mine = m.session(open_ if k % 2 else fixed)
        for _ in range(40): right(s); right(mine)
    except BaseException as error: failed.append(error)
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not failed, failed
assert tflgpu_plugin.report(s).runs == 161
"""
    )


def test_sessions_come_and_go_while_others_run() -> None:
    run_python(
        HEAD
        + """
stop = threading.Event()
def work():
    while not stop.is_set(): right(s)
t = threading.Thread(target=work); t.start()
for _ in range(20): right(m.session(fixed)); gc.collect()
stop.set(); t.join()
"""
    )


def test_runs_after_a_lost_device_are_on_the_cpu_and_new_sessions_on_the_gpu() -> None:
    done = run_python(
        HEAD
        + """
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
device = adapter.open_device(adapter.select(None))
native.lib.tg_device_mark_lost(device.handle)
right(s)                  # by onnxruntime's own kernels
assert tflgpu_plugin.report(s).host_runs == 1
other = m.session(fixed)  # on a new device
right(other)
assert tflgpu_plugin.report(other).host_runs == 0
"""
    )
    assert "The GPU device was lost" in done.stderr


def test_shapes_that_cannot_be_planned_are_an_error() -> None:
    done = run_python(
        HEAD
        + """
filters = np.ones((2, 3, 3, 3), np.float32)
conv = [m.node("Conv", ["x", "filters"], ["y"])]
s = m.session(m.model(conv, {"x": (1, 3, "h", "w")}, {"y": None}, {"filters": filters}))
def fits(): assert np.all(s.run(None, {"x": np.ones((1, 3, 4, 5), np.float32)})[0] == 27)
fits()
for _ in range(2):
    try: s.run(None, {"x": np.ones((1, 3, 1, 5), np.float32)}); raise SystemExit("it ran")
    except Exception as error: print(error)
fits()
"""
    )
    assert done.stdout.count("Invalid input shape: {1,5}") == 2


def test_a_new_shape_after_python_is_gone() -> None:
    """Callbacks are cleared at exit: what would need one fails with a sentence. Exit handlers run
    newest first, so that this one runs after those of the package."""
    done = run_python(
        """
import atexit
atexit.register(lambda: late())
def late():
    try: s.run(None, {"x": np.zeros((9, 3, 5), np.float32)}); print("it ran")
    except Exception as error: print("late:", error)
"""
        + HEAD
        + "s = m.session(open_); right(s)"
    )
    assert "late: " in done.stdout and "Python side" in done.stdout


def test_a_session_made_at_exit_is_refused() -> None:
    """Exit handlers run newest first: this one runs after the frontend has closed."""
    run_python(
        """
import atexit, numpy as np
def late():
    import onnxruntime as ort
    from tests.support import onnx_models as m
    s = ort.InferenceSession(m.add_relu(), m.quiet(), providers=[m.EP])
    s.run(None, {"x": np.zeros((2, 3, 5), np.float32)})
    print(s.get_providers())
atexit.register(late)
import tflgpu_plugin; tflgpu_plugin.register()
"""
    )


def test_a_forked_child_gets_an_error() -> None:
    run_python(
        HEAD
        + """
child = os.fork()
if not child:
    try: s.run(None, {"x": x}); os._exit(1)
    except Exception as error: os._exit(0 if "fork" in str(error) else 2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
right(s)
"""
    )


@measured
def test_many_sessions_leave_nothing_behind() -> None:
    run_python(
        HEAD
        + """
import resource
def grown(n):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(n): right(m.session(fixed))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
grown(30)
assert grown(60) < 30_000, "kilobytes"
"""
    )
