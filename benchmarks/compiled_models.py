"""Times a run through LiteRT's CompiledModel against the same run through an Interpreter with the
delegate, in turns in one process:

    python -m benchmarks.compiled_models [MODEL ...] [--seconds N] [--parts]

A run writes the inputs, runs, and reads the outputs. Both ways take turns in short batches of
runs, of which the quickest counts, so that other work on the machine slows both. It prints medians
over many such rounds; both answers must be equal, bit for bit. Without models: MobileNet v1 and a
model of three nodes, whose run is little more than the host's work.

`--parts` also times what of the difference is LiteRT's own, without any accelerator: it puts a run
of a model on the CPU before each run of the Interpreter, with the same inputs and outputs and one
node for each output, once through CompiledModel and once through an Interpreter. The difference of
these two has the work of CompiledModel, and what it costs the run after it: code and data that are
in the processor's caches no longer."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conformance.models.tflite import Model
from tflgpu_plugin.demo import network
from tflgpu_plugin.harness import compiled as buffers, hosts
from tflgpu_plugin.ir import NUMPY_NAMES

FRONTENDS = (hosts.COMPILED, "ai-edge-litert")
BATCH = 5e-4  # seconds, at least one run
MIN_ROUNDS = 10
Work = Callable[[], object]


def made(content: bytes, name: str) -> Any:
    host = hosts.host(name)
    return host.interpreter(content, experimental_delegates=[host.delegate({"force": 1})])


def compiled(one: Any, feed: Sequence[Any]) -> Work:
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


def interpreted(one: Any, feed: Sequence[Any]) -> Work:
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


def seconds(work: Work, runs: int) -> float:
    """Returns the time of the quickest of these runs."""
    found = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def in_turns(works: Sequence[Work], length: float) -> Any:
    """Returns the time of the quickest run of each batch, as an array of rounds and works. A round
    has a batch of each work, with as many runs of each; all rounds take about `length` seconds."""
    quickest = min(seconds(work, 5) for work in works)
    rounds: list[list[float]] = []
    order = list(range(len(works)))
    end = time.perf_counter() + length
    while time.perf_counter() < end or len(rounds) < MIN_ROUNDS:
        runs = max(1, int(BATCH / quickest))
        times = [0.0] * len(works)
        for way in order:
            times[way] = seconds(works[way], runs)
        rounds.append(times)
        quickest = min(quickest, *times)
        order.reverse()
    return np.array(rounds)


# ---- what is LiteRT's own ------------------------------------------------------------------------


def bare(interpreter: Any) -> bytes:
    """Returns a model with the inputs and outputs of another, and one node for each output."""
    model = Model()
    for number, detail in enumerate(interpreter.get_input_details()):
        model.input(f"x{number}", detail["shape"], NUMPY_NAMES[np.dtype(detail["dtype"]).name])
    for detail in interpreter.get_output_details():
        shape, name = tuple(map(int, detail["shape"])), NUMPY_NAMES[np.dtype(detail["dtype"]).name]
        both = [model.constant(np.ones(shape, detail["dtype"]), dtype=name) for _ in range(2)]
        made = model.op("MAXIMUM", both, "MaximumMinimumOptions", {}, shape=shape, dtype=name)
        model.output(made)
    return model.to_bytes()


def bare_runs(interpreter: Any, feed: Sequence[Any]) -> tuple[Work, Work]:
    """Returns runs of such a model on LiteRT's CPU, through CompiledModel and an Interpreter."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    content = bare(interpreter)
    plain = hosts.host("ai-edge-litert").interpreter(content)
    plain.allocate_tensors()
    model = CompiledModel.from_buffer(content, hardware_accel=HardwareAccelerator.CPU)
    return compiled(Described(model, plain), feed), interpreted(plain, feed)


class Described:
    """A compiled model of which an interpreter says what its outputs are."""

    def __init__(self, model: Any, described: Any) -> None:
        self.model, self.get_output_details = model, described.get_output_details


def after(first: Work, then: Work) -> Work:
    def both() -> None:
        first()
        then()

    return both


# ---- a model -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Times:
    """Medians over rounds: seconds of a run both ways, their ratio, their difference, and what of
    that is LiteRT's own."""

    new: float
    old: float
    ratio: float
    more: float
    litert: float | None = None

    def __str__(self) -> str:
        text = (f"CompiledModel {self.new * 1e3:.3f} ms, Interpreter {self.old * 1e3:.3f} ms, "
                f"ratio {self.ratio:.3f}")  # fmt: skip
        if self.litert is None:
            return text
        ours = self.more - self.litert
        return (f"{text}; {self.more * 1e6:.1f} us more, of which LiteRT's own "
                f"{self.litert * 1e6:.1f} us, the plugin's {ours * 1e6:.1f} us "
                f"({100 * ours / self.old:.1f} % of the Interpreter's run)")  # fmt: skip


def measured(content: bytes, length: float, parts: bool = False) -> Times:
    """Times a model both ways for about this many seconds."""
    interpreters = [made(content, name) for name in FRONTENDS]
    feed = values(interpreters[0])
    answers = [hosts.invoked(one, feed) for one in interpreters]
    for got, wanted in zip(*answers, strict=True):
        np.testing.assert_array_equal(got, wanted)
    works: list[Work] = [compiled(interpreters[0], feed), interpreted(interpreters[1], feed)]
    if parts:
        works += [after(one, works[1]) for one in bare_runs(interpreters[1], feed)]
    times = in_turns(works, length)
    new, old = times[:, 0], times[:, 1]
    own = float(np.median(times[:, 2] - times[:, 3])) if parts else None
    middle = [float(np.median(one)) for one in (new, old, new / old, new - old)]
    return Times(middle[0], middle[1], middle[2], middle[3], own)


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
    parser.add_argument("--seconds", type=float, default=10, help="for each model")
    parser.add_argument("--parts", action="store_true", help="also what is LiteRT's own")
    given = parser.parse_args()
    for name, content in subjects(given.models).items():
        print(f"{name}: {measured(content, given.seconds, given.parts)}", flush=True)


if __name__ == "__main__":
    main()
