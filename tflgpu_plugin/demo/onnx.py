"""The demo's network through the other door: as an ONNX model, on ONNX Runtime's CPU provider and
on ours, compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tflgpu_plugin.demo.compare import Agreement, Array, agree
from tflgpu_plugin.demo.network import CLASSES, SIZE, Layer, Network
from tflgpu_plugin.demo.protobuf import Model
from tflgpu_plugin.reports import GPU, Report

THREADS = 2  # as the TFLite host gets


@dataclass(frozen=True)
class OnnxComparison:
    """The outcome in ONNX Runtime of this version; times are medians in milliseconds."""

    version: str
    agreements: list[Agreement]
    report: Report
    cpu_ms: float
    gpu_ms: float

    @property
    def ok(self) -> bool:
        return all(a.ok for a in self.agreements) and self.report.count(GPU) > 0


def missing() -> str | None:
    """Why there is no comparison in ONNX Runtime on this machine; None when there can be one."""
    import tflgpu_plugin

    try:
        tflgpu_plugin.register()
    except (ImportError, RuntimeError) as error:  # not installed, or too old: both say what to do
        return " ".join(str(error).split())
    return None


def to_onnx(network: Network) -> bytes:
    """The ONNX file: 58 nodes, input [1, 3, 224, 224], outputs `logits` and `probabilities`."""
    model, size, x = Model(), SIZE, "image"
    limits = [
        model.constant("low", np.zeros((), np.float32)),
        model.constant("high", np.full((), 6, np.float32)),
    ]
    for layer in network.layers:
        if layer.name == "logits":
            x, size = model.node("GlobalAveragePool", [x], "pool"), 1
        x = _add_layer(model, layer, x, size, limits)
        size = -(-size // layer.stride)
    x = model.node("Flatten", [x], "logits", axis=1)
    model.node("Softmax", [x], "probabilities", axis=1)
    outputs = {name: (1, CLASSES) for name in ("logits", "probabilities")}
    return model.serialize({"image": (1, 3, SIZE, SIZE)}, outputs, "mobilenet_v1_1.0_224")


def _add_layer(model: Model, layer: Layer, x: str, size: int, limits: Sequence[str]) -> str:
    depthwise = layer.kind == "depthwise"
    weights = layer.weights[..., None, :] if depthwise else layer.weights
    kernel = weights.shape[0]
    total = max((-(-size // layer.stride) - 1) * layer.stride + kernel - size, 0)
    before, after = total // 2, total - total // 2  # TFLite's SAME padding
    inputs = [
        x,
        model.constant(f"{layer.name}/weights", weights.transpose(3, 2, 0, 1)),
        model.constant(f"{layer.name}/bias", layer.bias),
    ]
    result = model.node(
        "Conv", inputs, f"{layer.name}/sum",
        kernel_shape=[kernel] * 2, strides=[layer.stride] * 2,
        pads=[before, before, after, after], group=weights.shape[3] if depthwise else 1,
    )  # fmt: skip
    return model.node("Clip", [result, *limits], layer.name) if layer.activation else result


def compare(
    model: bytes, picture: Array, options: Mapping[str, str], runs: int = 10
) -> OnnxComparison:
    """Outputs for a picture [1, H, W, 3] against the CPU provider without its optimizations; what
    these change widens what is allowed. Raises RuntimeError when there is no session.
    """
    import onnxruntime

    feeds = {"image": np.ascontiguousarray(picture.transpose(0, 3, 1, 2))}
    cpu, gpu = _session(model), _session(model, options)
    names = [output.name for output in cpu.get_outputs()]
    plain = _session(model, optimized=False).run(None, feeds)
    agreements = agree(names, plain, cpu.run(None, feeds), gpu.run(None, feeds))
    times = [_latency(session, feeds, runs) for session in (cpu, gpu)]
    return OnnxComparison(str(onnxruntime.__version__), agreements, _report(gpu), *times)


def _session(model: bytes, options: Mapping[str, str] | None = None, optimized: bool = True) -> Any:
    """A session on the CPU provider, or with options on ours."""
    import onnxruntime as ort

    import tflgpu_plugin

    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = THREADS
    if not optimized:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if options is None:
        return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    names = tflgpu_plugin.get_ep_names()
    devices = [device for device in ort.get_ep_devices() if device.ep_name in names]
    if not devices:
        raise RuntimeError("There is no adapter for onnxruntime to use; see `tflgpu info`.")
    settings.add_provider_for_devices(devices[:1], dict(options))
    return ort.InferenceSession(model, settings)


def _report(session: Any) -> Report:
    import tflgpu_plugin

    return tflgpu_plugin.report(session)


def _latency(session: Any, feeds: Mapping[str, Array], runs: int) -> float:
    session.run(None, feeds)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
    return float(np.median(times) * 1e3)
