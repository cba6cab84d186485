"""The GPU peer, ncnn (https://github.com/Tencent/ncnn): its own environment under build/, so that
ours stays as it is.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.engine import ROOT, Engine, Unavailable

FOLDER = ROOT / "build" / "peers" / "ncnn"
PACKAGES = ("ncnn==1.0.20261020", "numpy")


def ncnn(model: Path, weights: Path, source: Path) -> Engine:
    """The engine for an ncnn model; makes the environment on first use. Raises Unavailable with the
    reason.
    """
    python = FOLDER / "bin" / "python"
    if (
        subprocess.run([python, "-c", "import ncnn"], capture_output=True).returncode
        if python.exists()
        else True
    ):
        _install(python)
    worker = ROOT / "benchmarks" / "ncnn_worker.py"
    return Engine("ncnn", tuple(str(part) for part in (python, worker, model, weights, source)))


def _install(python: Path) -> None:
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(FOLDER)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise Unavailable(f"its environment cannot be made: {lines[-1] if lines else command}")
