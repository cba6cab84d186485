"""Vulkan drivers opened before the Vulkan loader does, so that each calls its own LLVM, whatever
else the process holds or will hold.

TensorFlow's libraries, for one, export an LLVM to the whole process. Where one is loaded already
(`tg_llvm_is_exported`), a driver must look into its own libraries first; else it is enough that all
its calls are bound now, and not when each is made for the first time, as the loader has it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tflgpu_plugin import trusted

NO_LAYER = "NODEVICE_SELECT"  # without Mesa's device-select layer, whose own variables follow
CHOICE = (
    NO_LAYER,
    "MESA_VK_DEVICE_SELECT",
    "MESA_VK_DEVICE_SELECT_FORCE_DEFAULT_DEVICE",
    "DRI_PRIME",
)

MOST_BYTES = 1 << 20  # of a manifest file


def open_ahead(lib: Any) -> None:
    """Have our shared library, `lib`, open that of every driver that the Vulkan loader would find;
    the loader gets the same ones."""
    alone = lib.tg_llvm_is_exported()
    for library in dict.fromkeys(libraries()):
        with suppress(UnicodeError):  # no file has that name
            lib.tg_open_driver(os.fsencode(library), alone)


@contextmanager
def quiet() -> Iterator[None]:
    """Vulkan instances that are made meanwhile are without Mesa's device-select layer, where it
    would complain on stderr once per adapter that there is no desktop to ask for the preferred GPU.
    It stays for users who choose by it.

    The variable is set in C's environment alone, so that no thread sees `os.environ` change.
    """
    if os.path.isabs(os.environ.get("XDG_RUNTIME_DIR", "")) or any(map(os.environ.get, CHOICE)):
        yield
        return
    os.putenv(NO_LAYER, "1")
    try:
        yield
    finally:
        if NO_LAYER in os.environ:  # empty, or set by another thread meanwhile
            os.putenv(NO_LAYER, os.environ[NO_LAYER])
        else:
            os.unsetenv(NO_LAYER)


def libraries() -> Iterator[str]:
    """What the drivers' manifest files name: paths, or names for the system's search."""
    for manifest in manifests():
        try:
            if not manifest.is_file() or manifest.stat().st_size > MOST_BYTES:
                continue
            named = json.loads(manifest.read_text())["ICD"]["library_path"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
        if isinstance(named, str) and named:
            yield str(manifest.parent / named) if "/" in named else named


def manifests() -> Iterator[Path]:
    """The manifest files that the Vulkan loader takes, less those that its variables leave out."""
    chosen = os.environ.get("VK_LOADER_DRIVERS_SELECT") or "*"
    left_out = os.environ.get("VK_LOADER_DRIVERS_DISABLE") or ""
    for path in _found():
        if _named(path, chosen) and not _named(path, left_out):
            yield path


def _named(path: Path, patterns: str) -> bool:
    """One of these patterns, with commas between them, is that of the file's name."""
    return any(fnmatch(path.name.lower(), pattern) for pattern in patterns.lower().split(","))


def _found() -> Iterator[Path]:
    """All manifest files: those that the loader's variables name, or the usual folders'."""
    get = trusted.variable  # the loader itself leaves them out in privileged processes
    named = get("VK_DRIVER_FILES") or get("VK_ICD_FILENAMES") or ""
    added = get("VK_ADD_DRIVER_FILES") or ""
    for name in filter(None, (added + os.pathsep + named).split(os.pathsep)):
        path = Path(name)
        yield from sorted(path.glob("*.json")) if os.path.isdir(path) else [path]
    if named:
        return
    home = Path(get("HOME") or "/nonexistent")
    folders = [get("XDG_CONFIG_HOME") or home / ".config"]
    folders += (get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    folders += ["/etc", get("XDG_DATA_HOME") or home / ".local/share"]
    folders += (get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(os.pathsep)
    for folder in folders:
        yield from sorted(Path(folder, "vulkan", "icd.d").glob("*.json"))
