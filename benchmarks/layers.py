"""Compiles our Vulkan layers when they are needed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.engine import ROOT, Unavailable

FOLDER = ROOT / "build" / "layers"
SHARED = ROOT / "benchmarks" / "layer.h"


def build(source: Path) -> Path:
    """Returns the library of a layer, whose name is that of its source (a file, or a folder of
    files), after writing beside it the file by which the loader finds it. Raises Unavailable."""
    drivers, archive = tools()
    try:
        made = library(source, drivers.headers("libvulkan-dev"), name="layer.so")
    except archive.Unavailable as error:
        raise Unavailable(f"Vulkan's headers are missing: {error}") from error
    layer = {
        "name": _name(made.parent), "type": "GLOBAL", "library_path": str(made),
        "api_version": "1.3.0", "implementation_version": "1", "description": source.stem,
    }  # fmt: skip
    described = {"file_format_version": "1.1.2", "layer": layer}
    file, text = made.parent / "layer.json", json.dumps(described)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    return made


def library(
    source: Path, headers: Path, name: str = "library.so", flags: Sequence[str] = ("-std=c11",)
) -> Path:
    """Returns the library compiled from a source (a file, or a folder of files) if it is older
    than that. Raises Unavailable."""
    made = FOLDER / source.stem / name
    sources = sorted(source.glob("*.c")) if source.is_dir() else [source]
    written = max(path.stat().st_mtime for path in (*source.glob("*.h"), *sources, SHARED))
    if made.exists() and made.stat().st_mtime > written:
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    include = [f"-I{headers}", f"-I{SHARED.parent}"]
    try:
        given = [*include, *map(str, sources), *flags, "-o", str(made)]
        subprocess.run([*command, *given], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{source.name} cannot be compiled: {error}") from error
    return made


def variables(*libraries: Path) -> dict[str, str]:
    """The environment variables by which a process uses these layers, the first nearest to it:
    older loaders go by the order of the folders."""
    folders = [library.parent for library in libraries]
    return {
        "VK_LAYER_PATH": ":".join(map(str, folders)),
        "VK_INSTANCE_LAYERS": ":".join(map(_name, folders)),
    }


def _name(folder: Path) -> str:
    return f"VK_LAYER_TFLGPU_{folder.name}"


def tools() -> tuple[Any, Any]:
    """Returns the modules drivers and archive of the folder tools."""
    sys.path.append(str(ROOT / "tools"))
    return import_module("drivers"), import_module("archive")
