"""Compiles our Vulkan layers when they are needed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.engine import ROOT, Unavailable

FOLDER = ROOT / "build" / "layers"
SHARED = ROOT / "benchmarks" / "layer.h"


def build(source: Path) -> Path:
    """Returns the library of a layer, whose name is that of its source (a file, or a folder of
    files), after writing beside it the file by which the loader finds it. Raises Unavailable."""
    folder = FOLDER / source.stem
    library = folder / "layer.so"
    sources = sorted(source.glob("*.c")) if source.is_dir() else [source]
    written = max(path.stat().st_mtime for path in (*source.glob("*.h"), *sources, SHARED))
    if library.exists() and library.stat().st_mtime > written:
        return library
    drivers, archive = tools()
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    try:
        include = [f"-I{path}" for path in (drivers.headers("libvulkan-dev"), SHARED.parent)]
        subprocess.run(["cc", *flags, *include, *map(str, sources), "-o", str(library)], check=True)
    except archive.Unavailable as error:
        raise Unavailable(f"Vulkan's headers are missing: {error}") from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"The layer {source.name} cannot be compiled: {error}") from error
    layer = {
        "name": _name(folder), "type": "GLOBAL", "library_path": str(library),
        "api_version": "1.3.0", "implementation_version": "1", "description": source.stem,
    }  # fmt: skip
    described = {"file_format_version": "1.1.2", "layer": layer}
    (folder / "layer.json").write_text(json.dumps(described))
    return library


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
