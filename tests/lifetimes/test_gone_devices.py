"""A device is lost while nothing runs, as after a driver reset: tests each way to use it next, in a
new process whose exit status counts. wgpu ends a process that submits to such a device."""

from __future__ import annotations

import pytest

from conformance import host as hosts
from tests.lifetimes.test_lifetimes import PRELUDE
from tests.support.subprocesses import run_python

HOSTS = hosts.installed()
pytestmark = pytest.mark.adapter

GO = """
def go():
    from tflgpu_plugin import native
    from tflgpu_plugin.runtime import adapter
    native.lib.tg_device_destroy(adapter.open_device(adapter.select(None)).handle)
def either(work):                          # right, on the host's kernels perhaps, or the sentence
    try: work()
    except AssertionError: raise
    except Exception as error: text = str(error)
    else: return
    assert "the gpu device was lost; make a new" in text.lower(), text
"""

TFLITE = {
    "released": "del i; gc.collect()",
    "released while another thread has the device": """
stop = []
def busy():
    while not stop: make(load_delegate("tflgpu"))
thread = threading.Thread(target=busy); thread.start()
del i; gc.collect(); stop.append(True); thread.join()
""",
    "run": "either(lambda: check(i)); either(lambda: check(i)); del i; gc.collect()",
    "given another shape": """
i.resize_tensor_input(0, (1, 7, 5, 3)); i.allocate_tensors()
either(lambda: check(i, np.ones((1, 7, 5, 3), np.float32)))
""",
    "shared by its delegate": "j = make(d); check(j)",
    "beside a new delegate": "check(make(load_delegate('tflgpu'))); either(lambda: check(i))",
    "gone twice": "make(load_delegate('tflgpu')); go(); del i; gc.collect()",
    "until the process exits": "sys.exit(0)",
}
ORT = {
    "released": "del s; gc.collect()",
    "run": "either(lambda: right(s)); either(lambda: right(s)); del s; gc.collect()",
    "given another shape": "either(lambda: right(s, np.ones((1, 3, 18, 16), np.float32)))",
    "beside a new session": "check(m.session(model)); either(lambda: right(s))",
    "until the process exits": "sys.exit(0)",
}


@pytest.mark.parametrize("runs", [0, 1, 4])  # from the second on, commands are prepared
@pytest.mark.parametrize("case", TFLITE)
@pytest.mark.skipif(not HOSTS, reason="no TFLite host: pip install -e .[tflite]")
def test_an_interpreter_whose_device_is_gone(case: str, runs: int) -> None:
    host = HOSTS[runs % len(HOSTS)]
    prelude = PRELUDE.format(host=host, resolver=hosts.KERNELS["default"]) + GO
    first = f"d = load_delegate('tflgpu'); i = make(d)\nfor _ in range({runs}): run(i)\ngo()\n"
    last = "\ncheck(make(load_delegate('tflgpu')))\n"
    mapping = {"TFLGPU_NO_MAPPING": "1"} if runs == 4 and len(case) % 2 else {}
    run_python(prelude + first + TFLITE[case] + last, **mapping)


@pytest.mark.parametrize("runs", [0, 4])
@pytest.mark.parametrize("case", ORT)
def test_a_session_whose_device_is_gone(case: str, runs: int) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    prelude = """
import gc, sys
import numpy as np
import onnxruntime as ort
from tests.support import onnx_models as m
import tflgpu_plugin
tflgpu_plugin.register()
model, X = m.convolutions(), np.ones((1, 3, 16, 16), np.float32)
cpu = ort.InferenceSession(model)
def run(s, x=X): return s.run(None, {"x": x})[0]
def right(s, x=X):
    np.testing.assert_allclose(run(s, x), run(cpu, x), atol=1e-4)
def check(s):
    right(s)
    tflgpu_plugin.assert_used(s)
"""
    first = f"s = m.session(model); s.disable_fallback()\nfor _ in range({runs}): run(s)\ngo()\n"
    run_python(prelude + GO + first + ORT[case] + "\ncheck(m.session(model))\n")


def test_a_lost_device_is_told_once() -> None:
    """Not again by each buffer of a session that ends."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    told = run_python(
        """
import gc
import numpy as np
import tflgpu_plugin
from tests.support import onnx_models as m
tflgpu_plugin.register()
sessions = [m.session(m.convolutions()) for _ in range(3)]
def run():
    for s in sessions: s.run(None, {"x": np.ones((1, 3, 16, 16), np.float32)})
for _ in range(4): run()
"""
        + GO
        + "go(); run(); sessions.clear(); gc.collect(); m.session(m.add_relu())\n"
    ).stderr
    assert told.count("The GPU device was lost.") == 1, told
    assert "no call expected" not in told, told
