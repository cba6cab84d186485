"""Memory on the device: reports tell what is held, weights of one model are held once, and what a
session or an interpreter held is returned when it is closed. Each case has its own process."""

from __future__ import annotations

import pytest

from conformance import host as hosts
from tests.support.subprocesses import run_python

pytestmark = pytest.mark.adapter

PRELUDE = """
import gc, threading
import numpy as np
import tflgpu_plugin
from tests.support import onnx_models as m
from tflgpu_plugin.frontend.records import process_memory

SIDE = 160
BYTES = 2 * 4 * SIDE * SIDE        # of weights
RANDOM = np.random.default_rng(0)
WEIGHTS = [RANDOM.standard_normal((SIDE, SIDE)).astype(np.float32) for _ in range(2)]

def dense(rows="n", weights=WEIGHTS):
    first, second = (m.node("MatMul", [a, f"w{k}"], [b]) for k, (a, b) in enumerate(("xt", "ty")))
    held = {f"w{k}": each for k, each in enumerate(weights)}
    return m.model([first, second], {"x": [rows, SIDE]}, {"y": [rows, SIDE]}, held)

def x(rows):
    return np.random.default_rng(rows).standard_normal((rows, SIDE)).astype(np.float32)

def check(session, rows, weights=WEIGHTS):
    (found,) = session.run(None, {"x": x(rows)})
    np.testing.assert_allclose(found, x(rows) @ weights[0] @ weights[1], atol=1e-2)

def weights():
    return process_memory().weights
"""

LITE = """
import gc
import numpy as np
import tflgpu_plugin
from conformance import host as hosts
from tests.support import small_models
from tflgpu_plugin.frontend.records import process_memory

def interpreter():
    delegate = hosts.load_delegate("{host}")
    made = hosts.interpreter(small_models.two_partitions(), "{host}",
                             experimental_delegates=[delegate])
    made.allocate_tensors()
    return made, delegate

def run(made, shape=(1, 6, 5, 3)):
    made.set_tensor(0, np.ones(shape, np.float32))
    made.invoke()
"""

SESSIONS = {
    "a session returns all it had": """
s = m.session(dense()); check(s, 4)
held = tflgpu_plugin.report(s)
assert held.memory.weights == BYTES == held.weight_bytes == held.process_memory.weights, held
assert held.memory.pools > 0 and held.memory.ports >= 2 * 4 * 4 * SIDE and held.memory.uniforms
for rows in (5, 6, 3, 16, 40, 41):
    check(s, rows)
del s; gc.collect()
assert process_memory().total == 0, process_memory()
""",
    "fixed shapes": """
s = m.session(dense(4)); check(s, 4)
assert process_memory().total > BYTES
del s; gc.collect()
assert process_memory().total == 0, process_memory()
""",
    "two sessions, closed in either order": """
for first, last in ((0, 1), (1, 0)):
    some = [m.session(dense()) for _ in range(2)]
    for k in range(2): check(some[k], 4)
    assert weights() == BYTES, process_memory()
    two = process_memory().total
    some[first] = None; gc.collect()
    assert weights() == BYTES < process_memory().total < two
    check(some[last], 4); check(some[last], 6)
    some.clear(); gc.collect()
    assert process_memory().total == 0, process_memory()
""",
    "models that differ in one of their weights share the other": """
other = [WEIGHTS[0], WEIGHTS[1] + 1]
a, b = m.session(dense()), m.session(dense(weights=other))
check(a, 4); check(b, 4, other)
assert weights() == BYTES * 3 // 2, process_memory()
""",
    "many shapes take the memory of the largest": """
s = m.session(dense())
for rows in (64, *range(20, 64)):
    check(s, rows)
one = process_memory()
for rows in (*range(63, 20, -1), *range(20, 64)):
    check(s, rows)
assert process_memory() == one, (one, process_memory())
""",
    "buffers that are too small are returned before larger ones are made": """
from tflgpu_plugin.runtime import program
made, most = program.create_buffer, []
def held():
    memory = process_memory()
    return memory.total - memory.tensors    # which belong to results of earlier runs
def create(*given):
    found = made(*given)
    most.append(held())
    return found
program.create_buffer = create
s = m.session(dense())
for rows in (400, 410, 2000, 8000):
    most.clear()
    check(s, rows)
    assert most and max(most) <= held(), (rows, most, process_memory())
""",
    "a shape that runs while buffers for a larger one are made": """
from tflgpu_plugin import engine
built, waits, goes = engine.Partition.built, threading.Event(), threading.Event()
def build(self, plan, *more):
    waits.set(); assert goes.wait(60)
    return built(self, plan, *more)
s = m.session(dense())
check(s, 400); check(s, 410)
engine.Partition.built = build
failed = []
def work(rows):
    try: check(s, rows)
    except BaseException as error: failed.append(error)
threads = [threading.Thread(target=work, args=(8000,))]
threads[0].start(); assert waits.wait(60)
threads += [threading.Thread(target=work, args=(rows,)) for rows in (410, 300, 400)]
[t.start() for t in threads[1:]]; goes.set(); [t.join() for t in threads]
engine.Partition.built = built
assert not failed, failed
(partition,) = tflgpu_plugin.report(s).partitions
assert (partition.runs, partition.host_runs, partition.failures) == (6, 0, 0), partition
""",
    "a shape that the device has no memory for leaves the others their plan": """
from tflgpu_plugin import engine, native
from tflgpu_plugin.runtime import program
made = program.create_buffer
def create(device, size, role):
    if size > 4 * SIDE * 5000: raise native.OutOfMemory("It is too large.")
    return made(device, size, role)
program.create_buffer = create
s = m.session(dense())
with engine.watch() as built:
    for rows in (400, 410, 8000, 8000, 410, 300, 4000, 3000, 9000, 4000, 420):
        check(s, rows)
(partition,) = tflgpu_plugin.report(s).partitions
assert (partition.runs, partition.host_runs) == (8, 3), partition
assert all(instance.plan.symbols for _, instance in built), built
assert len(built) <= 5, built
""",
    "sessions on several threads": """
import random
failed = []
def work(seed):
    chance = random.Random(seed)
    try:
        for _ in range(6):
            s = m.session(dense(chance.choice(("n", 4)))); check(s, 4); del s
            if chance.random() < 0.3: gc.collect()
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
gc.collect()
assert not failed, failed
assert process_memory().total == 0, process_memory()
""",
    "a lost device": """
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
device = adapter.open_device(adapter.select(None))
a = m.session(dense())
check(a, 4)
native.lib.tg_device_mark_lost(device.handle)
b = m.session(dense())
check(b, 4)                              # with weights of its own, on a new device
assert weights() == 2 * BYTES, process_memory()
del a; gc.collect()
assert weights() == BYTES
check(b, 6)
""",
}


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions(name: str) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    run_python(PRELUDE + SESSIONS[name])


INTERPRETERS = {
    "an interpreter and its delegate return all they had": """
made, delegate = interpreter(); run(made)
held = tflgpu_plugin.report(delegate)
assert held.memory.total == held.process_memory.total > held.weight_bytes > 0, held
del made, delegate; gc.collect()
assert process_memory().total == 0, process_memory()
""",
    "the delegate is destroyed first": """
made, delegate = interpreter(); run(made)
delegate.__del__(); delegate._delegate_ptr = None
assert process_memory().total > 0
run(made); del made; gc.collect()
assert process_memory().total == 0, process_memory()
""",
    "a delegate that is kept holds what it may be asked for again, until a report": """
made, delegate = interpreter(); run(made)
made.resize_tensor_input(0, (1, 7, 5, 3)); made.allocate_tensors()
run(made, (1, 7, 5, 3)); del made; gc.collect()
assert tflgpu_plugin.report(delegate).memory.total == 0 == process_memory().total
""",
    "two interpreters of one model hold its weights once": """
made, delegate = interpreter(); run(made)
weights, total = process_memory().weights, process_memory().total
others = [interpreter() for _ in range(2)]
for other, _ in others: run(other)
assert process_memory().weights == weights < total < process_memory().total
del made, delegate, other; gc.collect()
run(others[0][0]); others.clear(); _ = None; gc.collect()
assert process_memory().total == 0, process_memory()
""",
}


@pytest.mark.parametrize("name", INTERPRETERS)
@pytest.mark.parametrize("host", hosts.installed())
def test_interpreters(name: str, host: str) -> None:
    run_python(LITE.format(host=host) + INTERPRETERS[name])


def test_hosts_in_one_process_share_weights() -> None:
    """Their layers have the same weights, which each host's model stores in the same order."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    run_python(
        PRELUDE
        + """
from conformance import host as hosts
from conformance.models.tflite import Model

def interpreter(host):
    model = Model(); given = model.input("x", (4, SIDE))
    inputs = [given, model.constant(WEIGHTS[0]), model.constant(WEIGHTS[1][0])]
    model.output(model.op("FULLY_CONNECTED", inputs, "FullyConnectedOptions", {}, shape=(4, SIDE)))
    delegates = [hosts.load_delegate(host)]
    made = hosts.interpreter(model.to_bytes(), host, experimental_delegates=delegates)
    made.allocate_tensors()
    made.set_tensor(made.get_input_details()[0]["index"], x(4)); made.invoke()
    answers.append(made.get_tensor(made.get_output_details()[0]["index"]))
    return made, delegates

answers = []
made = [interpreter(host) for host in hosts.installed()]
held = weights()
assert BYTES / 2 < held < BYTES, process_memory()
layer = m.node("Gemm", ["x", "w", "b"], ["y"], transB=1)
shape, constants = [4, SIDE], {"w": WEIGHTS[0], "b": WEIGHTS[1][0]}
session = m.session(m.model([layer], {"x": shape}, {"y": shape}, constants))
answers += session.run(None, {"x": x(4)})
assert weights() == held, process_memory()
for answer in answers:
    np.testing.assert_allclose(answer, x(4) @ WEIGHTS[0].T + WEIGHTS[1][0], atol=1e-2)
del made; gc.collect()
assert weights() == held
"""
    )
