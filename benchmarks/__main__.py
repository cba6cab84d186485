"""python -m benchmarks: one table per model, and all figures in build/benchmark.json.

Engines take turns, so that a busy machine slows all of them alike; compare ratios of medians, not
single times.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import ncnn_model, peers
from benchmarks.engine import ROOT, Engine, Unavailable, Worker, first_result
from benchmarks.tables import Row, show
from tflgpu_plugin.demo import hosts, inputs, network

DOCUMENTED = (
    "mobilenet_v1_1.0_224_float_from_quant",
    "deeplabv3_257_mv_gpu",
    "posenet_mobilenet_v1_100_257x257_multi_kpt_float_from_quant",
    "ssd_mobilenet_v1_coco_float_from_quant",
)


@dataclass(frozen=True)
class Subject:
    """A model to measure: the TFLite file, its input, and how to get the peer's engine (or why
    there is none).
    """

    name: str
    model: Path
    source: Path
    peer: Callable[[], Engine]


def seeded(folder: Path) -> Subject:
    """The demo's MobileNet v1, with the same weights for every engine."""
    built = network.build()
    model, source = folder / "mobilenet_v1.tflite", folder / "mobilenet_v1.npy"
    model.write_bytes(network.to_tflite(built))
    np.save(source, network.picture())
    files = ncnn_model.write(built, folder)
    return Subject(
        "MobileNet v1 1.0 224, seeded weights", model, source, lambda: peers.ncnn(*files, source)
    )


def from_file(path: Path, folder: Path) -> Subject:
    """Any TFLite model with one input; seeded values go in."""

    def none() -> Engine:
        raise Unavailable("ncnn reads no TFLite files")

    host = hosts.host()
    details = host.module.Interpreter(model_path=str(path)).get_input_details()
    source = folder / f"{path.stem}.npy"
    np.save(source, inputs.make(details, None, 0.0, 1.0)[0])
    return Subject(path.stem, path, source, none)


def engines(subject: Subject) -> tuple[list[Engine], list[Row]]:
    """Engines to start, ours first, and rows for those that cannot be."""
    files = (str(subject.model), str(subject.source))
    worker = (sys.executable, "-m", "benchmarks.tflite_worker")
    found, missing = [], []
    for name in hosts.installed():
        found.append(Engine(f"tflgpu in {name}", (*worker, name, "gpu", *files)))
    for name in hosts.installed():
        found.append(Engine(f"{name} CPU", (*worker, name, "cpu", *files)))
    try:
        found.append(subject.peer())
    except Unavailable as error:
        missing.append(Row("ncnn Vulkan", reason=str(error)))
    return found, missing


def measure(subject: Subject, rounds: int, runs: int, cold: int, folder: Path) -> list[Row]:
    """Rows of the table for one model: steady medians, first results, agreement with the first CPU
    engine.
    """
    started, rows = [], []
    found, missing = engines(subject)
    for number, engine in enumerate(found):
        result = folder / f"{subject.model.stem}-{number}.npy"
        try:
            times = first_result(engine, result, cold) if cold else []
            started.append((Worker(engine, result), times))
        except Unavailable as error:
            missing.append(Row(engine.name, reason=str(error)))
    for _ in range(rounds):
        for worker, _times in started:
            worker.run(runs)
    reference = next((np.load(w.result) for w, _ in started if w.hello["device"] == "CPU"), None)
    for worker, times in started:
        worker.close()
        difference = (
            None if reference is None else float(np.abs(np.load(worker.result) - reference).max())
        )
        hello = worker.hello
        rows.append(
            Row(
                hello["engine"],
                device=hello["device"],
                median_ms=median(worker.times),
                best_ms=min(worker.times),
                first_ms=hello["first_ms"],
                cold_ms=median(times) if times else None,
                difference=difference,
            )
        )
    return rows + missing


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, help="further TFLite models with one input")
    parser.add_argument(
        "--documented", type=Path, metavar="DIR", help="measure the documentation's models in DIR"
    )
    parser.add_argument("--rounds", type=int, default=8, help="turns per engine")
    parser.add_argument("--runs", type=int, default=3, help="runs per turn")
    parser.add_argument(
        "--cold", type=int, default=3, help="fresh processes for the first result; 0: none"
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build" / "benchmark.json", help="where figures go"
    )
    given = parser.parse_args()
    files = list(given.models)
    if given.documented:
        files += [
            path for name in DOCUMENTED if (path := given.documented / f"{name}.tflite").exists()
        ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {}
        for subject in [seeded(folder), *(from_file(path, folder) for path in files)]:
            rows = measure(subject, given.rounds, given.runs, given.cold, folder)
            show(subject.name, rows)
            results[subject.name] = [asdict(row) for row in rows]
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=1))
    print(f"All figures are in {given.json}.")


if __name__ == "__main__":
    main()
