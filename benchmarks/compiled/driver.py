"""Devices that are not there, on which kernels are compiled and nothing runs: null devices of AMD's
driver in Mesa (RADV), and render nodes that we emulate for Mesa's drivers of other makers. Our
layer lets wgpu open them and writes what the compiler says."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import layers
from benchmarks.compiled import shim
from benchmarks.compiled.cost import Code
from benchmarks.compiled.devices import DEVICES
from benchmarks.compiled.gpus import model
from benchmarks.engine import ROOT, Unavailable
from tflgpu_plugin.ir import Pipeline

MAX_SECONDS = 1200  # for all kernels; minutes on two busy cores
Told = tuple[dict[str, int], str]  # the compiler's numbers, and the assembly


def compiled(pipelines: Sequence[Pipeline], gpu: str) -> list[Code | str]:
    """Returns each pipeline as compiled for a GPU, or the error. Raises Unavailable."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given, made, last = (folder / part for part in ("given", "made", "last"))
        given.write_bytes(pickle.dumps(list(pipelines)))
        worker = [sys.executable, "-m", "benchmarks.compiled.worker", str(given), str(made)]
        done = subprocess.run(
            command(gpu, worker), cwd=ROOT, text=True,
            env=environment(gpu, folder) | {"NULL_DEVICE_OUT": str(last)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=MAX_SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"compiling for {gpu} failed:\n{done.stdout}")
        found: list[Told | str] = pickle.loads(made.read_bytes())
    known = model(gpu)
    return [each if isinstance(each, str) else known.code(*each) for each in found]


def read(told: str) -> Told:
    """Parses the layer's output for one pipeline."""
    lines, _, assembly = told.partition("\n\n")
    pairs = (line.rsplit("=", 1) for line in lines.splitlines())
    return {name: int(value) for name, value in pairs}, assembly


def look(gpu: str) -> None:
    """Raises Unavailable where this machine cannot open such a device."""
    try:
        compiled((), gpu)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"No null device can be opened here: {error}") from error


def command(gpu: str, wanted: list[str]) -> list[str]:
    """Returns the command that runs this one on a GPU. Raises Unavailable."""
    return shim.command(wanted) if gpu in DEVICES else wanted


def environment(gpu: str, folder: Path, *above: Path) -> dict[str, str]:
    """Returns the environment of a process that opens the device, under layers that `layers.build`
    has made; `folder` holds files of it. Raises Unavailable."""
    found = shim.environment(DEVICES[gpu], folder) if gpu in DEVICES else _null_device(gpu)
    layer = layers.build(Path(__file__).with_name("null_device"))
    found |= layers.variables(*above, layer)
    return found | {"MESA_SHADER_CACHE_DISABLE": "true", "TFLGPU_NO_CACHE": "1"}


def compiler(gpu: str) -> str:
    """Returns the package of Mesa that compiles for a GPU, with its version. Raises Unavailable."""
    return shim.package() if gpu in DEVICES else str(_null_devices().package)


def _null_device(family: str) -> dict[str, str]:
    found: dict[str, str] = _null_devices().environment()
    return found | {"RADV_FORCE_FAMILY": family}


def _null_devices() -> Any:
    """Returns the driver, of the class Driver of the folder tools. Raises Unavailable."""
    drivers, archive = layers.tools()
    try:
        return drivers.null_devices()
    except archive.Unavailable as error:
        raise Unavailable(f"AMD's compiler is missing: {error}") from error
