"""Where things are kept between runs: compiled kernel templates and tuning results."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache(name: str) -> Path | None:
    """A folder of this name in the user's cache folder for this package, made when it is absent;
    None where it cannot be made, or when TFLGPU_NO_CACHE is set.
    """
    if os.environ.get("TFLGPU_NO_CACHE"):
        return None
    base = {"win32": "LOCALAPPDATA"}.get(sys.platform, "XDG_CACHE_HOME")
    given = os.environ.get(base)
    try:
        folder = (Path(given) if given else Path.home() / ".cache") / "tflgpu-plugin" / name
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # the latter: this user has no home folder
        return None
    return folder if os.access(folder, os.W_OK) else None
