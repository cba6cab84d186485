"""python -m benchmarks.batches: measures what `tflgpu run` costs beside a bare loop, on one worker,
several and Ray's; starts, and memory of each further worker.

The model is MobileNet v1 with seeded weights on pixels in one file, in batches of 32. Times are
those of all batches after the first, so that they include no start; the ways run alternately.
Beside the wall time there is the processor time of this process and all that it has started, which
other work on the machine does not change. Results must be equal, bit for bit. A start is that of a
process, from its creation to a model that is ready, with empty caches of plans, kernels and the
driver for the first one."""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.engine import ROOT
from tflgpu_plugin.batch import run
from tflgpu_plugin.batch.parts import NPZ, Folder
from tflgpu_plugin.batch.spec import BATCH, Spec
from tflgpu_plugin.batch.workers import Workers
from tflgpu_plugin.demo import network
from tflgpu_plugin.harness import hosts, inputs

SHAPE = (224, 224, 3)


@dataclass(frozen=True)
class Moment:
    """Seconds of wall time and of processor time."""

    passed: float
    spent: float

    def since(self, before: Moment, inputs: int) -> Moment:
        """Returns the seconds per input since `before`."""
        passed, spent = self.passed - before.passed, self.spent - before.spent
        return Moment(passed / inputs, spent / inputs)


def now() -> Moment:
    return Moment(time.perf_counter(), processor_seconds())


def processor_seconds() -> float:
    """Returns the CPU time of this process, and on Linux of its children."""
    if sys.platform != "linux":
        return time.process_time()
    parents, spent = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours, found = {os.getpid()}, 0
    while len(ours) != found:
        found = len(ours)
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    return sum(spent.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def bare_loop(model: Path, pixels: Path, folder: Path) -> Moment:
    """Runs each input in turn, as a program with one process and enough memory would."""
    runner = hosts.host()
    interpreter = runner.interpreter(model.read_bytes(), experimental_delegates=[runner.delegate()])
    given, found, begin = np.load(pixels, mmap_mode="r"), [], now()
    for place, one in enumerate(given):
        if place == BATCH:
            begin = now()
        value = inputs.values_of(one[None], np.dtype("f4"), 127.5, 127.5)
        found.append(hosts.invoked(interpreter, [value])[0][0])
    folder.mkdir()
    np.savez(folder / "all.npz", probabilities=np.stack(found))
    return now().since(begin, len(given) - BATCH)


def ours(model: Path, pixels: Path, folder: Path, **more: Any) -> Moment:
    """Returns the time per input from the end of the first batch to that of the last."""
    times: list[tuple[int, Moment]] = []

    def progress(done: int, _: int) -> None:
        times.append((done, now()))

    request = run.Request(Spec(model), [pixels], folder, **more)
    run.run(request, lambda line: None, progress)
    (first, begin), (last, end) = times[1], times[-1]
    return end.since(begin, last - first)


def overheads(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns medians, and for each way the median of its ratios to the loop of the same round."""
    model, pixels = folder / "mobilenet.tflite", folder / "pixels.npy"
    model.write_bytes(network.to_tflite(network.build()))
    np.save(pixels, np.random.default_rng(1).integers(0, 256, (given.inputs, *SHAPE), np.uint8))
    ways: dict[str, Callable[[Path], Moment]] = {
        "bare loop": lambda out: bare_loop(model, pixels, out),
        "--workers 1": lambda out: ours(model, pixels, out),
    }
    if given.workers:
        ways[f"--workers {given.workers}"] = lambda out: ours(
            model, pixels, out, workers=given.workers
        )
    if given.ray:
        ways["--ray --workers 1"] = lambda out: ours(model, pixels, out, ray="", workers=1)
    times: dict[str, list[Moment]] = {name: [] for name in ways}
    for turn in range(given.rounds):
        for name, way in ways.items():
            times[name].append(way(folder / f"{name}-{turn}"))
    same = _all_equal([folder / f"{name}-0" for name in ways][1:])
    loop = np.load(folder / "bare loop-0" / "all.npz")["probabilities"]
    parts = sorted((folder / "--workers 1-0").glob("part-*.npz"))
    same &= np.array_equal(loop, np.concatenate([np.load(path)["probabilities"] for path in parts]))
    rows = {}
    for name, taken in times.items():
        pairs = [*zip(taken, times["bare loop"], strict=True)]
        rows[name] = {
            "ms": median(one.passed for one in taken) * 1e3,
            "ratio": median(one.passed / loop.passed for one, loop in pairs),
            "processor ms": median(one.spent for one in taken) * 1e3,
            "processor ratio": median(one.spent / loop.spent for one, loop in pairs),
        }
    return {"ways": rows, "equal": bool(same)}


def _all_equal(folders: list[Path]) -> bool:
    names = sorted(path.name for path in folders[0].glob("part-*"))
    return all(filecmp.cmpfiles(folders[0], one, names, shallow=False)[0] == names
               for one in folders[1:])  # fmt: skip


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ |= variables
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def empty_caches() -> Iterator[None]:
    with (
        tempfile.TemporaryDirectory() as place,
        environment(XDG_CACHE_HOME=place, MESA_SHADER_CACHE_DIR=place),
    ):
        yield


def starts(model: Path, folder: Path, options: dict[str, str], times: int) -> dict[str, Any]:
    """Returns medians of seconds, and memory (the second worker's share of it, in MB), of two
    workers that start one after the other."""
    spec, firsts, seconds = Spec(model, options=options), [], []
    signature = spec.signature()

    def started(stack: contextlib.ExitStack) -> tuple[float, int]:
        begin = time.perf_counter()
        workers = Workers(spec, signature, Folder(folder, NPZ), [None], lambda line: None)
        stack.enter_context(workers)
        return time.perf_counter() - begin, workers.running[0].process.pid

    with contextlib.ExitStack() as stack:
        started(stack)  # leaves Python's bytecode, which an installed package has
    for _ in range(times):
        with empty_caches(), contextlib.ExitStack() as both:
            firsts.append(started(both)[0])
            second, process = started(both)
            memory = _share(process)
        seconds.append(second)
    first, second = median(firsts), median(seconds)
    return {"first s": first, "second s": second, "ratio": second / first, "MB": memory}


def keep_bytecode() -> None:
    """Starts again where Python writes no bytecode: an installed package has it."""
    if sys.flags.dont_write_bytecode:
        variables = {**os.environ, "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bytecode")}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "benchmarks.batches", *sys.argv[1:]]
        os.execve(sys.executable, command, variables)


def _share(pid: int) -> float | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0, help="another number of workers")
    parser.add_argument("--ray", action="store_true", help="with one worker on Ray")
    parser.add_argument("--starts", type=int, default=3, help="of each model, from empty caches")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="whose starts are timed")
    given = parser.parse_args()
    keep_bytecode()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if given.rounds:
            found |= overheads(given, folder)
            for name, row in found["ways"].items():
                shown = ", ".join(f"{key} {value:.3f}" for key, value in row.items())
                print(f"{name:<20} {shown}", flush=True)
            print(f"results equal, bit for bit: {'yes' if found['equal'] else 'NO'}")
        own = folder / "mobilenet.tflite"
        own.write_bytes(network.to_tflite(network.build()))
        found["starts"] = {}
        for model in (own, *given.models) if given.starts else ():
            for options in ({}, {"inference_preference": "sustained_speed"}):
                name = model.name + (", tuned" if options else "")
                row = found["starts"][name] = starts(
                    model, folder / "unused", options, given.starts
                )
                shown = ", ".join(f"{key} {value:.2f}" for key, value in row.items() if value)
                print(f"{name:<40} {shown}", flush=True)
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "batches.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
