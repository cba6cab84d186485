"""`tflgpu demo`: proof on this machine that the GPU gives the answers of the CPU, with no download.

Builds MobileNet v1 with seeded weights (or takes your model), runs it on the host's CPU kernels and
through the delegate, and compares outputs and intermediate results. The same network then goes
through ONNX Runtime, where that is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflgpu_plugin.demo import hosts, inputs, network, onnx
from tflgpu_plugin.demo.compare import Agreement, Comparison, compare
from tflgpu_plugin.demo.hosts import Host, NoHost
from tflgpu_plugin.demo.inputs import BadInput
from tflgpu_plugin.demo.onnx import OnnxComparison
from tflgpu_plugin.reports import GPU, Report

if TYPE_CHECKING:
    from tflgpu_plugin.runtime.adapter import AdapterInfo

__all__ = ["BadInput", "NoHost", "Request", "Result", "adapter", "run"]


@dataclass(frozen=True)
class Request:
    """What to run; without a model the demo's own network. Float pictures are scaled by (pixel -
    mean) / std.
    """

    model: Path | None = None
    image: Path | None = None
    labels: Path | None = None
    host: str | None = None
    adapter: str | None = None
    mean: float = 127.5
    std: float = 127.5
    runs: int = 10


@dataclass(frozen=True)
class Result:
    """The outcome: who ran, how it compares, and the best classes where labels were given or the
    model is ours. `onnx` is the same network in ONNX Runtime; where it is None, `onnx_missing` says
    why, but for models that are not ours.
    """

    title: str
    host: Host
    comparison: Comparison
    classes: list[tuple[str, float]]
    onnx: OnnxComparison | None = None
    onnx_missing: str | None = None

    @property
    def ok(self) -> bool:
        return self.tflite_ok and (self.onnx is None or self.onnx.ok)

    @property
    def tflite_ok(self) -> bool:
        return self.comparison.ok and self.comparison.report.count(GPU) > 0

    def lines(self) -> list[str]:
        """The summary for a reader."""
        comparison, report = self.comparison, self.comparison.report
        adapter = f"{report.adapter.name}, {report.adapter.backend}" if report.adapter else "none"
        return [
            f"adapter   {adapter}",
            *_numbers(report, "XNNPACK, 2 threads", comparison.cpu_ms, comparison.gpu_ms),
            _verdict(comparison.agreements, report),
        ]

    def onnx_lines(self) -> list[str]:
        """The summary of the other door; one line when onnxruntime is not there."""
        if self.onnx is None:
            return [f"ONNX Runtime is left out: {self.onnx_missing}"] if self.onnx_missing else []
        report = self.onnx.report
        same, there, here = self.shared_kernels()
        return [
            *_numbers(report, "2 threads", self.onnx.cpu_ms, self.onnx.gpu_ms),
            f"kernels   {there} through TFLite, {here} through ONNX Runtime, {len(same)} the same "
            f"WGSL: {', '.join(name.rpartition('-')[0] for name in same)}",
            _verdict(self.onnx.agreements, report),
        ]

    def shared_kernels(self) -> tuple[list[str], int, int]:
        """Pipelines that both doors use, and how many each uses."""
        tflite = _kernels(self.comparison.report)
        here = _kernels(self.onnx.report) if self.onnx else []
        return [name for name in tflite if name in here], len(tflite), len(here)

    def as_json(self) -> dict[str, Any]:
        comparison, report = self.comparison, self.comparison.report
        return {
            "model": self.title,
            "host": f"{self.host.name} {self.host.version}",
            "agrees": self.ok,
            "tensors": _tensors(comparison.agreements),
            "adapter": asdict(report.adapter) if report.adapter else None,
            "nodes": len(report.nodes),
            "nodes_on_gpu": report.count(GPU),
            "islands": len(report.islands),
            "cpu_ms": comparison.cpu_ms,
            "gpu_ms": comparison.gpu_ms,
            "classes": [{"label": label, "score": score} for label, score in self.classes],
            "kernels": _kernels(report),
            "onnxruntime": self._onnx_json(),
        }

    def _onnx_json(self) -> dict[str, Any] | None:
        if self.onnx is None:
            return {"missing": self.onnx_missing} if self.onnx_missing else None
        report = self.onnx.report
        return {
            "host": f"onnxruntime {self.onnx.version}",
            "agrees": self.onnx.ok,
            "tensors": _tensors(self.onnx.agreements),
            "nodes": len(report.nodes),
            "nodes_on_gpu": report.count(GPU),
            "islands": len(report.islands),
            "cpu_ms": self.onnx.cpu_ms,
            "gpu_ms": self.onnx.gpu_ms,
            "kernels": _kernels(report),
            "shared_kernels": self.shared_kernels()[0],
        }


def _tensors(agreements: Sequence[Agreement]) -> list[dict[str, Any]]:
    return [
        {
            "name": a.name,
            "difference": a.difference,
            "magnitude": a.magnitude,
            "allowed": a.allowed,
            "ok": a.ok,
        }
        for a in agreements
    ]


def _kernels(report: Report) -> list[str]:
    """The pipelines of all islands."""
    return list(dict.fromkeys(name for island in report.islands for name in island.kernels))


def _numbers(report: Report, cpu: str, cpu_ms: float, gpu_ms: float) -> list[str]:
    on_gpu = report.count(GPU)
    return [
        f"nodes     {on_gpu} of {len(report.nodes)} on the GPU, islands: {len(report.islands)}",
        f"latency   CPU ({cpu}) {cpu_ms:.1f} ms, GPU {gpu_ms:.1f} ms (medians)",
    ]


def _verdict(agreements: Sequence[Agreement], report: Report) -> str:
    bad = [a.name for a in agreements if not a.ok]
    if bad:
        return f"DISAGREES in {len(bad)} of {len(agreements)}: {', '.join(bad)}"
    if not report.count(GPU):
        return "Nothing ran on the GPU; `tflgpu check MODEL` says why."
    return f"All {len(agreements)} tensors agree."


def adapter(wanted: str | None = None) -> AdapterInfo:
    """The adapter that the delegate will use. Raises NoAdapter with a sentence."""
    from tflgpu_plugin.runtime.adapter import select

    return select(wanted)


def run(request: Request) -> Result:
    """Run the comparison. Raises BadInput or NoHost with a sentence; RuntimeError and ValueError
    come from the host.
    """
    host = hosts.host(request.host)
    names = inputs.labels(request.labels) if request.labels else None
    options = {"adapter": request.adapter} if request.adapter else {}
    probes = None
    if request.model is None:
        if request.image or request.labels:
            raise BadInput("An image or labels need a model: pass the model, too.")
        title, model = "MobileNet v1 1.0 224, seeded weights", network.to_tflite(network.build())
        values, probes = [network.picture()], network.probes(model)
    else:
        title, model = request.model.name, inputs.model(request.model)
        values = _values(host, model, request)
    comparison = compare(host, model, values, options, request.runs, probes)
    classes = inputs.top(comparison.outputs[0], names) if names or request.model is None else []
    result = Result(title, host, comparison, classes)
    return result if request.model else _with_onnx(result, options, request.runs)


def _with_onnx(result: Result, options: dict[str, str], runs: int) -> Result:
    missing = onnx.missing()
    if missing:
        return replace(result, onnx_missing=missing)
    model = onnx.to_onnx(network.build())
    return replace(result, onnx=onnx.compare(model, network.picture(), options, runs))


def _values(host: Host, model: bytes, request: Request) -> list[Any]:
    try:
        details = host.module.Interpreter(model_content=model).get_input_details()
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"{host.name} cannot read {request.model}: {error}") from error
    return inputs.make(details, request.image, request.mean, request.std)
