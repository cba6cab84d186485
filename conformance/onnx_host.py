"""Runs an ONNX model in ONNX Runtime: on its CPU provider, or through ours with an unchanged graph
(no optimizer that folds nodes away, no fallback to other providers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance import host
from conformance.host import Feed, GpuRun, Outputs, Placement
from tflgpu_plugin.harness import onnx, onnx_values
from tflgpu_plugin.runtime import adapter

NAME = onnx.HOST
label = onnx.host  # for records


def place(wanted: str | None) -> int:
    """Returns the index of the adapter that `wanted` names among our devices. Raises
    RuntimeError."""
    return adapter.adapters().index(adapter.select(wanted))


def device(wanted: str | None) -> Any:
    """Returns the ONNX Runtime device of that adapter. Raises RuntimeError."""
    return onnx.device(place(wanted))


def session(
    model: bytes,
    wanted: str | None = None,
    *,
    cpu: bool = False,
    exclude: str = "",
    half: bool = False,
) -> Any:
    """Returns a session without graph optimizations: on the CPU provider, or on ours with the CPU
    for the other nodes. `exclude` is the option of that name; `half` allows float16 storage."""
    settings = onnx.settings(optimized=False, threads=1, logs=onnx.FATAL)
    if cpu:
        return onnx.opened(model, settings)
    options = {"force": "1"} | ({"adapter": wanted} if wanted else {})
    options |= {"exclude": exclude} if exclude else {}
    options |= {"is_precision_loss_allowed": "1"} if half else {}
    return onnx.opened(model, settings, options, place(wanted))


def invoke(made: Any, feeds: Sequence[Feed]) -> list[Outputs]:
    """Returns the outputs of one run per feed, inputs in the model's order."""
    names = [value.name for value in made.get_inputs()]
    runs = []
    for feed in feeds:
        found = onnx_values.results(made, dict(zip(names, feed, strict=True)))
        runs.append([np.array(value) for value in found])
    return runs


def run_on_cpu(model: bytes, feeds: Sequence[Feed]) -> list[Outputs]:
    """Returns the CPU provider's answer. Raises what onnxruntime raises when it refuses the
    model."""
    return invoke(session(model, cpu=True), feeds)


def run_on_gpu(
    model: bytes, feeds: Sequence[Feed], wanted: str | None = None, exclude: str = ""
) -> GpuRun:
    """Returns the answer of our provider."""
    made = session(model, wanted, exclude=exclude)
    outputs = invoke(made, feeds)
    return GpuRun(outputs, placement(made))


def placement(made: Any) -> Placement:
    """Returns a summary of our report of a session."""
    from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

    return host.placement(made, HOST_OPS, titled=True)
