"""Opens Vulkan drivers before the Vulkan loader does, so that each calls its own LLVM, whatever
other libraries the process has or will have.

TensorFlow's libraries, for example, export their LLVM to the whole process. If one is loaded
already (`tg_llvm_is_exported`), a driver must search its own libraries first. Otherwise it is
enough to bind all its calls now; the Vulkan loader would bind each at its first use."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tflgpu_plugin import trusted

NO_LAYER = "NODEVICE_SELECT"  # disables Mesa's device-select layer, whose variables follow
CHOICE = (
    NO_LAYER,
    "MESA_VK_DEVICE_SELECT",
    "MESA_VK_DEVICE_SELECT_FORCE_DEFAULT_DEVICE",
    "DRI_PRIME",
)

MAX_BYTES = 1 << 20  # limit for a manifest file


def open_ahead(lib: Any) -> None:
    """Has our shared library, `lib`, open every driver that the Vulkan loader would find; the
    loader then gets the same ones."""
    alone = lib.tg_llvm_is_exported()
    for library in dict.fromkeys(libraries()):
        with suppress(UnicodeError):  # no file has that name
            lib.tg_open_driver(os.fsencode(library), alone)


@contextmanager
def quiet() -> Iterator[None]:
    """Lets Vulkan instances be created without Mesa's device-select layer while the context is
    entered. That layer would complain on stderr, once per adapter, that there is no desktop to ask
    for the preferred GPU. Users who select a GPU with this layer keep it.

    The variable is set in C's environment only, so that no thread sees `os.environ` change."""
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
    """Yields the libraries in the drivers' manifest files: paths, or names that the system looks
    up."""
    for manifest in manifests():
        try:
            if not manifest.is_file() or manifest.stat().st_size > MAX_BYTES:
                continue
            named = json.loads(manifest.read_text())["ICD"]["library_path"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
        if isinstance(named, str) and named:
            yield str(manifest.parent / named) if "/" in named else named


def manifests() -> Iterator[Path]:
    """Yields the manifest files that the Vulkan loader uses, without those that its variables
    exclude."""
    chosen = os.environ.get("VK_LOADER_DRIVERS_SELECT") or "*"
    left_out = os.environ.get("VK_LOADER_DRIVERS_DISABLE") or ""
    for path in _found():
        if _named(path, chosen) and not _named(path, left_out):
            yield path


def _named(path: Path, patterns: str) -> bool:
    """Returns whether the file's name matches one of these comma-separated patterns."""
    return any(fnmatch(path.name.lower(), pattern) for pattern in patterns.lower().split(","))


def _found() -> Iterator[Path]:
    """Yields all manifest files: those in the loader's variables, or those of the usual folders."""
    get = trusted.variable  # the loader, too, ignores them in privileged processes
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
