"""The float models with values stored as float16 as a table, for `conformance.models_table --half`:
largest and mean error of ours and of a simulation of such storage (`half_storage`), device memory
in MB and milliseconds of float32 and of float16. With --onnx the ONNX models."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from conformance.models.real_models import stem
from conformance.variants import half_models, half_storage
from conformance.variants.half_models import Outcome, Runner

HEADER = ("model", "largest error / simulation", "in the mean", "weights", "tensors", "ms")
Times = Callable[[list[half_models.Run], int], list[float]]


def show(chosen: argparse.Namespace, times: Times) -> int:
    """Prints the table; returns 1 if an answer is out of tolerance."""
    listed = half_models.onnx_entries() if chosen.onnx else half_models.tflite_entries()
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    bad = False
    for entry in (e for e in listed if chosen.name in str(e["file"])):
        try:
            outcome, pair = _measured(entry, chosen)
        except half_models.Unmeasured as reason:
            print(f"| {stem(entry)} | {reason} |" + " |" * (len(HEADER) - 2), flush=True)
            continue
        problem = half_storage.wrong(outcome.found, outcome.measure)
        spent = times([one.run for one in pair], chosen.runs)
        print("| " + " | ".join((stem(entry), *_cells(outcome, pair, spent))) + " |", flush=True)
        bad = bad or bool(problem)
    return int(bad)


def _measured(entry: Mapping[str, Any], chosen: argparse.Namespace) -> tuple[Outcome, list[Runner]]:
    """Returns the answers, and what runs the model in float32 and in float16."""
    if chosen.onnx:
        return half_models.onnx(entry, chosen.adapter), [
            half_models.onnx_runner(entry, chosen.adapter, half) for half in (False, True)
        ]
    options = {"adapter": chosen.adapter} if chosen.adapter else {}
    return half_models.tflite(entry, options), [
        half_models.tflite_runner(entry, options, half) for half in (False, True)
    ]


def _cells(outcome: Outcome, pair: list[Runner], spent: list[float]) -> tuple[str, ...]:
    found, measure = outcome.found, outcome.measure
    failed = " FAIL" * bool(half_storage.wrong(found, measure))
    sizes = [
        " to ".join(f"{_megabytes(one, what):.2f}" for one in pair)
        for what in ("weight_bytes", "tensor_bytes")
    ]
    return (
        f"{found.largest:.1e} / {measure.largest:.1e}{failed}",
        f"{found.mean:.1e} / {measure.mean:.1e}",
        *sizes,
        " to ".join(f"{time:.1f}" for time in spent),
    )


def _megabytes(one: Runner, what: str) -> float:
    return float(sum(getattr(partition, what) for partition in one.report.partitions)) / 1e6
