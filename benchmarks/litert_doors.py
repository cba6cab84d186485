"""Compares the ways to a GPU that ai-edge-litert has: an Interpreter with the delegate,
CompiledModel with this plugin's accelerator, and with `--own` that with the accelerator of the
package itself:

    python -m benchmarks.litert_doors MODEL... [--seconds N] [--newer] [--own]

Prints a table with the nodes on the GPU, the largest difference from the CPU's reference kernels as
a share of the largest value (also that of the CPU's default kernels), the time of the quickest run,
from inputs to outputs, and ratios of these times. Each way has its own process; all of a model take
turns in short batches of runs. `--newer` selects the newer lavapipe, which the package's own
accelerator needs. It fails where both of this plugin's ways differ in a bit."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import compiled_models, peers
from tflgpu_plugin.harness import compare, hosts

CLASSIC, COMPILED, CLOSED, CPU = "Interpreter", "CompiledModel", "LiteRT's own", "CPU"
WAYS = (CLASSIC, COMPILED, CLOSED)
BATCH = 2e-2  # seconds, at least one run
MIN_BATCHES = 5  # batches of each way


# ---- one way, in its own process -----------------------------------------------------------------


def closed(content: bytes) -> Any:
    """Returns a model with the accelerator that ai-edge-litert brings, exact as this plugin is."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.gpu_options import GpuOptions
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import Options

    chosen = Options(
        hardware_accelerators=HardwareAccelerator.GPU | HardwareAccelerator.CPU,
        gpu_options=GpuOptions(enforce_f32=True),
    )
    return CompiledModel.from_buffer(content, options=chosen)


def opened(way: str, content: bytes, reference: Any) -> tuple[Callable[[], Any], str]:
    """Returns a run with seeded inputs, and which nodes are on the GPU."""
    import tflgpu_plugin

    feed = compiled_models.values(reference)
    if way == CPU:
        return compiled_models.interpreted(reference, feed), "0"
    if way == CLOSED:
        one: Any = compiled_models.Described(closed(content), reference)
        nodes = "all" if one.model.is_fully_accelerated() else "some"
    else:
        one = compiled_models.made(content, hosts.COMPILED if way == COMPILED else "ai-edge-litert")
        report = tflgpu_plugin.last_report()
        nodes = f"{report.count('gpu')} of {len(report.nodes)}" if report else "0"
    make = compiled_models.interpreted if way == CLASSIC else compiled_models.compiled
    return make(one, feed), nodes


def spread(content: bytes, wanted: Sequence[Any]) -> float:
    """Returns the difference of the CPU's default kernels from these outputs."""
    other = hosts.host("ai-edge-litert").interpreter(content)
    other.allocate_tensors()
    return error(hosts.invoked(other, compiled_models.values(other)), wanted)


def work(way: str, path: Path, result: Path) -> None:
    """Says which nodes are on the GPU; then runs a batch for each line of its input, and says the
    seconds of the quickest run."""
    content = path.read_bytes()
    host = hosts.host("ai-edge-litert")
    try:
        reference = host.interpreter(content, compare.REFERENCE)
    except hosts.Lacking:  # of custom operators that only XNNPACK has
        reference = host.interpreter(content)
    run, nodes = opened(way, content, reference)
    values: list[Any] = run()
    np.savez(result, *(np.ravel(value) for value in values))
    print(
        json.dumps({"nodes": nodes, "spread": spread(content, values) if way == CPU else None}),
        flush=True,
    )
    runs = 0
    for _ in sys.stdin:
        runs = runs or max(1, int(BATCH / compiled_models.seconds(run, 1)))
        print(json.dumps({"seconds": compiled_models.seconds(run, runs)}), flush=True)
    os._exit(0)  # what hosts say when they are torn down does not matter here


# ---- the table -----------------------------------------------------------------------------------


class Worker:
    """The process of a way. Raises RuntimeError with the last line of its errors."""

    def __init__(self, way: str, path: Path, folder: Path, environment: dict[str, str]) -> None:
        result, self._errors = folder / f"{way}.npz", folder / f"{way}.txt"
        words = [sys.executable, "-m", __spec__.name, "--way", way, "--result", str(result)]
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [*words, str(path)], env=os.environ | environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        self.quickest = float("inf")
        try:
            said = self._answer()
            self.nodes, self.spread = said["nodes"], said["spread"]
        except RuntimeError:
            self.close()
            raise
        with np.load(result) as found:
            self.outputs = [found[name] for name in found.files]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # hosts say other things
                return dict[str, Any](json.loads(line))
        lines = self._errors.read_text().splitlines()
        errors = [one for one in lines if "rror" in one or "ERROR" in one]
        raise RuntimeError((errors or ["no output"])[-1].strip("└ "))

    def run(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.quickest = min(self.quickest, self._answer()["seconds"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def error(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Returns the largest difference as a share of the largest value of its output."""
    return max(
        float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0))
        / max(float(np.abs(b.astype(np.float64)).max(initial=0)), 1e-9)
        for a, b in zip(got, wanted, strict=True)
    )


def opened_all(
    path: Path, ways: Sequence[str], environment: dict[str, str], ends: ExitStack
) -> dict[str, Worker | str]:
    """Returns the worker of each way, or why there is none."""
    folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
    found: dict[str, Worker | str] = {}
    for way in ways:
        try:
            found[way] = worker = Worker(way, path, folder, environment)
            ends.callback(worker.close)
        except RuntimeError as failure:
            found[way] = str(failure)[:60]
    return found


def in_turns(workers: Sequence[Worker], length: float) -> None:
    end, rounds = time.perf_counter() + length, 0
    while time.perf_counter() < end or rounds < MIN_BATCHES:
        for worker in workers:
            worker.run()
        rounds += 1


def row(path: Path, given: argparse.Namespace, environment: dict[str, str]) -> tuple[str, bool]:
    """Returns the line of a model, and whether both ways of this plugin agree in all bits."""
    with ExitStack() as ends:
        wanted = opened_all(path, [CPU], environment, ends)[CPU]
        if isinstance(wanted, str):  # the reference cannot run it
            return f"| {path.stem} | {wanted} |", True
        found = opened_all(path, given.ways, environment, ends)
        workers = {way: one for way, one in found.items() if isinstance(one, Worker)}
        in_turns(list(workers.values()), given.seconds)
    cells = [path.stem, f"{wanted.spread:.1g}"]
    for way in given.ways:
        worker = found[way]
        if isinstance(worker, str):
            cells.append(f"{worker} | -")
            continue
        off = error(worker.outputs, wanted.outputs)
        cells.append(f"{worker.nodes}, {off:.1g} | {worker.quickest * 1e3:.3g} ms")
    for one, other in given.ratios:
        both = one in workers and other in workers
        cells.append(f"{workers[one].quickest / workers[other].quickest:.3g}" if both else "-")
    pair = [workers[way].outputs for way in (CLASSIC, COMPILED) if way in workers]
    agree = len(pair) < 2 or all(map(np.array_equal, *pair))
    return f"| {' | '.join(cells)} | {'yes' if agree else 'NO'} |", agree


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.litert_doors", description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=10, help="for each model")
    parser.add_argument("--newer", action="store_true")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--way", choices=(*WAYS, CPU), help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        work(given.way, given.models[0], given.result)
    given.ways = WAYS if given.own else WAYS[:2]
    given.ratios = [(COMPILED, CLASSIC)]
    given.ratios += [(CLOSED, CLASSIC), (CLOSED, COMPILED)] if given.own else []
    heads = [head for way in given.ways for head in (f"{way}: nodes, error", "time")]
    heads += [" / ".join(pair) for pair in given.ratios]
    print("|", " | ".join(("model", "CPU: error", *heads, "same bits")), "|")
    print("|" + "---|" * (len(heads) + 3), flush=True)
    found = []
    environment = peers.newer_driver() if given.newer else {}
    for path in given.models:
        line, agree = row(path, given, environment)
        print(line, flush=True)
        found.append(agree)
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
