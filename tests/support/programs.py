"""Programs for tests that need a process of their own: the same few functions for every host."""

from __future__ import annotations

import importlib.util

from conformance import host as tflite_hosts
from tests.support.subprocesses import run_python

_ALL = """
import gc, os, signal, sys, threading, time
import numpy.testing
import numpy as np
import tflgpu_plugin
"""

_ONNXRUNTIME = """
import onnxruntime
from tests.support import onnx_models
onnxruntime.set_default_logger_severity(4)
MODEL, EP = onnx_models.convolutions(), onnx_models.EP
PLAN, SIZES = "plan", (16, 17, 18, 19)

def load():
    tflgpu_plugin.register()

def provider():
    from tflgpu_plugin.providers.onnxruntime import ep
    return ep

def made(load=load, **options):
    load()
    given = [(EP, options), "CPUExecutionProvider"]
    return onnxruntime.InferenceSession(MODEL, onnx_models.quiet(), providers=given)

def run(session, size=16):
    return session.run(None, {"x": np.ones((1, 3, size, 16), np.float32)})[0]

def expected(size=16):
    return run(onnxruntime.InferenceSession(MODEL, onnx_models.quiet()), size)

def report(session):
    return tflgpu_plugin.report(session)
"""

_TFLITE = """
from {host} import interpreter as host
from tests.support import small_models
MODEL = small_models.two_partitions()
PLAN, SIZES = "prepare", (6, 7, 8, 9)

def load(**options):
    return host.load_delegate("tflgpu", options)

def provider():
    from tflgpu_plugin.providers.tflite import delegate
    return delegate

def made(load=load, **options):
    delegate = load(**options)
    interpreter = host.Interpreter(
        model_content=MODEL, experimental_delegates=[delegate],
        experimental_op_resolver_type=host.OpResolverType.{resolver})
    interpreter.allocate_tensors()
    interpreter.delegate = delegate
    return interpreter

def run(interpreter, size=6):
    if interpreter.get_input_details()[0]["shape"][1] != size:
        interpreter.resize_tensor_input(0, (1, size, 5, 3))
        interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones((1, size, 5, 3), np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy()

def expected(size=6):
    cpu = host.Interpreter(
        model_content=MODEL, experimental_op_resolver_type=host.OpResolverType.{resolver})
    cpu.allocate_tensors()
    return run(cpu, size)

def report(interpreter):
    return tflgpu_plugin.report(interpreter.delegate)
"""

_CHECKS = """
def check(object, sizes=SIZES[:1]):
    for size in sizes:
        np.testing.assert_allclose(run(object, size), expected(size), atol=1e-4)
    found = report(object)
    assert found.count("gpu") >= 3 and not sum(one.failures for one in found.partitions), str(found)
"""


def hosts() -> list[str]:
    """Returns the installed TFLite hosts, and onnxruntime."""
    needed = ("onnxruntime", "onnx")
    there = all(importlib.util.find_spec(name) for name in needed)
    return tflite_hosts.installed() + ["onnxruntime"] * there


def run_program(host: str, code: str, before: str = "", status: int = 0) -> str:
    """Runs `code` with functions of this host: `load`, `made` (which runs MODEL), `run` and
    `expected` (by a size of the input), `report` and `check`; `before` is executed first. Returns
    what it prints."""
    given = {"host": host, "resolver": tflite_hosts.KERNELS["default"]}
    own = _ONNXRUNTIME if host == "onnxruntime" else _TFLITE.format(**given)
    done = run_python(before + _ALL + own + _CHECKS + code, status)
    return done.stdout + done.stderr
