"""The null devices: RADV of the newer Mesa, and our layer that lets wgpu open one."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import layers
from benchmarks.compiled.cost import Made
from benchmarks.engine import ROOT, Unavailable
from tflgpu_plugin.ir import Pipeline

MOST_SECONDS = 1200  # for all kernels; minutes on two busy cores


def compiled(pipelines: Sequence[Pipeline], family: str) -> list[Made | str]:
    """Returns each pipeline as compiled for a family, or the error. Raises Unavailable."""
    variables = {"RADV_FORCE_FAMILY": family, **environment()}
    with tempfile.TemporaryDirectory() as name:
        given, made, last = (Path(name) / part for part in ("given", "made", "last"))
        given.write_bytes(pickle.dumps(list(pipelines)))
        command = [sys.executable, "-m", "benchmarks.compiled.worker", str(given), str(made)]
        done = subprocess.run(
            command, cwd=ROOT, env=variables | {"NULL_DEVICE_OUT": str(last)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=MOST_SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"compiling for {family} failed:\n{done.stdout}")
        found: list[Made | str] = pickle.loads(made.read_bytes())
        return found


def read(told: str) -> Made:
    """Parses the layer's output for one pipeline."""
    lines, _, assembly = told.partition("\n\n")
    pairs = (line.split("=") for line in lines.splitlines())
    return Made({name: int(value) for name, value in pairs}, assembly)


def look(family: str) -> None:
    """Raises Unavailable where this machine cannot open a null device."""
    try:
        compiled((), family)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"No null device can be opened here: {error}") from error


def environment(*above: Path) -> dict[str, str]:
    """Returns the environment of a process that opens a null device, under layers that
    `layers.build` has made. Raises Unavailable."""
    drivers, archive = layers.tools()
    try:
        driver = drivers.null_devices()
    except archive.Unavailable as error:
        raise Unavailable(f"AMD's compiler is missing: {error}") from error
    found: dict[str, str] = driver.environment()
    found |= layers.variables(*above, layers.build(Path(__file__).with_name("null_device.c")))
    return found | {"MESA_SHADER_CACHE_DISABLE": "true", "TFLGPU_NO_CACHE": "1"}
