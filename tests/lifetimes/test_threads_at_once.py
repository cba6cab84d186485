"""Threads create sessions and interpreters and run new shapes: a sample of `make soak`."""

from __future__ import annotations

import pytest

from conformance import host as hosts
from tests.support.subprocesses import run_python

SOAK = """
import sys
from tests.support import soak
sys.argv[1:] = {arguments!r}
sys.exit(soak.main())
"""
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not hosts.installed(), reason="no TFLite host: pip install -e .[tflite]"),
]


def test_every_model_is_on_the_gpu_and_every_answer_right() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    said = run_python(SOAK.format(arguments=["--seconds", "5", "--every", "5"])).stdout
    for kind in ("sessions", "runs of one session", "interpreters of "):
        assert kind in said, said


def test_threads_that_load_one_model_share_its_weights() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    run_python("""
import sys
from concurrent.futures import ThreadPoolExecutor
import tflgpu_plugin
from tests.support import soak
from tflgpu_plugin.native import ffi, lib
tflgpu_plugin.register()
sys.setswitchinterval(1e-6)
def held():
    found = ffi.new("tg_memory *")
    lib.tg_memory_get(found)
    return found.bytes[lib.TG_WEIGHTS]
with ThreadPoolExecutor(8) as pool:
    sessions = list(pool.map(lambda _: soak.session(8), range(24)))
several = held()
assert several == tflgpu_plugin.report(sessions[0]).weight_bytes > 0, several
""")
