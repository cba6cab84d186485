"""The null devices: RADV of the newer Mesa, and our layer that lets wgpu open one."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.compiled.cost import Made
from benchmarks.engine import ROOT, Unavailable
from tflgpu_plugin.ir.plan import Pipeline

FOLDER = ROOT / "build" / "compiled"
LAYER = "VK_LAYER_TFLGPU_null_device"
MOST_SECONDS = 1200  # for all kernels; minutes on two busy cores


def compiled(pipelines: Sequence[Pipeline], family: str) -> list[Made | str]:
    """Each pipeline as compiled for a family, or what was wrong. Raises Unavailable."""
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


def look(family: str) -> None:
    """Raises Unavailable where this machine cannot open a null device."""
    try:
        compiled((), family)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"No null device can be opened here: {error}") from error


def environment() -> dict[str, str]:
    """The whole environment of a process that opens a null device. Raises Unavailable."""
    drivers, archive = _tools()
    try:
        driver, headers = drivers.null_devices(), drivers.headers("libvulkan-dev")
    except archive.Unavailable as error:
        raise Unavailable(f"AMD's compiler is missing: {error}") from error
    _build(headers)
    layers = {"VK_LAYER_PATH": str(FOLDER), "VK_INSTANCE_LAYERS": LAYER}
    found: dict[str, str] = driver.environment()
    return found | layers | {"MESA_SHADER_CACHE_DISABLE": "true", "TFLGPU_NO_CACHE": "1"}


def _tools() -> tuple[Any, Any]:
    sys.path.append(str(ROOT / "tools"))
    return import_module("drivers"), import_module("archive")


def _build(headers: Path) -> None:
    """The layer and the file by which the loader finds it. Raises Unavailable."""
    source = Path(__file__).with_name("null_device.c")
    library = FOLDER / "libnull_device.so"
    if library.exists() and library.stat().st_mtime > source.stat().st_mtime:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", f"-I{headers}"]
    try:
        subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"The layer for null devices cannot be compiled: {error}") from error
    layer = {
        "name": LAYER, "type": "GLOBAL", "library_path": str(library), "api_version": "1.3.0",
        "implementation_version": "1", "description": "lets wgpu open a null device of RADV",
    }  # fmt: skip
    described = {"file_format_version": "1.1.2", "layer": layer}
    (FOLDER / "null_device.json").write_text(json.dumps(described))
