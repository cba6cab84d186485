"""python -m benchmarks.startup MODEL: measures the stages of a start, for the four combinations of
our cache (serialization_dir) cold and warm with the driver's cache cold and warm.

Every figure is from fresh processes, with one process per combination in each round, and the median
over rounds. Where our cache is cold, the user's cache folder, which has rendered kernels and tuning
results, is empty as well. The driver's cache is Mesa's."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engine import ROOT, inherited
from tflgpu_plugin.harness import hosts

STAGES = ("open", "make", "first", "total", "cpu", "prepare", "keep")
CELLS = [(ours, driver) for ours in ("cold", "warm") for driver in ("cold", "warm")]


def run(given: argparse.Namespace, folder: Path, options: dict[str, str]) -> dict[str, Any]:
    """Runs one process, whose caches are in `folder`."""
    named = {"serialization_dir": str(folder / "ours"), "model_token": given.model.stem}
    environment = {
        "MESA_SHADER_CACHE_DIR": str(folder / "driver"),
        "XDG_CACHE_HOME": str(folder / "user"),
        "PYTHONPYCACHEPREFIX": str(folder.parent / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    command = [sys.executable, "-m", "benchmarks.startup_worker", given.host, str(given.model)]
    done = subprocess.run(
        [*command, json.dumps(named | options)],
        cwd=ROOT,
        env=inherited() | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(given: argparse.Namespace, folder: Path, options: dict[str, str]) -> dict[str, Any]:
    """Medians in milliseconds by cell and stage; what is kept must give the same bytes as the run
    that made it."""
    full = folder / "full"
    made = run(given, full, options)  # fills all caches, that of Python's bytecode among them
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(given.rounds):
        for cell in CELLS:
            work = folder / "work"
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(full, work)
            for name in ("ours", "user") if cell[0] == "cold" else ():
                shutil.rmtree(work / name)
            if cell[1] == "cold":
                shutil.rmtree(work / "driver")
            found.setdefault(f"{cell[0]} {cell[1]}", []).append(run(given, work, options))
    warm = [one for cell, runs in found.items() if cell.startswith("warm") for one in runs]
    if any(one["outputs"] != made["outputs"] for one in warm):
        sys.exit("A start from what was kept gave other outputs.")
    size = sum(path.stat().st_size for path in (full / "ours").iterdir())
    medians = {
        cell: {stage: median(one[stage] for one in runs) for stage in STAGES}
        for cell, runs in found.items()
    }
    show(given.model.name, options, size, medians)
    return {"kept_bytes": size, "cells": medians}


def show(
    name: str, options: dict[str, str], size: int, medians: dict[str, dict[str, float]]
) -> None:
    """Prints the cells as a Markdown table, and the two ratios that matter."""
    print(f"\n{name}, {options or 'no tuning'}; {size / 1e6:.1f} MB are kept\n")
    print("| our cache | driver's cache | " + " | ".join(f"{stage} ms" for stage in STAGES) + " |")
    print("|---" * (len(STAGES) + 2) + "|")
    for cell, times in medians.items():
        figures = " | ".join(f"{times[stage]:.0f}" for stage in STAGES)
        print(f"| {cell.replace(' ', ' | ')} | {figures} |")
    first, last = medians["cold cold"], medians["warm warm"]
    saved = 1 - last["prepare"] / medians["cold warm"]["prepare"]
    print(f"\nprepare falls by {saved:.1%} with the driver's cache warm;")
    print(f"both warm take {last['total'] / first['total']:.3f} of a first start's time.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("model", type=Path, help="a TFLite model")
    parser.add_argument("--host", default=next(iter(hosts.installed())), help="a TFLite host")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "startup.json")
    given = parser.parse_args()
    given.model = given.model.absolute()
    results = {}
    for name, options in (("plain", {}), ("tuned", {"inference_preference": "sustained_speed"})):
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure(given, Path(folder), options)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
