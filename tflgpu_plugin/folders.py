"""Where things are kept between runs: compiled kernel templates and tuning results."""

from __future__ import annotations

import os
import sys
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
        private = _only_ours(folder)
    except (OSError, RuntimeError):  # the latter: this user has no home folder
        return None
    return folder if private and os.access(folder, os.W_OK) else None


def _only_ours(folder: Path) -> bool:
    """Whether nobody but this user may write there (always true where files have no such modes)."""
    if not hasattr(os, "getuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
