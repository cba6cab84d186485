"""python -m benchmarks.overlap: measures how far work of the host overlaps with runs on the GPU.

For each frame, a model runs on the GPU and the host then works on its output, about as long as the
run takes (or sleeps as long, as if it waited for a camera). Ways to do that, in turns:

waits    session.run with arrays, in one thread
ring     outputs bound on the GPU; the output of a frame is read after the next frame's run began
threads  two threads with session.run, each with half of the frames
async    session.run_async of the next frame, while the host works

Full overlap takes half of the time of `waits`. A software adapter needs a core of its own for that,
unless the host sleeps."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.planning import Model
from tflgpu_plugin.harness import onnx

Array = np.ndarray[Any, Any]
GPU = ("gpu", 0)


class Pipeline:
    """A session, frames, and work of the host on outputs."""

    def __init__(self, frames: int, sleeps: bool) -> None:
        model = Model()
        options = onnx.settings(True, logs=onnx.FATAL)
        options.intra_op_num_threads = 2  # run_async needs a thread, which must not spin on a core
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnx.opened(model.file(600).content, options, {})
        (self.output,) = (one.name for one in self.session.get_outputs())
        self.frames = list(
            np.random.default_rng(1).standard_normal((frames, 1, 16, 64), np.float32)
        )
        for _ in range(10):
            self.run(self.frames[0])
        seconds, data = _time(lambda: self.run(self.frames[0])), np.random.rand(5000)
        times = 0 if sleeps else round(seconds / _time(lambda: np.sort(data)))
        self.work: Callable[[], object] = (
            partial(time.sleep, seconds) if sleeps else partial(_sort, data, times)
        )

    def run(self, frame: Array) -> Array:
        made: Array = self.session.run(None, {"x": frame})[0]
        return made

    def host(self, output: Array) -> float:
        self.work()
        return float(output.sum())

    def waits(self) -> list[float]:
        return [self.host(self.run(frame)) for frame in self.frames]

    def ring(self) -> list[float]:
        bindings = [self.session.io_binding() for _ in range(2)]
        for binding in bindings:
            binding.bind_output(self.output, *GPU)
        found = []
        for k, frame in enumerate([*self.frames, None]):
            if frame is not None:
                bindings[k % 2].bind_cpu_input("x", frame)
                self.session.run_with_iobinding(bindings[k % 2])
            if k:
                found.append(self.host(bindings[(k - 1) % 2].get_outputs()[0].numpy()))
        return found

    def threads(self) -> list[float]:
        found = [0.0] * len(self.frames)

        def work(first: int) -> None:
            for k in range(first, len(self.frames), 2):
                found[k] = self.host(self.run(self.frames[k]))

        both = [threading.Thread(target=work, args=(first,)) for first in range(2)]
        for each in both:
            each.start()
        for each in both:
            each.join()
        return found

    def asynchronous(self) -> list[float]:
        answers: list[Array] = []
        done, found = threading.Semaphore(0), []

        def answered(outputs: list[Array], _: object, error: str) -> None:
            answers.extend(outputs)
            done.release()

        for frame in [*self.frames, None]:
            ready = answers.pop() if answers else None
            if frame is not None:
                self.session.run_async(None, {"x": frame}, answered, None)
            if ready is not None:
                found.append(self.host(ready))
            if frame is not None:
                done.acquire()
        return found


def _sort(data: Array, times: int) -> None:
    for _ in range(times):
        np.sort(data)


def _time(work: Callable[[], object]) -> float:
    times = []
    for _ in range(10):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def measured(pipeline: Pipeline, rounds: int) -> dict[str, list[float]]:
    """Returns milliseconds per frame of each way, one for each round."""
    ways = {"waits": pipeline.waits, "ring": pipeline.ring, "threads": pipeline.threads,
            "async": pipeline.asynchronous}  # fmt: skip
    wanted, times = pipeline.waits(), {name: list[float]() for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            found = way()
            times[name].append((time.perf_counter() - start) * 1e3 / len(wanted))
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sleep", action="store_true", help="the host sleeps")
    given = parser.parse_args()
    os.environ.setdefault("LP_NUM_THREADS", "0")
    times = measured(Pipeline(given.frames, given.sleep), given.rounds)
    print("| | median ms a frame | best | median by waits |\n|---|---|---|---|")
    for name, each in times.items():
        ratio = median(a / b for a, b in zip(each, times["waits"], strict=True))
        print(f"| {name} | {median(each):.2f} | {min(each):.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
