"""The real models as a table: `python -m conformance.models_table [--onnx | --quantized] [PART OF A
NAME]`.

Columns: nodes on the GPU and in all, partitions, largest error against the reference kernels and
what is allowed (relative to the output's largest magnitude; of the output that is nearest to its
bound), the host's default CPU kernels and ours in milliseconds (median of interleaved runs). With
--onnx the ONNX models, in ONNX Runtime; "f64" marks an error that was measured against float64.
With
--quantized the models in 16 and 8 bits, see `quantized_table`; with --half those in float32 with
values stored as float16, see `half_table`."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("LP_NUM_THREADS", "2")

from conformance import host
from conformance.host import Placement
from conformance.models import model_inputs, onnx_models, real_models
from conformance.models.real_models import Comparison
from conformance.variants import half_table, quantized_table

HEADER = ("model", "GPU / nodes", "partitions", "largest error / allowed", "CPU ms", "ours ms")
Run = Callable[[], object]


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 1 when an answer is out of tolerance."""
    parser = argparse.ArgumentParser(prog="python -m conformance.models_table", description=__doc__)
    parser.add_argument(
        "name", nargs="?", default="", help="only models whose file name holds this"
    )
    parser.add_argument("--onnx", action="store_true", help="the ONNX models, in ONNX Runtime")
    parser.add_argument("--quantized", action="store_true", help="models in 16 and 8 bits")
    parser.add_argument("--half", action="store_true", help="values stored as float16")
    parser.add_argument("--host", default=None, help="of TFLite models")
    parser.add_argument("--adapter", default=None)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args(arguments)
    if chosen.quantized:
        return quantized_table.show(chosen, _times)
    if chosen.half:
        return half_table.show(chosen, _times)
    listed = onnx_models.entries() if chosen.onnx else model_inputs.models()
    entries = [e for e in listed if chosen.name in str(e["file"])]
    if not entries:
        print("No models: ../shared is absent, or no file has that name.")
        return 0
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    return max((_onnx_row if chosen.onnx else _tflite_row)(entry, chosen) for entry in entries)


def _tflite_row(entry: Mapping[str, Any], chosen: argparse.Namespace) -> int:
    options = {"adapter": chosen.adapter} if chosen.adapter else {}
    content = model_inputs.path(entry).read_bytes()
    name = chosen.host or host.oracle(content)[0]
    outcome = real_models.compare(entry, name, options)
    feed = next(iter(model_inputs.feeds(entry).values()))
    delegate = host.load_delegate(name, options)
    pair = (
        host.interpreter(content, name, "default"),
        host.interpreter(content, name, "default", experimental_delegates=[delegate]),
    )
    for interpreter in pair:
        interpreter.allocate_tensors()
    cpu, ours = (lambda: host.invoke(pair[0], [feed])), (lambda: host.invoke(pair[1], [feed]))
    return _row(entry, outcome.placement, outcome.comparisons, _times([cpu, ours], chosen.runs))


def _onnx_row(entry: Mapping[str, Any], chosen: argparse.Namespace) -> int:
    outcome = onnx_models.compare(entry, chosen.adapter)
    path = model_inputs.path(entry)
    cpu, ours = onnx_models.session(path), onnx_models.ours(path, chosen.adapter)
    feed = next(iter(onnx_models.feeds(entry).values()))
    times = _times([lambda: cpu.run(None, feed), lambda: ours.run(None, feed)], chosen.runs)
    return _row(entry, outcome.placement, outcome.comparisons, times)


def _row(entry: Mapping[str, Any], place: Placement, comparisons: list[Comparison],
         times: list[float]) -> int:  # fmt: skip
    worst = max(comparisons, key=lambda c: c.share)
    error = f"{worst.error:.1e} / {worst.error / worst.share if worst.share else 0:.1e}"
    error += " f64" * ("float64" in worst.feed) + " FAIL" * (not worst.share <= 1)
    name, nodes = real_models.stem(entry), f"{place.on_gpu} / {place.total}"
    cells = (name, nodes, place.partitions, error, *(f"{spent:.1f}" for spent in times))
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)
    return int(not worst.share <= 1)


def _times(runs: list[Run], count: int) -> list[float]:
    """Returns the medians of each in milliseconds, run alternately after a warm-up."""
    times: list[list[float]] = [[] for _ in runs]
    for number in range(count + 1):
        for run, spent in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            if number:
                spent.append(1000 * (time.perf_counter() - start))
    return [statistics.median(spent) for spent in times]


if __name__ == "__main__":
    sys.exit(main())
