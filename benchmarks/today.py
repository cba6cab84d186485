"""python -m benchmarks.today FOLDER: measures nine current networks, tiny and as published, in
onnxruntime: ours beside its WebGPU provider on the newer lavapipe, and its CPU provider for the
expected outputs.

Engines alternate; compare ratios, not single times. `make bench-today` writes the models first."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks import peers, tables
from benchmarks.engine import ROOT, Engine, Unavailable, Worker

SIZES = ("tiny", "published")
MIN_TURNS, MAX_TURNS = 5, 40  # turns of each engine
HEAD = ("network", "ours ms", "WebGPU ms", "ratio", "CPU ms", "our error", "WebGPU's error",
        "its nodes on the GPU")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Medians in milliseconds; errors against the CPU provider, of the largest value of an output;
    nodes that the WebGPU provider ran and all that were run in its session."""

    network: str
    ours: float
    webgpu: float
    cpu: float
    error: float
    webgpu_error: float
    taken: int
    nodes: int

    @property
    def ratio(self) -> float:
        """Returns WebGPU's time divided by ours."""
        return self.webgpu / self.ours


def measure(model: Path, folder: Path, seconds: float) -> Row:
    """Alternates single runs until this number of seconds is over. Raises Unavailable."""
    inputs, newer = model.with_suffix(".npz"), peers.newer_driver()
    theirs = peers.webgpu(model, inputs, False)
    parts = ("-m", "benchmarks.onnx_worker")
    commands = {
        "gpu": (sys.executable, *parts, "gpu", str(model), str(inputs)),
        "webgpu": theirs.command,
        "cpu": (sys.executable, *parts, "cpu", str(model), str(inputs)),
    }
    placed = _placed(theirs.command[0], model, inputs, newer)
    workers = {kind: Worker(Engine(command, newer), folder / f"{model.stem}-{kind}.npz")
               for kind, command in commands.items()}  # fmt: skip
    try:
        end = time.monotonic() + seconds
        for turn in range(MAX_TURNS):
            if turn >= MIN_TURNS and time.monotonic() > end:
                break
            for worker in workers.values():
                worker.run(1)
    finally:
        for worker in workers.values():
            worker.close()
    reference = workers["cpu"].outputs()
    ours, webgpu, cpu = (median(worker.times) for worker in workers.values())
    error, other = (tables.error(workers[k].outputs(), reference) for k in ("gpu", "webgpu"))
    taken = placed.get("WebGpuExecutionProvider", 0)
    return Row(model.stem, ours, webgpu, cpu, error, other, taken, sum(placed.values()))


def _placed(python: str, model: Path, inputs: Path, variables: dict[str, str]) -> dict[str, int]:
    """Returns the nodes that each provider ran."""
    command = [python, "-m", "benchmarks.onnx_placement", str(model), str(inputs)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables},
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        raise Unavailable(f"WebGPU does not run it: {done.stderr.strip().splitlines()[-1]}")
    return dict[str, int](json.loads(done.stdout.splitlines()[-1]))


def show(rows: Sequence[Row]) -> None:
    """Prints the table, and the ratios."""
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for row in rows:
        times = f"{row.ours:.1f} | {row.webgpu:.1f} | {row.ratio:.2f} | {row.cpu:.1f}"
        errors = f"{row.error:.1e} | {row.webgpu_error:.1e}"
        print(f"| {row.network} | {times} | {errors} | {row.taken} of {row.nodes} |")
    for size in (*SIZES, ""):
        if some := [row for row in rows if row.network.endswith(size)]:
            worst = min(some, key=lambda row: row.ratio)
            print(f"{size or 'all'}: geometric mean {mean([row.ratio for row in some]):.2f}, "
                  f"worst {worst.ratio:.2f} ({worst.network})")  # fmt: skip


def mean(ratios: Sequence[float]) -> float:
    """Returns the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.today", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[""], help="models whose name contains one")
    parser.add_argument("--seconds", type=float, default=20, help="of turns for each model")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in sorted(given.folder.resolve().glob("*.onnx"), key=lambda path: path.suffixes):
            if not any(part in model.name for part in given.only):
                continue
            try:
                rows.append(measure(model, Path(folder), given.seconds))
                print(f"{model.stem}: {rows[-1].ratio:.2f}", file=sys.stderr, flush=True)
            except Unavailable as error:
                print(f"NOT RUN: {model.stem}: {error}")
    show(rows)
    wrong = [row.network for row in rows if not row.error <= tables.WRONG]
    if wrong:
        print("WRONG: " + ", ".join(wrong))
    (ROOT / "build" / "today.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
