"""`tflgpu demo`: proof on this machine that the GPU gives the answers of the CPU, with no download.

Builds MobileNet v1 with seeded weights (or takes your model), runs it on the host's CPU kernels and
through the delegate, and compares outputs and intermediate results.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflgpu_plugin.demo import hosts, inputs, network
from tflgpu_plugin.demo.compare import Comparison, compare
from tflgpu_plugin.demo.hosts import Host, NoHost
from tflgpu_plugin.demo.inputs import BadInput
from tflgpu_plugin.reports import GPU

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
    model is ours.
    """

    title: str
    host: Host
    comparison: Comparison
    classes: list[tuple[str, float]]

    @property
    def ok(self) -> bool:
        return self.comparison.ok and self.comparison.report.count(GPU) > 0

    def lines(self) -> list[str]:
        """The summary for a reader."""
        comparison, report = self.comparison, self.comparison.report
        adapter = f"{report.adapter.name}, {report.adapter.backend}" if report.adapter else "none"
        bad = [a.name for a in comparison.agreements if not a.ok]
        on_gpu = report.count(GPU)
        text = [
            f"adapter   {adapter}",
            f"nodes     {on_gpu} of {len(report.nodes)} on the GPU, islands: {len(report.islands)}",
            f"latency   CPU (XNNPACK, 2 threads) {comparison.cpu_ms:.1f} ms, "
            f"GPU {comparison.gpu_ms:.1f} ms (medians)",
        ]
        if bad:
            text.append(
                f"DISAGREES in {len(bad)} of {len(comparison.agreements)}: {', '.join(bad)}"
            )
        elif not on_gpu:
            text.append("Nothing ran on the GPU; `tflgpu check MODEL` says why.")
        else:
            text.append(f"All {len(comparison.agreements)} tensors agree.")
        return text

    def as_json(self) -> dict[str, Any]:
        comparison, report = self.comparison, self.comparison.report
        return {
            "model": self.title,
            "host": f"{self.host.name} {self.host.version}",
            "agrees": self.ok,
            "tensors": [
                {
                    "name": a.name,
                    "difference": a.difference,
                    "magnitude": a.magnitude,
                    "allowed": a.allowed,
                    "ok": a.ok,
                }
                for a in comparison.agreements
            ],
            "adapter": asdict(report.adapter) if report.adapter else None,
            "nodes": len(report.nodes),
            "nodes_on_gpu": report.count(GPU),
            "islands": len(report.islands),
            "cpu_ms": comparison.cpu_ms,
            "gpu_ms": comparison.gpu_ms,
            "classes": [{"label": label, "score": score} for label, score in self.classes],
        }


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
    return Result(title, host, comparison, classes)


def _values(host: Host, model: bytes, request: Request) -> list[Any]:
    try:
        details = host.module.Interpreter(model_content=model).get_input_details()
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"{host.name} cannot read {request.model}: {error}") from error
    return inputs.make(details, request.image, request.mean, request.std)
