"""What is measured: networks that every engine gets in its own format, and TFLite files that only
TFLite hosts read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.engine import Engine, Unavailable
from benchmarks.networks import Network
from tflgpu_plugin.demo import hosts, inputs

Maker = Callable[[], Engine]


@dataclass(frozen=True)
class Subject:
    """A model and its engines in the order of the table; ours in the first TFLite host leads.

    Makers raise Unavailable with the reason why an engine cannot run.
    """

    name: str
    makers: Sequence[tuple[str, Maker]]


def network(described: Network, folder: Path) -> Subject:
    """One of the seeded networks, written for every engine into `folder`."""
    from benchmarks.to_ncnn import to_ncnn
    from benchmarks.to_onnx import to_onnx
    from benchmarks.to_tflite import to_tflite

    tflite, onnx = (folder / f"{described.name}.{kind}" for kind in ("tflite", "onnx"))
    source = folder / f"{described.name}.npy"
    tflite.write_bytes(to_tflite(described))
    onnx.write_bytes(to_onnx(described))
    np.save(source, described.picture())
    param, weights = to_ncnn(described, folder)

    def on_newer(make: Callable[[dict[str, str]], Engine]) -> Maker:
        return lambda: make(peers.newer_driver())

    def ours(variables: dict[str, str]) -> Engine:
        return _onnx("gpu", onnx, source, variables, "tflgpu in onnxruntime, newer lavapipe")

    def other(variables: dict[str, str]) -> Engine:
        return peers.webgpu(onnx, source, variables)

    plain = {"TFLGPU_NO_SUBGROUPS": "1"}
    return Subject(
        described.name,
        [
            *_tflite(tflite, source),
            ("tflgpu in onnxruntime", lambda: _onnx("gpu", onnx, source)),
            ("tflgpu, without subgroups", lambda: _plain(tflite, source, plain)),
            ("onnxruntime CPU", lambda: _onnx("cpu", onnx, source)),
            ("ncnn Vulkan", lambda: peers.ncnn(param, weights, source)),
            ("tflgpu in onnxruntime, newer lavapipe", on_newer(ours)),
            ("onnxruntime WebGPU, newer lavapipe", on_newer(other)),
        ],
    )


def file(path: Path, folder: Path) -> Subject:
    """Any TFLite model with one input; seeded values go in."""
    host = hosts.host()
    details = host.module.Interpreter(model_path=str(path)).get_input_details()
    source = folder / f"{path.stem}.npy"
    np.save(source, inputs.make(details, None, 0.0, 1.0)[0])

    def none() -> Engine:
        raise Unavailable("ncnn reads no TFLite files")

    return Subject(path.stem, [*_tflite(path, source), ("ncnn Vulkan", none)])


def _tflite(model: Path, source: Path) -> list[tuple[str, Maker]]:
    found: list[tuple[str, Maker]] = []
    kinds = {"gpu": "tflgpu in {}", "half": "tflgpu in {}, float16 storage", "cpu": "{} CPU"}
    for kind, name in kinds.items():
        for host in hosts.installed():
            label = name.format(host)
            found.append((label, _maker(label, host, kind, model, source)))
    return found


def _maker(label: str, host: str, kind: str, model: Path, source: Path) -> Maker:
    worker = (sys.executable, "-m", "benchmarks.tflite_worker")
    return lambda: Engine(label, (*worker, host, kind, str(model), str(source)))


def _plain(model: Path, source: Path, variables: dict[str, str]) -> Engine:
    host = next(iter(hosts.installed()))
    engine = _maker(f"tflgpu in {host}, without subgroups", host, "gpu", model, source)()
    return Engine(engine.name, engine.command, variables)


def _onnx(
    kind: str, model: Path, source: Path, variables: dict[str, str] | None = None, name: str = ""
) -> Engine:
    command = (sys.executable, "-m", "benchmarks.onnx_worker", kind, str(model), str(source))
    return Engine(name or f"onnxruntime {kind}", command, variables or {})
