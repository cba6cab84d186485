"""Runs a model on a TFLite host's CPU kernels and through the delegate, and compares the outputs
and what is in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.frontend.reports import GPU, Report
from tflgpu_plugin.harness import flatbuffer
from tflgpu_plugin.harness.hosts import Host, feed, latency, outputs

Array = npt.NDArray[Any]
T = TypeVar("T")

TOLERANCE = 1e-4  # of the largest magnitude; float32 sums in another order differ by a few 1e-6
SPREAD = 4.0  # times what the host's own two sets of kernels differ by, where that is more
MAX_PROBES = 24  # intermediate results of a model that is not ours


@dataclass(frozen=True)
class Agreement:
    """One tensor: the largest difference and magnitude, and the difference that is allowed."""

    name: str
    difference: float
    magnitude: float
    allowed: float

    @property
    def ok(self) -> bool:
        return self.difference <= self.allowed  # False for NaN

    @property
    def relative(self) -> float:
        return self.difference / self.magnitude if self.magnitude else self.difference


@dataclass(frozen=True)
class Comparison:
    """The outcome for a model in one host. `cpu` says what its CPU kernels were; `outputs` holds
    the model's own outputs from the GPU; times are medians in milliseconds.
    """

    host: str
    cpu: str
    agreements: list[Agreement]
    outputs: list[Array]
    report: Report
    cpu_ms: float
    gpu_ms: float

    @property
    def ok(self) -> bool:
        """All tensors agree, and some of it ran on the GPU."""
        return self.agrees and self.report.count(GPU) > 0

    @property
    def agrees(self) -> bool:
        return bool(self.agreements) and all(a.ok for a in self.agreements)

    def lines(self) -> list[str]:
        """The summary for a reader."""
        report, on_gpu = self.report, self.report.count(GPU)
        nodes, partitions = len(report.nodes), len(report.islands)
        return [
            f"nodes     {on_gpu} of {nodes} on the GPU, partitions: {partitions}",
            f"latency   CPU ({self.cpu}) {self.cpu_ms:.1f} ms, GPU {self.gpu_ms:.1f} ms (medians)",
        ]

    def verdict(self) -> str:
        bad = [a.name for a in self.agreements if not a.ok]
        if bad:
            return f"DISAGREES in {len(bad)} of {len(self.agreements)}: {', '.join(bad)}"
        if not self.report.count(GPU):
            return "Nothing ran on the GPU; `tflgpu check MODEL` says why."
        return f"All {len(self.agreements)} tensors agree."

    def kernels(self) -> list[str]:
        """The pipelines of all partitions."""
        islands = self.report.islands
        return list(dict.fromkeys(name for island in islands for name in island.kernels))

    def as_json(self) -> dict[str, Any]:
        tensors = [
            {
                "name": a.name,
                "difference": a.difference,
                "magnitude": a.magnitude,
                "allowed": a.allowed,
                "ok": a.ok,
            }
            for a in self.agreements
        ]
        return {
            "host": self.host,
            "agrees": self.ok,
            "tensors": tensors,
            "nodes": len(self.report.nodes),
            "nodes_on_gpu": self.report.count(GPU),
            "islands": len(self.report.islands),
            "cpu_ms": self.cpu_ms,
            "gpu_ms": self.gpu_ms,
            "kernels": self.kernels(),
        }


def compare(
    host: Host,
    model: bytes,
    values: list[Array],
    options: Mapping[str, Any],
    runs: int = 10,
    probes: Sequence[int] | None = None,
) -> Comparison:
    """Outputs and intermediate results (`probes`, or a selection) against reference kernels.

    The difference between the host's own optimized and reference kernels widens what is allowed, so
    that a model that amplifies rounding is not called wrong. Latency is measured on the model as it
    is.
    """
    probed = flatbuffer.with_outputs(model, _probes(host, model) if probes is None else probes)
    reference, names = _run(host.interpreter(probed, "BUILTIN_REF"), values)
    optimized, _ = _run(host.interpreter(probed, "BUILTIN_WITHOUT_DEFAULT_DELEGATES"), values)
    ours, _ = _run(_delegated(host, probed, options), values)

    plain = host.delegate(options)
    gpu = host.interpreter(
        model, "BUILTIN_WITHOUT_DEFAULT_DELEGATES", experimental_delegates=[plain]
    )
    results, _ = _run(gpu, values)
    own = len(results)
    agreements = agree(names[:own], reference[:own], optimized[:own], results)
    agreements = agree(names[own:], reference[own:], optimized[own:], ours[own:]) + agreements
    cpu = host.interpreter(model)
    feed(cpu, values)
    times = latency(cpu, runs), latency(gpu, runs)
    name = f"{host.name} {host.version}"
    return Comparison(name, "XNNPACK, 2 threads", agreements, results, _report(plain), *times)


def _delegated(host: Host, model: bytes, options: Mapping[str, Any]) -> Any:
    delegates = [host.delegate(options)]
    return host.interpreter(
        model, "BUILTIN_WITHOUT_DEFAULT_DELEGATES", experimental_delegates=delegates
    )


def _report(delegate: Any) -> Report:
    import tflgpu_plugin

    return tflgpu_plugin.report(delegate)


def _run(interpreter: Any, values: list[Array]) -> tuple[list[Array], list[str]]:
    feed(interpreter, values)
    interpreter.invoke()
    return outputs(interpreter), [str(d["name"]) for d in interpreter.get_output_details()]


def _probes(host: Host, model: bytes) -> list[int]:
    """Intermediate results to look at: every activation, thinned out evenly; what a final softmax
    reads is kept.
    """
    own = {d["index"] for d in host.module.Interpreter(model_content=model).get_output_details()}
    inner = [tensor for tensor in flatbuffer.activations(model) if tensor not in own]
    return thinned(inner)


def thinned(inner: list[T]) -> list[T]:
    """Few of them, counted from the end, so that the last one, the logits, is among them."""
    step = max(1, -(-len(inner) // MAX_PROBES))
    return inner[::-step][::-1]


def agree(
    names: list[str], reference: list[Array], optimized: list[Array], ours: list[Array]
) -> list[Agreement]:
    """Results tensor by tensor; differences among the host's own kernels widen what is allowed."""
    found = []
    for name, expected, other, got in zip(names, reference, optimized, ours, strict=True):
        magnitude = float(np.abs(expected.astype(np.float64)).max(initial=0))
        allowed = max(TOLERANCE * magnitude, SPREAD * _difference(expected, other))
        found.append(Agreement(name, _difference(expected, got), magnitude, allowed))
    return found


def _difference(a: Array, b: Array) -> float:
    if a.shape != b.shape:
        return float("inf")
    if not a.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
