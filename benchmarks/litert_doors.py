"""Compares the ways to a GPU that ai-edge-litert has: an Interpreter with the delegate,
CompiledModel with this plugin's accelerator, and with `--own` that with the accelerator of the
package itself:

    python -m benchmarks.litert_doors MODEL... [--runs N] [--rounds N] [--newer] [--own]

Prints a table with the nodes on the GPU, the largest difference from the CPU's reference kernels as
a share of the largest value, and the time of the quickest run, from inputs to outputs. Each way has
its own process, and they take turns. `--newer` selects the newer lavapipe, which the package's own
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
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import compiled_models, peers
from tflgpu_plugin.harness import compare, hosts

CLASSIC, COMPILED, CLOSED, CPU = "Interpreter", "CompiledModel", "LiteRT's own", "CPU"
WAYS = (CLASSIC, COMPILED, CLOSED)


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


class Described:
    """A compiled model of which an interpreter on the CPU says what its outputs are."""

    def __init__(self, model: Any, described: Any) -> None:
        self.model, self.get_output_details = model, described.get_output_details


def opened(way: str, content: bytes, reference: Any) -> tuple[Callable[[], Any], str]:
    """Returns a run with seeded inputs, and which nodes are on the GPU."""
    import tflgpu_plugin

    feed = compiled_models.values(reference)
    if way == CPU:
        return compiled_models.interpreted(reference, feed), "0"
    if way == CLOSED:
        one: Any = Described(closed(content), reference)
        nodes = "all" if one.model.is_fully_accelerated() else "some"
    else:
        one = compiled_models.made(content, hosts.COMPILED if way == COMPILED else "ai-edge-litert")
        report = tflgpu_plugin.last_report()
        nodes = f"{report.count('gpu')} of {len(report.nodes)}" if report else "0"
    make = compiled_models.interpreted if way == CLASSIC else compiled_models.compiled
    return make(one, feed), nodes


def work(way: str, path: Path, runs: int, result: Path) -> None:
    content = path.read_bytes()
    host = hosts.host("ai-edge-litert")
    try:
        reference = host.interpreter(content, compare.REFERENCE)
    except hosts.Lacking:  # of custom operators that only XNNPACK has
        reference = host.interpreter(content)
    run, nodes = opened(way, content, reference)
    values: Any = run()
    values = [np.ravel(value) for value in values]
    begin = time.perf_counter()
    run()
    several = max(1, min(runs, int(2 / (time.perf_counter() - begin))))
    quickest = 0.0 if way == CPU else compiled_models.seconds(run, several)
    np.savez(result, *values)
    print(json.dumps({"nodes": nodes, "seconds": quickest}), flush=True)
    os._exit(0)  # what hosts say when they are torn down does not matter here


# ---- the table -----------------------------------------------------------------------------------


def asked(way: str, path: Path, runs: int, environment: dict[str, str]) -> tuple[Any, list[Any]]:
    """Returns what the process of a way says, and its outputs. Raises RuntimeError with the last
    line of its errors."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "outputs.npz"
        words = [sys.executable, "-m", __spec__.name, "--way", way, "--result", str(result)]
        done = subprocess.run(
            [*words, "--runs", str(runs), str(path)],
            env=os.environ | environment, capture_output=True, text=True,
        )  # fmt: skip
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            errors = [one for one in done.stderr.splitlines() if "rror" in one or "ERROR" in one]
            raise RuntimeError((errors or ["no output"])[-1].strip("└ "))
        with np.load(result) as found:
            return json.loads(lines[-1]), [found[name] for name in found.files]


def error(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Returns the largest difference as a share of the largest value of its output."""
    return max(
        float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0))
        / max(float(np.abs(b.astype(np.float64)).max(initial=0)), 1e-9)
        for a, b in zip(got, wanted, strict=True)
    )


def row(path: Path, given: argparse.Namespace, environment: dict[str, str]) -> tuple[str, bool]:
    """Returns the line of a model, and whether both ways of this plugin agree in all bits."""
    _, wanted = asked(CPU, path, 1, environment)
    cells: dict[str, str] = {}
    times, outputs = dict[str, float](), dict[str, list[Any]]()
    for _ in range(given.rounds):
        for way in given.ways:
            if way in cells and way not in times:
                continue
            try:
                said, outputs[way] = asked(way, path, given.runs, environment)
            except RuntimeError as failure:
                cells[way] = f"{str(failure)[:60]} | -"
                continue
            times[way] = min(said["seconds"], times.get(way, float("inf")))
            off = error(outputs[way], wanted)
            cells[way] = f"{said['nodes']}, {off:.1g} | {times[way] * 1e3:.3g} ms"
    agree = all(map(np.array_equal, outputs.get(CLASSIC, []), outputs.get(COMPILED, [])))
    ratio = times.get(CLOSED, float("nan")) / times.get(COMPILED, float("nan"))
    line = " | ".join((path.stem, *(cells[way] for way in given.ways)))
    if CLOSED in given.ways:
        line += f" | {ratio:.1f}"
    return f"| {line} | {'yes' if agree else 'NO'} |", agree


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.litert_doors", description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--newer", action="store_true")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--way", choices=(*WAYS, CPU), help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        work(given.way, given.models[0], given.runs, given.result)
    given.ways = WAYS if given.own else WAYS[:2]
    heads = [head for way in given.ways for head in (f"{way}: nodes, error", "time")]
    heads += ["own / ours"] if given.own else []
    print("|", " | ".join(("model", *heads, "same bits")), "|")
    print("|" + "---|" * (len(heads) + 2), flush=True)
    found = []
    environment = peers.newer_driver() if given.newer else {}
    for path in given.models:
        try:
            line, agree = row(path, given, environment)
        except RuntimeError as failure:  # the reference cannot run it
            line, agree = f"| {path.stem} | {failure} |", True
        print(line, flush=True)
        found.append(agree)
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
