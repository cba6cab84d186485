"""Prints the real models as a table: `python -m conformance.models_table [PART OF A NAME]`.

Columns: nodes on the GPU and in all, islands, largest error against the reference kernels (relative
to the output's largest magnitude), the host's default CPU kernels and ours in milliseconds (median
of interleaved runs).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("LP_NUM_THREADS", "2")

from conformance import (
    host,
    model_inputs,
    real_models,
)

HEADER = ("model", "GPU / nodes", "islands", "largest error", "CPU ms", "ours ms")


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 1 when an answer is out of tolerance."""
    parser = argparse.ArgumentParser(prog="python -m conformance.models_table", description=__doc__)
    parser.add_argument(
        "name", nargs="?", default="", help="only models whose file name holds this"
    )
    parser.add_argument("--host", default=host.installed()[0])
    parser.add_argument("--adapter", default=None)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args(arguments)
    entries = [e for e in model_inputs.models() if chosen.name in str(e["file"])]
    if not entries:
        print("No models: ../shared is absent, or no file has that name.")
        return 0
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    return max(_row(entry, chosen) for entry in entries)


def _row(entry: Mapping[str, Any], chosen: argparse.Namespace) -> int:
    options = {"adapter": chosen.adapter} if chosen.adapter else {}
    outcome = real_models.compare(entry, chosen.host, options)
    place = outcome.placement
    cpu, ours = _times(entry, chosen.host, options, chosen.runs)
    worst = max(outcome.comparisons, key=lambda c: c.share)
    error = f"{worst.error:.1e}" + ("" if worst.share <= 1 else " FAIL")
    name, nodes = real_models.stem(entry), f"{place.on_gpu} / {place.total}"
    cells = (name, nodes, place.islands, error, f"{cpu:.1f}", f"{ours:.1f}")
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)
    return int(worst.share > 1)


def _times(
    entry: Mapping[str, Any], name: str, options: Mapping[str, Any], runs: int
) -> tuple[float, float]:
    """Medians in milliseconds of the default CPU kernels and of our delegate, run in turns after a
    warm-up."""
    content = model_inputs.path(entry).read_bytes()
    feed = next(iter(model_inputs.feeds(entry).values()))
    delegate = host.load_delegate(name, options)
    pair = (
        host.interpreter(content, name, "default"),
        host.interpreter(content, name, "default", experimental_delegates=[delegate]),
    )
    times: tuple[list[float], list[float]] = ([], [])
    for interpreter in pair:
        interpreter.allocate_tensors()
        host.invoke(interpreter, [feed])
    for _ in range(runs):
        for interpreter, spent in zip(pair, times, strict=True):
            start = time.perf_counter()
            host.invoke(interpreter, [feed])
            spent.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[0]), statistics.median(times[1])


if __name__ == "__main__":
    sys.exit(main())
