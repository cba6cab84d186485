"""Hosts and Python destroy objects in every order, each in a new process whose exit status counts.
A wrong order is a crash, not an exception."""

from __future__ import annotations

import pytest

from conformance import host as hosts
from tests.support.subprocesses import run_python

pytestmark = pytest.mark.adapter

PRELUDE = """
import ctypes, gc, os, sys, threading, time
import numpy as np
import tflgpu_plugin
from conformance import host as hosts
from tests.support import small_models
from {host}.interpreter import Interpreter, OpResolverType, load_delegate

MODEL = small_models.two_partitions()
X = np.ones((1, 6, 5, 3), np.float32)

def make(delegate, model=MODEL):
    resolver = OpResolverType.{resolver}
    interpreter = Interpreter(model_content=model, experimental_delegates=[delegate],
                              experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    return interpreter

def run(interpreter, x=X):
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy()

def expected(x=X):
    cpu = hosts.interpreter(MODEL, "{host}")
    cpu.resize_tensor_input(0, x.shape); cpu.allocate_tensors()
    return run(cpu, x)

def check(interpreter, x=X):
    np.testing.assert_allclose(run(interpreter, x), expected(x), atol=1e-5)
"""

CASES = {
    "the interpreter goes first": """
d = load_delegate("tflgpu"); i = make(d); check(i)
del i; gc.collect(); del d; gc.collect()
""",
    "the delegate is destroyed first": """
d = load_delegate("tflgpu"); i = make(d); check(i)
d.__del__()                                # what happens when both die in one cycle
check(i)                                   # the kernels hold what they need
del i; gc.collect()
d._delegate_ptr = None
""",
    "both in a reference cycle": """
class Holder: pass
h = Holder(); h.me = h; h.d = load_delegate("tflgpu"); h.i = make(h.d); check(h.i)
del h; gc.collect()
""",
    "module globals at exit": """
d = load_delegate("tflgpu"); i = make(d); check(i); me = sys.modules[__name__]
""",
    "module globals at exit, in a cycle": """
class Holder: pass
h = Holder(); h.me = h; h.d = load_delegate("tflgpu"); h.i = make(h.d); check(h.i)
""",
    "destroy of nothing": """
library = ctypes.PyDLL(tflgpu_plugin.get_library_path())
library.tflite_plugin_destroy_delegate.argtypes = [ctypes.c_void_p]
library.tflite_plugin_destroy_delegate(None)
""",
    "a delegate that is never used": """
d = load_delegate("tflgpu")
""",
    "one delegate in two interpreters": """
d = load_delegate("tflgpu"); a = make(d); b = make(d)
check(a); check(b, 2 * X); check(a)
assert len(tflgpu_plugin.report(d).partitions) == 4
del a; gc.collect(); check(b); del d; gc.collect(); check(b)
""",
    "many interpreters one after the other": """
for _ in range(12):
    i = make(load_delegate("tflgpu")); check(i)
from tflgpu_plugin.providers.tflite import delegates
load_delegate("tflgpu")
assert len(delegates.kept.partitions) <= 4, delegates.kept.partitions
assert len(delegates.kept.clients) <= 4, delegates.kept.clients
""",
    "a second prepare": """
d = load_delegate("tflgpu"); i = make(d); check(i)
i.allocate_tensors(); check(i)
for extent in (7, 6, 9):
    i.resize_tensor_input(0, (1, extent, 5, 3)); i.allocate_tensors()
    check(i, np.ones((1, extent, 5, 3), np.float32))
""",
    "a second prepare after another delegate was made": """
d = load_delegate("tflgpu"); i = make(d); check(i)
i.resize_tensor_input(0, (1, 7, 5, 3)); other = load_delegate("tflgpu")
i.allocate_tensors(); check(i, np.ones((1, 7, 5, 3), np.float32))
assert tflgpu_plugin.report(d).count("gpu") == 3
""",
    "delegates that are never used are forgotten": """
for _ in range(20):
    load_delegate("tflgpu"); gc.collect()
from tflgpu_plugin.providers.tflite import delegates
load_delegate("tflgpu")
assert len(delegates.kept.clients) <= 2, delegates.kept.clients
""",
    "a second prepare that fails leaves right answers": """
from tflgpu_plugin.providers.tflite import delegate as frontend
i = make(load_delegate("tflgpu")); check(i)
def fail(*_): raise RuntimeError("no")
frontend.place = fail                         # tflite-runtime prepares again beside XNNPACK
i.resize_tensor_input(0, (1, 7, 5, 3))
try:
    i.allocate_tensors()
except RuntimeError as error:
    assert "delegate == nullptr" in str(error)     # the host's own, and it works all the same
check(i, np.ones((1, 7, 5, 3), np.float32))
""",
    "invoke from another thread": """
d = load_delegate("tflgpu"); i = make(d); check(i); done = []
t = threading.Thread(target=lambda: done.append(run(i))); t.start(); t.join()
np.testing.assert_allclose(done[0], expected(), atol=1e-5)
""",
    "built, run and collected on three threads": """
failed = []
def work(number):
    try:
        for k in range(4):
            x = X * (number + k)
            i = make(load_delegate("tflgpu")); got = run(i, x); del i; gc.collect()
            np.testing.assert_allclose(got, expected(x), atol=1e-5 * max(1, number + k))
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not failed, failed
""",
    "exit during a run": """
d = load_delegate("tflgpu"); i = make(d); check(i)
def forever():
    while True:
        i.invoke()
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
""",
    "exit during a build": """
def forever():
    while True:
        make(load_delegate("tflgpu"))
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.7)
""",
    "a failed create": """
for _ in range(3):
    try:
        load_delegate("tflgpu", {{"nonsense": 1}})
    except ValueError as error:
        assert "no option 'nonsense'" in str(error)
    else:
        raise SystemExit("no error")
gc.collect(); check(make(load_delegate("tflgpu")))
""",
    "an exception in the middle of a model": """
d = load_delegate("tflgpu"); i = make(d)
try:
    i.set_tensor(0, np.ones((2, 2), np.float32))
except ValueError:
    pass
check(i)
""",
    "os._exit": """
d = load_delegate("tflgpu"); i = make(d); check(i); os._exit(0)
""",
    "a fork that does not touch it": """
d = load_delegate("tflgpu"); i = make(d); check(i)
pid = os.fork()
if not pid:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
check(i)
""",
    "a fork that does": """
d = load_delegate("tflgpu"); i = make(d); check(i)
pid = os.fork()
if not pid:
    try:
        run(i)
    except RuntimeError as error:
        said = "forked" in str(error)
    try:
        load_delegate("tflgpu")
    except ValueError as error:
        said = said and "forked" in str(error)
    del i, d; gc.collect()
    sys.exit(0 if said else 3)
assert os.waitpid(pid, 0)[1] == 0
check(i)
""",
    "a fork before first use": """
pid = os.fork()
check(make(load_delegate("tflgpu")))
if pid:
    assert os.waitpid(pid, 0)[1] == 0
""",
    "no memory is lost": """
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
d = load_delegate("tflgpu"); i = make(d)
for _ in range(50): run(i)
grown = []
for _ in range(3):  # the least growth: caches and arenas add to the others
    before = resident()
    for _ in range(2000): i.invoke()
    grown.append(resident() - before)
    if grown[-1] < 4 << 20: break
assert min(grown) < 4 << 20, grown
""",
}


# Scenarios that do not depend on the host run with one host.
ONCE = {
    "destroy of nothing", "a delegate that is never used", "many interpreters one after the other",
    "built, run and collected on three threads", "delegates that are never used are forgotten",
    "an exception in the middle of a model",
    "os._exit", "a fork before first use", "no memory is lost",
}  # fmt: skip
PAIRS = [(case, h) for case in CASES for h in hosts.installed()[: 1 if case in ONCE else None]]
# Where it counts who prepares, undoes and frees: also without the host's own delegate beside ours.
ALONE = (
    "the delegate is destroyed first", "both in a reference cycle", "module globals at exit",
    "one delegate in two interpreters", "a second prepare", "exit during a run",
    "a second prepare after another delegate was made", "invoke from another thread",
)  # fmt: skip
RUNS = [(case, h, "default") for case, h in PAIRS] + [
    (case, h, "reference") for case in ALONE for h in hosts.installed()
]


@pytest.mark.parametrize(("case", "host", "kernels"), RUNS)
def test_lifetime(case: str, host: str, kernels: str) -> None:
    prelude = PRELUDE.format(host=host, resolver=hosts.KERNELS[kernels])
    run_python(prelude + CASES[case].replace("{{", "{").replace("}}", "}"))
