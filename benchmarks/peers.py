"""The GPU peers, each in its own environment under build/, so that ours is not changed: ncnn
(https://github.com/Tencent/ncnn), onnxruntime's WebGPU provider and LiteRT's GPU accelerator; and
LiteRT-LM, a host for tests."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.engine import ROOT, Engine, Unavailable


@dataclass(frozen=True)
class Environment:
    """Packages with all of their dependencies, and programs without them."""

    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


ENVIRONMENTS = {
    # pnnx is a program without dependencies; its package depends on all of PyTorch.
    "ncnn": Environment(("ncnn==1.0.20261020", "numpy"), ("pnnx==20261020",)),
    "webgpu": Environment(("onnxruntime-webgpu==1.27.0", "numpy")),
    "litert": Environment(("ai-edge-litert==2.3.0", "numpy")),
    "litert-lm": Environment(("litert-lm-api==0.18.1", "litert-lm-builder==0.18.1")),
}


def ncnn(model: Path, weights: Path, source: Path, planes: bool) -> Engine:
    """Returns the engine for an ncnn model; makes the environment on first use. Raises Unavailable
    with the reason."""
    parts = (environment("ncnn"), "-m", "benchmarks.ncnn_worker", model, weights, source)
    return Engine(tuple(str(part) for part in parts), planes=planes)


def pnnx(model: Path, shape: tuple[int, ...]) -> tuple[Path, Path]:
    """Converts an ONNX model with one float32 input of this shape to an ncnn model beside it.
    Raises Unavailable."""
    packages = environment("ncnn").parents[1].glob("lib/*/site-packages")
    program = next(path for folder in packages for path in folder.glob("pnnx/pnnx"))
    given = f"inputshape=[{','.join(map(str, shape))}]f32"
    done = subprocess.run(
        [str(program), model.name, given, "fp16=0"],
        cwd=model.parent, capture_output=True, text=True,
    )  # fmt: skip
    files = model.with_suffix(".ncnn.param"), model.with_suffix(".ncnn.bin")
    if done.returncode or not all(file.exists() for file in files):
        raise Unavailable(f"pnnx cannot convert it: {_last(done)}")
    return files


def webgpu(model: Path, source: Path, planes: bool) -> Engine:
    """Returns the engine for an ONNX model. Raises Unavailable."""
    parts = (environment("webgpu"), "-m", "benchmarks.onnx_worker", "webgpu", model, source)
    return Engine(tuple(str(part) for part in parts), planes=planes)


def litert(model: Path, source: Path) -> Engine:
    """Returns the engine for a TFLite model. Raises Unavailable."""
    parts = (environment("litert"), "-m", "benchmarks.litert_worker", model, source)
    return Engine(tuple(str(part) for part in parts))


def newer_driver() -> dict[str, str]:
    """Returns variables that select the newer lavapipe, which WebGPU needs. Raises Unavailable."""
    sys.path.append(str(ROOT / "tools"))
    drivers = import_module("drivers")
    try:
        return dict[str, str](drivers.lavapipe_backports().variables)
    except drivers.Unavailable as error:
        raise Unavailable(f"the newer lavapipe is missing: {error}") from error


def environment(peer: str) -> Path:
    """Returns the interpreter of a peer's environment, which is made on first use. Raises
    Unavailable."""
    folder, wanted = ROOT / "build" / "peers" / peer, ENVIRONMENTS[peer]
    python, ready = folder / "bin" / "python", folder / "ready"
    content = "\n".join([*wanted.packages, *wanted.alone])
    if not ready.exists() or ready.read_text() != content:
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([*install, *wanted.packages])
        if wanted.alone:
            _run([*install, "--no-deps", *wanted.alone])
        ready.write_text(content)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"its environment cannot be made: {_last(done)}")


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"status {done.returncode}"
