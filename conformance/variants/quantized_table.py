"""The real models in 16 and 8 bits as a table, for `conformance.models_table --quantized`: where
their nodes run, how far their answers are off, and their times beside those of the same model in
float32 and of the host's CPU kernels.

A float32 twin is another file of `../shared`, or, of a dynamic-range model, the model with its
weights in float32. Nothing is asserted here."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from conformance import host
from conformance.host import Placement
from conformance.models import model_inputs, onnx_models, real_models, split_models, streams
from conformance.models.real_models import Comparison, stem

HEADER = (
    "model", "kind", "on the GPU / of operators with a row / in all", "largest difference",
    "ours ms", "float32 twin, ours ms", "CPU ms",
)  # fmt: skip
Run = Callable[[], object]
Times = Callable[[list[Run], int], list[float]]
TWINS = {
    "ad01_int8": "ad01_fp32",
    "face_landmark_fp16": "face_landmark_fp32",
    "mnist_lstm_int8": "mnist_lstm_float",
    "mobilenet_v1_0.25_224_quant": "mobilenet_v1_0.25_224_1_default_1",
    "resnet8_cifar_int8": "resnet8_cifar_float",
    "ssd_mobilenet_v1_coco_quant_detect": "ssd_mobilenet_v1_coco_float_from_quant",
    "vww_96_int8": "vww_96_float",
}


def show(chosen: argparse.Namespace, times: Times) -> int:
    """Prints the table; returns 0."""
    lines = [HEADER, ("---",) * len(HEADER)]
    for entry in [*model_inputs.models(), *onnx_models.entries()]:
        if entry["kind"] != "float32" and chosen.name in str(entry["file"]):
            lines.append((_onnx if entry["file"].endswith(".onnx") else _tflite)(
                entry, chosen, times
            ))  # fmt: skip
        while lines:
            print("| " + " | ".join(lines.pop(0)) + " |", flush=True)
    return 0


def _tflite(entry: Mapping[str, Any], chosen: argparse.Namespace, times: Times) -> tuple[str, ...]:
    options = {"adapter": chosen.adapter} if chosen.adapter else {}
    name = chosen.host or host.oracle(_content(entry))[0]
    outcome = real_models.compare(entry, name, options)
    if entry in streams.entries():
        outcome.comparisons.extend(streams.compare(entry, name, options).comparisons)
    content, feed = _content(entry), next(iter(model_inputs.feeds(entry).values()))
    runs = [_prepared(content, feed, name, options), _prepared(content, feed, name, None)]
    twin = _twin(entry)
    if twin is not None:
        runs.append(_prepared(*twin, name, options))
    return _cells(entry, outcome.placement, outcome.comparisons, times(runs, chosen.runs))


def _onnx(entry: Mapping[str, Any], chosen: argparse.Namespace, times: Times) -> tuple[str, ...]:
    outcome = onnx_models.compare(entry, chosen.adapter)
    path, feed = model_inputs.path(entry), next(iter(onnx_models.feeds(entry).values()))
    ours, cpu = onnx_models.ours(path, chosen.adapter), onnx_models.session(path)
    runs: list[Run] = [lambda: ours.run(None, feed), lambda: cpu.run(None, feed)]
    return _cells(entry, outcome.placement, outcome.comparisons, times(runs, chosen.runs))


def _content(entry: Mapping[str, Any]) -> bytes:
    return model_inputs.path(entry).read_bytes()


def _twin(entry: Mapping[str, Any]) -> tuple[bytes, list[Any]] | None:
    """Returns the float32 twin, and an input for it."""
    feeds = model_inputs.feeds
    if entry["kind"] == "dynamic-range":
        wide = split_models.widened(_content(entry), split_models.hybrid(_content(entry)))
        return wide, next(iter(feeds(entry).values()))
    for other in model_inputs.models():
        if stem(other) == TWINS.get(stem(entry)):
            return _content(other), next(iter(feeds(other).values()))
    return None


def _prepared(content: bytes, feed: list[Any], name: str, options: Mapping[str, Any] | None) -> Run:
    """Returns a run of the CPU kernels (without options), or through the delegate."""
    more: dict[str, Any] = {}
    if options is not None:
        more["experimental_delegates"] = [host.load_delegate(name, options)]
    made = host.interpreter(content, name, "default", **more)
    made.allocate_tensors()
    return lambda: host.invoke(made, [feed])


def _cells(entry: Mapping[str, Any], place: Placement, comparisons: list[Comparison],
           spent: list[float]) -> tuple[str, ...]:  # fmt: skip
    error = max((c.error for c in comparisons), default=np.nan)
    steps, rows = entry["kind"] in real_models.INTEGER, place.eligible
    ours, cpu, *twin = (f"{ms:.1f}" for ms in spent)
    return (
        stem(entry), str(entry["kind"]), f"{rows[0]} / {rows[1]} / {place.total}",
        f"{error:.3g} steps" if steps else f"{error:.1e} of the largest",
        ours, twin[0] if twin else "-", cpu,
    )  # fmt: skip
