"""What is kept between runs: kernels and their compiled templates, tuning results, plans."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def cache(name: str) -> Path | None:
    """A folder of this name in the user's cache folder for this package, made when it is absent;
    None where it cannot be made, where somebody else could write to it (compiled templates are
    code), or when TFLGPU_NO_CACHE is set.
    """
    if os.environ.get("TFLGPU_NO_CACHE"):
        return None
    base = {"win32": "LOCALAPPDATA"}.get(sys.platform, "XDG_CACHE_HOME")
    given = os.environ.get(base)
    try:
        folder = (Path(given) if given else Path.home() / ".cache") / "tflgpu-plugin" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = unsafe(folder) is None
    except (OSError, RuntimeError):  # the latter: this user has no home folder
        return None
    return folder if private and os.access(folder, os.W_OK) else None


def keep(place: Path, text: str) -> None:
    """Write a file of a cache folder, all of it or nothing; what goes wrong costs the next process
    its time, nothing else.
    """
    import tempfile

    with suppress(OSError):
        handle, part = tempfile.mkstemp(".part", dir=place.parent)
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
        os.replace(part, place)


def unsafe(place: Path | int) -> str | None:
    """A sentence that says why others may write to this folder or file (a path, or the number of
    an open one), None when only this user may (always where files have no such modes). Raises
    OSError.
    """
    if not hasattr(os, "getuid"):
        return None
    status = os.stat(place)
    if status.st_uid != os.getuid():
        return "It belongs to another user; name one of your own."
    if status.st_mode & 0o022:
        return "Others can write to it. Run chmod go-w on it, or name one of your own."
    return None
