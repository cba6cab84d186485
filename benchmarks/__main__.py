"""python -m benchmarks: writes one table per model, a bar chart, and all figures as JSON, into
build/.

Engines run alternately, so that a busy machine slows all of them alike; compare ratios of medians,
not single times."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from benchmarks import chart, subjects, tables
from benchmarks.engine import ROOT, Unavailable, Worker, first_results
from benchmarks.networks import NETWORKS
from benchmarks.subjects import Subject
from benchmarks.tables import Row, show
from benchmarks.to_graph import to_graph
from conformance.models.real_models import DOCUMENTED
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.runtime import adapter


def measure(subject: Subject, given: argparse.Namespace, folder: Path) -> list[Row]:
    """Returns one row per engine for this model: the median time in steady state, the time to the
    first result, and the error against the first engine that runs on the CPU; or the reason why
    there are no times."""
    started: list[tuple[str, Worker, list[float]]] = []
    rows: dict[str, Row] = {name: Row(name) for name, _ in subject.makers}
    for number, (name, make) in enumerate(subject.makers):
        if given.engines and not any(part in name for part in given.engines):
            del rows[name]
            continue
        result = folder / f"{subject.name}-{number}.npz"
        try:
            engine = make()
            times = first_results(engine, result, given.cold) if given.cold else []
            Worker(engine, result).close()  # fills the driver's cache
            started.append((name, Worker(engine, result), times))
        except Unavailable as error:
            rows[name] = Row(name, reason=f"did not run: {error}")
    for _ in range(given.rounds):
        for _, worker, _ in started:
            worker.run(given.runs)
    reference = next((w.outputs() for _, w, _ in started if w.hello["device"] == "CPU"), None)
    for name, worker, times in started:
        worker.close()
        rows[name] = _row(name, worker, times, reference)
    return list(rows.values())


def _row(
    name: str, worker: Worker, times: list[float], reference: list[tables.Array] | None
) -> Row:
    name = name if "," in name else worker.hello["engine"]
    error = None if reference is None else tables.error(worker.outputs(), reference)
    if error is not None and not error <= tables.WRONG:
        reason = f"wrong answers: off by {error:.1e} of the largest value"
        return Row(name, reason=reason, error=error)
    return Row(
        name,
        device=worker.hello["device"],
        median_ms=median(worker.times),
        best_ms=min(worker.times),
        first_ms=worker.hello["first_ms"],
        cold_ms=median(times) if times else None,
        error=error,
    )


def plans(given: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Returns each network's plan on the default adapter: dispatches, with and without Winograd
    convolutions; bytes of pools, of all tensors in them, of those alive at once, and of weights."""
    found = {}
    target = adapter.open_device(adapter.select(None)).target
    direct = replace(target, tuning={"winograd_planes": "never", "winograd_rows": "never"})
    for name, build in NETWORKS.items():
        if _wanted(name, given):
            graph = to_graph(build())
            plan = compiler.compile(graph, target)
            counts = {"dispatches": len(plan.dispatches)}
            counts["without Winograd"] = len(compiler.compile(graph, direct).dispatches)
            sizes = {"pools": plan.bytes_of("pool"), "tensors": plan.tensor_bytes}
            sizes |= {"alive at once": plan.least_bytes, "weights": plan.bytes_of("weights")}
            found[name] = counts | sizes
            told = [f"{key} {value}" for key, value in counts.items()]
            told += [f"{key} {value / 1e6:.1f} MB" for key, value in sizes.items()]
            print(f"{name}: " + ", ".join(told))
    return found


def _wanted(name: str, given: argparse.Namespace) -> bool:
    """Whether the network is measured; the seeded networks are not where only models are named."""
    if given.networks is None:
        return not (given.models or given.documented)
    return not given.networks or any(part in name for part in given.networks)


def _subjects(given: argparse.Namespace, folder: Path) -> Iterator[Subject]:
    for name, build in NETWORKS.items():
        if _wanted(name, given):
            yield subjects.network(build(), folder)
    files = list(given.models)
    if given.documented:
        paths = (given.documented / f"{name}.tflite" for name in DOCUMENTED)
        files += [path for path in paths if path.exists()]
    for path in files:
        yield from subjects.file(path, folder)


def main() -> None:
    given = _arguments()
    results = {}
    with tempfile.TemporaryDirectory() as name:
        for subject in () if given.plans else _subjects(given, Path(name)):
            rows = measure(subject, given, Path(name))
            show(subject.name, rows)
            results[subject.name] = [asdict(row) for row in rows]
    planned = plans(given)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"times": results, "plans": planned}, indent=1))
    given.json.with_suffix(".svg").write_text(chart.bars(results))
    print(f"All figures are in {given.json}, the chart is beside it.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, help="further TFLite models with one input")
    parser.add_argument("--networks", nargs="*", metavar="PART", help="only these seeded networks")
    parser.add_argument("--engines", nargs="*", metavar="PART", help="only engines named so")
    parser.add_argument(
        "--documented", type=Path, metavar="DIR", help="measure the documentation's models in DIR"
    )
    parser.add_argument(
        "--plans", action="store_true", help="only count dispatches and bytes, run nothing"
    )
    parser.add_argument("--rounds", type=int, default=8, help="turns per engine")
    parser.add_argument("--runs", type=int, default=3, help="runs per turn")
    parser.add_argument(
        "--cold", type=int, default=3, help="fresh processes for the first result; 0: none"
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build" / "benchmark.json", help="where figures go"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
