"""Runs an ONNX model in ONNX Runtime: on its CPU provider, or through ours with the graph as it is
(no optimizer that folds nodes away, no fallback to other providers)."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.host import Feed, GpuRun, Outputs, Placement, eligible

EP = "TflGpuExecutionProvider"
NAME = "onnxruntime"


def label() -> str:
    """The host with its version, for records."""
    return f"{NAME} {importlib.metadata.version(NAME)}"


def device(wanted: str | None) -> Any:
    """The ONNX Runtime device of the adapter that `wanted` names. Raises RuntimeError."""
    import onnxruntime

    import tflgpu_plugin
    from tflgpu_plugin.runtime import adapter

    tflgpu_plugin.register()
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == EP]
    if not found:
        raise RuntimeError(f"{EP} offers no device: see `tflgpu info`.")
    place = adapter.adapters().index(adapter.select(wanted))
    return found[min(place, len(found) - 1)]


def session(
    model: bytes,
    wanted: str | None = None,
    *,
    cpu: bool = False,
    exclude: str = "",
    half: bool = False,
) -> Any:
    """A session without graph optimizations: on the CPU provider, or on ours with the CPU for the
    nodes that ours leaves. `exclude` is the option of that name; `half` allows float16 storage."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    if cpu:
        return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    options = {"force": "1"} | ({"adapter": wanted} if wanted else {})
    options |= {"exclude": exclude} if exclude else {}
    options |= {"is_precision_loss_allowed": "1"} if half else {}
    settings.add_provider_for_devices([device(wanted)], options)
    made = ort.InferenceSession(model, settings, enable_fallback=0)
    made.disable_fallback()
    return made


def invoke(made: Any, feeds: Sequence[Feed]) -> list[Outputs]:
    """The outputs of one run per feed, inputs in the model's order."""
    names = [value.name for value in made.get_inputs()]
    runs = []
    for feed in feeds:
        found = made.run(None, dict(zip(names, feed, strict=True)))
        runs.append([np.array(value) for value in found])
    return runs


def run_on_cpu(model: bytes, feeds: Sequence[Feed]) -> list[Outputs]:
    """The CPU provider's answer. Raises what onnxruntime raises when it refuses the model."""
    return invoke(session(model, cpu=True), feeds)


def run_on_gpu(
    model: bytes, feeds: Sequence[Feed], wanted: str | None = None, exclude: str = ""
) -> GpuRun:
    """The same through our provider."""
    made = session(model, wanted, exclude=exclude)
    outputs = invoke(made, feeds)
    return GpuRun(outputs, placement(made))


def placement(made: Any) -> Placement:
    """Our report of a session in brief."""
    from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

    import tflgpu_plugin

    report = tflgpu_plugin.report(made)
    islands = [island for island in report.islands if island.live]
    reasons = [f"{n.op}: {n.reason}" for n in report.nodes if n.reason is not None]
    return Placement(
        on_gpu=report.count("gpu"),
        total=len(report.nodes),
        islands=len(islands),
        runs=tuple(island.runs for island in islands),
        failures=sum(island.failures for island in islands),
        sentences=tuple(dict.fromkeys(reasons)),
        adapter=report.adapter.name if report.adapter else "",
        eligible=eligible(report, HOST_OPS),
    )
