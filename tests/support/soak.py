"""A short stress test: threads make sessions and interpreters, run new shapes and release them, all
at once; each answer is compared, and every model must be on the GPU.

`python -m tests.support.soak --seconds 300` prints the memory of the process at intervals, and ends
with status 1 for an error, a model that is not on the GPU or, with --flat, memory that keeps
growing."""

from __future__ import annotations

import argparse
import atexit
import gc
import math
import os
import queue
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import onnx_models as m
from tests.support.state_models import KINDS, Layers
from tflgpu_plugin.harness import onnx

DEEP = 24  # features of the networks
WIDTHS = range(4, 40)  # of those that are made in turn
Work = Callable[[random.Random], str]
GROWTH = 0.05  # of the memory at half the time, which may come until the end
PAGE = os.sysconf("SC_PAGESIZE")


@dataclass
class Soak:
    """The work of the threads, and their failures."""

    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def repeat(self, kinds: Sequence[Work], first: int, end: float) -> None:
        """Does all kinds of work in turn, the first one first, in one thread until that time,
        whatever fails."""
        chance = random.Random(first)
        for place in count(first):
            if time.monotonic() >= end:
                return
            try:
                name, failed = kinds[place % len(kinds)](chance), ""
            except BaseException:
                name, failed = "errors", traceback.format_exc()
            with self.lock:
                self.done[name] += 1
                self.errors += [failed] if failed else []


@cache
def _weights(width: int) -> Any:
    return np.random.default_rng(width).uniform(-1, 1, (DEEP, width)).astype(np.float32)


@cache
def network(width: int) -> bytes:
    """Returns an ONNX model y = softmax(relu(x @ w)), for any number of rows."""
    nodes = [
        m.node("MatMul", ["x", "w"], ["c"]),
        m.node("Relu", ["c"], ["r"]),
        m.node("Softmax", ["r"], ["y"]),
    ]
    return m.model(nodes, {"x": ["n", DEEP]}, {"y": ["n", width]}, {"w": _weights(width)})


@cache
def activations(width: int) -> bytes:
    """Returns a TFLite model y = logistic(tanh(x)), for any number of rows."""
    model = Model()
    x = model.input("x", (1, width), signature=(-1, width))
    turned = model.op("TANH", [x], shape=(1, width))
    model.output(model.op("LOGISTIC", [turned], shape=(1, width)))
    return model.to_bytes()


STEPS: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs,
    "Cos": np.cos,
    "Erf": np.vectorize(math.erf, otypes=[np.float32]),
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sin": np.sin,
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
}


def chain(steps: Sequence[str]) -> bytes:
    """Returns an ONNX model of these operators, one after the other: a kernel that hardly any other
    model has."""
    names = ["x", *(f"t{k}" for k in range(len(steps) - 1)), "y"]
    nodes = [m.node(op, [names[k]], [names[k + 1]]) for k, op in enumerate(steps)]
    return m.model(nodes, {"x": ["n", DEEP]}, {"y": ["n", DEEP]})


def session(width: int) -> Any:
    """Returns a session on the GPU. Raises AssertionError with the reasons."""
    made = m.session(network(width))
    tflgpu_plugin.assert_used(made)
    return made


def run_session(made: Any, rows: int, chance: random.Random) -> None:
    x = np.random.default_rng(chance.getrandbits(32)).uniform(-1, 1, (rows, DEEP))
    (found,) = made.run(None, {"x": x.astype(np.float32)})
    wanted = np.exp(np.maximum(x @ _weights(found.shape[1]), 0))
    np.testing.assert_allclose(found, wanted / wanted.sum(1, keepdims=True), atol=1e-4)


def interpreter(width: int, host: str, delegate: Any = None) -> Any:
    """Returns an interpreter on the GPU. Raises AssertionError with the report."""
    delegate = delegate or hosts.load_delegate(host, {"force": "1"})
    delegates = {"experimental_delegates": [delegate]}
    made = hosts.interpreter(activations(width), host, **delegates)
    made.allocate_tensors()
    report = tflgpu_plugin.report(delegate)
    assert report.count("cpu") == 0 < report.count("gpu"), str(report)
    return made


def run_interpreter(made: Any, rows: int, chance: random.Random) -> None:
    detail = made.get_input_details()[0]
    shape = (rows, detail["shape"][1])
    if tuple(detail["shape"]) != shape:
        made.resize_tensor_input(detail["index"], shape)
        made.allocate_tensors()
    x = np.random.default_rng(chance.getrandbits(32)).uniform(-1, 1, shape).astype(np.float32)
    made.set_tensor(detail["index"], x)
    made.invoke()
    found = made.get_tensor(made.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.tanh(x))), atol=1e-5)


def works() -> list[Work]:
    """Returns the kinds of work, which threads take in turn."""
    tflgpu_plugin.register()
    names = hosts.installed()
    served = session(8)
    given = {host: hosts.load_delegate(host, {"force": "1"}) for host in names}

    def new_shapes(chance: random.Random) -> str:
        run_session(served, chance.randint(1, 40), chance)
        return "runs of one session"

    def new_session(chance: random.Random) -> str:
        made = session(chance.choice(WIDTHS))
        for _ in range(3):
            run_session(made, chance.randint(1, 9), chance)
        return "sessions"

    def new_interpreter(chance: random.Random) -> str:
        host = chance.choice(names)
        made = interpreter(chance.choice(WIDTHS), host)
        for _ in range(3):
            run_interpreter(made, chance.randint(1, 9), chance)
        return f"interpreters of {host}"

    def of_one_delegate(chance: random.Random) -> str:
        host = chance.choice(names)
        run_interpreter(interpreter(chance.choice(WIDTHS), host, given[host]), 1, chance)
        return f"interpreters of one delegate of {host}"

    def new_kernels(chance: random.Random) -> str:
        steps = [chance.choice([*STEPS]) for _ in range(chance.randint(3, 6))]
        made, rows = m.session(chain(steps)), chance.randint(1, 9)
        tflgpu_plugin.assert_used(made)
        x = wanted = np.linspace(-1, 1, rows * DEEP, dtype=np.float32).reshape(rows, DEEP)
        for step in steps:
            wanted = STEPS[step](wanted)
        np.testing.assert_allclose(made.run(None, {"x": x})[0], wanted, atol=1e-4)
        return "sessions with kernels of their own"

    def large(chance: random.Random) -> str:
        size = chance.randint(24, 96)
        made = m.session(m.convolutions())
        x = np.ones((chance.randint(1, 8), 3, size, size), np.float32)
        (found,) = made.run(None, {"x": x})
        np.testing.assert_allclose(found.sum(1), 1, atol=1e-4)
        tflgpu_plugin.assert_used(made)
        return "sessions over large images"

    return [
        new_shapes,
        new_session,
        new_interpreter,
        of_one_delegate,
        new_kernels,
        large,
        *kept(),
        *filed(),
    ]


def kept() -> list[Work]:
    """Returns kinds of work with tensors and variables that stay on the device, and with runs that
    nobody waits for."""
    import onnxruntime

    adds = m.session(added())

    def tensors(chance: random.Random) -> str:
        x = np.arange(chance.choice((10, 1000, 3000)), dtype=np.float32)
        value, steps = onnxruntime.OrtValue.ortvalue_from_numpy(x, "gpu"), chance.randint(1, 9)
        for _ in range(steps):
            binding = adds.io_binding()
            binding.bind_ortvalue_input("x", value)
            binding.bind_output("y", "gpu")
            adds.run_with_iobinding(binding)
            (value,) = binding.get_outputs()
        np.testing.assert_array_equal(value.numpy(), x + 2 * steps)
        return "tensors on the device"

    def asynchronous(chance: random.Random) -> str:
        found: queue.SimpleQueue[Any] = queue.SimpleQueue()
        xs = [np.full(chance.randint(1, 50), n, np.float32) for n in range(4)]
        for x in xs:
            adds.run_async(None, {"x": x}, lambda *given: found.put(given), x)
        for _ in xs:
            results, x, error = found.get(timeout=100)
            assert not error, error
            np.testing.assert_array_equal(results[0], x + 2)
        return "runs at once of one thread"

    def states(chance: random.Random) -> str:
        host = chance.choice(hosts.installed())
        layers = Layers(chance.randint(0, 3)).grown(*chance.choice([*KINDS.values()]))
        model = layers.to_bytes()
        pair = [hosts.interpreter(model, host) for _ in range(2)]
        delegates = {"experimental_delegates": [hosts.load_delegate(host, {"force": "1"})]}
        pair[0] = hosts.interpreter(model, host, **delegates)
        for one in pair:
            one.allocate_tensors()
        for step in range(chance.randint(1, 5)):
            x = np.full((layers.batch, layers.units), 1 / (1 + step), np.float32)
            found, wanted = (hosts.invoke(one, [[x]])[0][0] for one in pair)
            np.testing.assert_allclose(found, wanted, atol=1e-5)
        for state in layers.states:
            found, wanted = (one.get_tensor(state) for one in pair)
            np.testing.assert_allclose(found, wanted, atol=1e-5)
        return "variables on the device"

    return [tensors, asynchronous, states]


def filed() -> list[Work]:
    """Returns kinds of work with plans in files."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)

    def stored(chance: random.Random) -> str:
        width = chance.choice(WIDTHS)
        options = {"serialization_dir": folder, "model_token": f"width {width % 3}"}
        made = m.session(network(width), **options)
        tflgpu_plugin.assert_used(made)
        for _ in range(3):
            run_session(made, chance.randint(1, 9), chance)
        return "sessions with stored plans"

    def compiled(chance: random.Random) -> str:
        place = Path(tempfile.mkdtemp(dir=folder))
        entries = {"ep.context_enable": "1", "ep.context_file_path": str(place / "made.onnx")}
        entries["ep.context_embed_mode"] = chance.choice("01")
        (place / "model.onnx").write_bytes(network(chance.choice(WIDTHS)))
        onnx.opened(str(place / "model.onnx"), m.quiet(**entries), {})
        made = onnx.opened(str(place / "made.onnx"), m.quiet(), {})
        for _ in range(3):
            run_session(made, chance.randint(1, 9), chance)
        tflgpu_plugin.assert_used(made)
        shutil.rmtree(place)
        return "compiled models"

    return [stored, compiled]


def added() -> bytes:
    """Returns an ONNX model y = x + 2, for any number of elements."""
    two = {"c": np.full(1, 2, np.float32)}
    return m.model([m.node("Add", ["x", "c"], ["y"])], {"x": ["n"]}, {"y": ["n"]}, two)


def resident() -> float:
    """Returns megabytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two lines")
    parser.add_argument("--flat", action="store_true", help="fail where memory goes on growing")
    parser.add_argument("--only", type=int, help="the number of the one kind of work")
    arguments = parser.parse_args()
    sys.setswitchinterval(1e-6)  # races become likely
    soak, kinds = Soak(), works()
    if arguments.only is not None:
        kinds = [kinds[arguments.only]]
    start = time.monotonic()
    end = start + arguments.seconds
    threads = [
        threading.Thread(target=soak.repeat, args=(kinds, k, end)) for k in range(arguments.threads)
    ]
    for thread in threads:
        thread.start()
    memory: list[float] = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(arguments.every, max(0.1, end - time.monotonic())))
        gc.collect()
        memory.append(resident())
        passed = time.monotonic() - start
        print(f"{passed:6.0f} s {memory[-1]:6.0f} MB {sum(soak.done.values()):7,} done", flush=True)
    for thread in threads:
        thread.join()
    for name, times in sorted(soak.done.items()):
        print(f"{times:7,} {name}")
    for text in dict.fromkeys(soak.errors[:5]):
        print(text)
    half = memory[len(memory) // 2]
    grown = arguments.flat and memory[-1] > half * (1 + GROWTH)
    if grown:
        print(f"memory grew from {half:.0f} to {memory[-1]:.0f} MB in the second half")
    return int(bool(soak.errors) or grown)


if __name__ == "__main__":
    sys.exit(main())
