"""Tests memory with 400 MB of weights: how much more preparing needs than the host's own
kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.large_models import BYTES, TFLITE
from tests.support.measured import measured
from tests.support.subprocesses import ROOT


def run(*arguments: object) -> str:
    command = [sys.executable, "-m", "tests.support.large_models", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.adapter
@pytest.mark.parametrize("kind", ["tflite", "half", "onnx", "external"])
@measured
def test_memory_is_that_of_the_host_and_of_the_device(kind: str, tmp_path: Path) -> None:
    """On an adapter that shares the process's memory, the weights are there once, as float32.
    Beyond that and the memory of the host's own session, at most 0.35 times their size is used;
    when the model is ready, no temporary memory is left."""
    path = tmp_path / f"large.{'tflite' if kind in TFLITE else 'onnx'}"
    run("make", kind, path)
    theirs, ours = (json.loads(run(which, kind, path)) for which in ("cpu", "gpu"))
    check(theirs, ours)


def check(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    assert ours["sum"] == pytest.approx(theirs["sum"], rel=1e-4)
    assert ours["bytes"] > BYTES, "the weights are nowhere"
    assert ours["bytes"] < theirs["bytes"] + 1.35 * BYTES, (ours, theirs)
    assert ours["kept"] < theirs["kept"] + 1.05 * BYTES, (ours, theirs)
