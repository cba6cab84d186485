"""Ctrl-C, or the end of the process, while a session writes a compiled model: each file is whole,
and the next session writes it again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.subprocesses import HANGS, ROOT, run_python

pytestmark = pytest.mark.adapter
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

PRELUDE = """
import os, signal, sys, threading, time
from pathlib import Path
import numpy as np
from tests.support import onnx_models as m
from tflgpu_plugin.harness import onnx

folder = Path({folder!r})
model, made = folder / "model.onnx", folder / "made.onnx"
model.write_bytes(m.convolutions())
x = {{"x": np.ones((1, 3, 16, 16), np.float32)}}

def compile_it():
    made.unlink(missing_ok=True)
    entries = {{"enable": "1", "file_path": str(made), "embed_mode": "0"}}
    settings = m.quiet(**{{f"ep__context_{{name}}": value for name, value in entries.items()}})
    onnx.opened(str(model), settings, {{"force": "1"}})

def check():
    assert not [path for path in folder.iterdir() if path.suffix == ".part"]
    m.compare(onnx.opened(str(made), m.quiet(), {{}}), m.cpu(model.read_bytes()), x, 1e-4)
"""
HEARD = """
signal.signal(signal.SIGINT, signal.default_int_handler)
begin = time.monotonic()
compile_it(); check()
whole, heard = time.monotonic() - begin, 0
for part in (0.1, 0.3, 0.5, 0.7, 0.9):
    timer = threading.Timer(part * whole, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        compile_it()
        timer.join(); time.sleep(0.1)
    except KeyboardInterrupt:
        heard += 1
    try:
        timer.join()
    except KeyboardInterrupt:
        heard += 1
    if made.exists():
        check()
    compile_it(); check()
assert heard, "no interrupt was heard"
"""
PLANTED = """
compile_it(); check()
before = {path.name: path.read_bytes() for path in folder.glob("*.bin")}
open_it, calls = Path.open, []
class Interrupted:
    def __init__(self, stream): self.stream = stream
    def __enter__(self): return self
    def __exit__(self, *error): self.stream.close()
    def write(self, data):
        self.stream.write(data[: len(data) // 2])
        calls.append(1)
        raise OSError(28, "No space left on device")
Path.open = lambda self, mode="r", *more: Interrupted(open_it(self, mode, *more)) if mode == "xb" \\
    else open_it(self, mode, *more)
compile_it()
Path.open = open_it
assert calls and before == {path.name: path.read_bytes() for path in folder.glob("*.bin")}
compile_it(); check()
"""
ENDED = """
print("ready", flush=True)
while True:
    compile_it()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_while_a_model_is_compiled(tmp_path: Path) -> None:
    run_python(PRELUDE.format(folder=str(tmp_path)) + HEARD)


def test_a_write_that_fails_leaves_the_compiled_model(tmp_path: Path) -> None:
    run_python(PRELUDE.format(folder=str(tmp_path)) + PLANTED)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_process_that_ends_leaves_whole_files(tmp_path: Path) -> None:
    """SIGINT ends a process that has no handler for it at once, as other signals do."""
    code = PRELUDE.format(folder=str(tmp_path))
    ignored = "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    for delay in (0.05, 0.4):
        with subprocess.Popen(
            [sys.executable, "-c", code + ignored + ENDED], cwd=ROOT, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            assert process.wait(HANGS) == -signal.SIGINT
        for part in tmp_path.glob("*.part"):  # of a process that is gone
            part.unlink()
        run_python(code + "check() if made.exists() else None\ncompile_it(); check()")
