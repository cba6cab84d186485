"""The GPU peers, each in its own environment under build/, so that ours stays as it is: ncnn
(https://github.com/Tencent/ncnn) and onnxruntime's WebGPU provider.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from benchmarks.engine import ROOT, Engine, Unavailable

PACKAGES = {
    "ncnn": ("ncnn==1.0.20261020", "numpy"),
    "webgpu": ("onnxruntime-webgpu==1.27.0", "numpy"),
}
MODULES = {"ncnn": "ncnn", "webgpu": "onnxruntime"}


def ncnn(model: Path, weights: Path, source: Path) -> Engine:
    """The engine for an ncnn model; makes the environment on first use. Raises Unavailable with the
    reason.
    """
    worker = ROOT / "benchmarks" / "ncnn_worker.py"
    parts = (_python("ncnn"), worker, model, weights, source)
    return Engine("ncnn Vulkan", tuple(str(part) for part in parts))


def webgpu(model: Path, source: Path, driver: Mapping[str, str]) -> Engine:
    """The engine for an ONNX model on the driver that these variables choose. Raises
    Unavailable."""
    worker = ROOT / "benchmarks" / "onnx_worker.py"
    parts = (_python("webgpu"), worker, "webgpu", model, source)
    return Engine("onnxruntime WebGPU", tuple(str(part) for part in parts), dict(driver))


def newer_driver() -> dict[str, str]:
    """Variables that choose the newer lavapipe, which the WebGPU provider needs. Raises
    Unavailable."""
    drivers = import_module("tools.drivers")

    try:
        return dict[str, str](drivers.lavapipe_backports().variables)
    except drivers.Unavailable as error:
        raise Unavailable(f"the newer lavapipe is missing: {error}") from error


def _python(peer: str) -> Path:
    """The interpreter of a peer's environment."""
    folder = ROOT / "build" / "peers" / peer
    python = folder / "bin" / "python"
    check = [str(python), "-c", f"import {MODULES[peer]}"]
    if not python.exists() or subprocess.run(check, capture_output=True).returncode:
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([*install, *PACKAGES[peer]])
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"its environment cannot be made: {lines[-1] if lines else command}")
