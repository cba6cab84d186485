"""Times a run through LiteRT's CompiledModel against the same run through an Interpreter with the
delegate, in turns in one process:

    python -m benchmarks.compiled_models [MODEL ...] [--rounds N] [--runs N]

A run writes the inputs, runs, and reads the outputs. It prints the quickest times and the median of
the rounds' ratios, CompiledModel over Interpreter; both answers must be equal, bit for bit. Without
models: MobileNet v1 and a model of three nodes, whose run is little more than the host's work."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from conformance.models.tflite import Model
from tflgpu_plugin.demo import network
from tflgpu_plugin.harness import compiled as buffers, hosts

FRONTENDS = (hosts.COMPILED, "ai-edge-litert")


def made(content: bytes, name: str) -> Any:
    host = hosts.host(name)
    return host.interpreter(content, experimental_delegates=[host.delegate({"force": 1})])


def compiled(one: Any, feed: Sequence[Any]) -> Callable[[], object]:
    """Returns a run through buffers, as programs write it: without what makes a compiled model look
    like an interpreter."""
    model, outputs = one.model, one.get_output_details()
    given, taken = model.create_input_buffers(0), model.create_output_buffers(0)
    kinds = [(int(np.prod(out["shape"])), np.dtype(out["dtype"])) for out in outputs]
    sent = [buffers.as_taken(value) for value in feed]
    plain = all(kind.name in buffers.TAKEN for _, kind in kinds)

    def run() -> object:
        for buffer, value in zip(given, sent, strict=True):
            buffer.write(value)
        model.run_by_index(0, given, taken)
        if plain:
            return [buffer.read(*kind) for buffer, kind in zip(taken, kinds, strict=True)]
        return [buffers.read(buffer, *kind) for buffer, kind in zip(taken, kinds, strict=True)]

    return run


def interpreted(one: Any, feed: Sequence[Any]) -> Callable[[], object]:
    """Returns the same run of an interpreter."""
    given = [detail["index"] for detail in one.get_input_details()]
    taken = [detail["index"] for detail in one.get_output_details()]

    def run() -> object:
        for index, value in zip(given, feed, strict=True):
            one.set_tensor(index, value)
        one.invoke()
        return [one.get_tensor(index) for index in taken]

    return run


def values(interpreter: Any) -> list[Any]:
    """Returns seeded inputs: floats around 0, or small numbers that are indices of any table."""
    random = np.random.default_rng(0)
    return [
        random.uniform(-1, 1, one["shape"]).astype(one["dtype"])
        if np.dtype(one["dtype"]).kind == "f"
        else random.integers(0, 100, one["shape"]).astype(one["dtype"])
        for one in interpreter.get_input_details()
    ]


def seconds(work: Callable[[], object], runs: int) -> float:
    """Returns the time of the quickest of these runs."""
    found = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def measured(content: bytes, rounds: int, runs: int) -> tuple[float, float, float]:
    """Returns the quickest time of each, and the median of the rounds' ratios."""
    interpreters = [made(content, name) for name in FRONTENDS]
    feed = values(interpreters[0])
    answers = [hosts.invoked(one, feed) for one in interpreters]
    for got, wanted in zip(*answers, strict=True):
        np.testing.assert_array_equal(got, wanted)
    works = [compiled(interpreters[0], feed), interpreted(interpreters[1], feed)]
    times = []
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        pair = {way: seconds(works[way], runs) for way in order}
        times.append((pair[0], pair[1]))
    new, old = (min(column) for column in zip(*times, strict=True))
    return new, old, median(one / other for one, other in times)


def small() -> bytes:
    """Returns a model of three nodes."""
    model, shape = Model(), (1, 8, 8, 3)
    x = model.input("x", shape)
    for op in ("ABS", "NEG", "EXP"):
        x = model.op(op, [x], shape=shape)
    model.output(x)
    return model.to_bytes()


def subjects(paths: Sequence[Path]) -> dict[str, bytes]:
    if paths:
        return {path.name: path.read_bytes() for path in paths}
    demo = network.to_tflite(network.build())
    return {"MobileNet v1": demo, "three nodes": small()}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compiled_models", description=__doc__
    )
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5, help="of a round, of each")
    given = parser.parse_args()
    for name, content in subjects(given.models).items():
        new, old, ratio = measured(content, given.rounds, given.runs)
        print(f"{name}: CompiledModel {new * 1e3:.3f} ms, Interpreter {old * 1e3:.3f} ms, "
              f"ratio {ratio:.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
