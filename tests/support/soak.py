"""A short stress test: threads make sessions and interpreters, run new shapes and release them, all
at once; each answer is compared, and every model must be on the GPU.

`python -m tests.support.soak --seconds 300` prints the memory of the process at intervals, and ends
with status 1 for an error, a model that is not on the GPU or, with --flat, memory that keeps
growing."""

from __future__ import annotations

import argparse
import gc
import math
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import onnx_models as m

DEEP = 24  # features of the networks
WIDTHS = range(4, 40)  # of those that are made in turn
GROWTH = 0.05  # of the memory at half the time, which may come until the end
PAGE = os.sysconf("SC_PAGESIZE")


@dataclass
class Soak:
    """The work of the threads, and their failures."""

    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def repeat(self, work: Callable[[random.Random], str], seed: int, end: float) -> None:
        """Repeats the work in one thread until that time, whatever fails."""
        chance = random.Random(seed)
        while time.monotonic() < end:
            try:
                name, failed = work(chance), ""
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


def works() -> list[Callable[[random.Random], str]]:
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

    return [new_shapes, new_session, new_interpreter, of_one_delegate, new_kernels, large]


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
        threading.Thread(target=soak.repeat, args=(kinds[k % len(kinds)], k, end))
        for k in range(arguments.threads)
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
    for name, count in sorted(soak.done.items()):
        print(f"{count:7,} {name}")
    for text in dict.fromkeys(soak.errors[:5]):
        print(text)
    half = memory[len(memory) // 2]
    grown = arguments.flat and memory[-1] > half * (1 + GROWTH)
    if grown:
        print(f"memory grew from {half:.0f} to {memory[-1]:.0f} MB in the second half")
    return int(bool(soak.errors) or grown)


if __name__ == "__main__":
    sys.exit(main())
