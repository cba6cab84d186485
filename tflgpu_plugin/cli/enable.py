"""`tflgpu enable` and `disable`: make `load_delegate("tflgpu")` work in every program without
importing the plugin.

A .pth file in site-packages runs one line at each Python start. That line only registers an import
hook (a few microseconds); the plugin itself is imported when a TFLite host is, so other programs do
not pay for it.
"""

from __future__ import annotations

import site
import sysconfig
from pathlib import Path

FILE = "tflgpu-plugin.pth"
HOSTS = ("tflite_runtime", "ai_edge_litert", "tensorflow")

_HOOK = f"""
class TflgpuHook:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in {HOSTS!r}:
            if cls in sys.meta_path:
                sys.meta_path.remove(cls)
            try:
                import tflgpu_plugin
            except ImportError as error:
                if error.name != "tflgpu_plugin":
                    print(f"WARNING: tflgpu-plugin cannot be imported: {{error}}", file=sys.stderr)
sys.meta_path.insert(0, TflgpuHook)
"""
LINE = f"import sys; exec({_HOOK!r}, {{'sys': sys}})\n"


class EnableError(RuntimeError):
    """The .pth file cannot be written or removed; the text says what to do."""


def folders() -> list[Path]:
    """Where the file may lie: this environment's site-packages, then the user's (outside virtual
    environments).
    """
    found = [Path(sysconfig.get_path("purelib"))]
    if site.ENABLE_USER_SITE:
        found.append(Path(site.getusersitepackages()))
    return found


def enabled() -> list[Path]:
    """The files that are there now."""
    return [folder / FILE for folder in folders() if (folder / FILE).is_file()]


def enable() -> Path:
    """Write the file; returns where. Writing it again is harmless. Raises EnableError."""
    problem: OSError | None = None
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FILE).write_text(LINE, encoding="utf-8")
            return folder / FILE
        except OSError as error:
            problem = problem or error
    raise EnableError(f"{folders()[0]} cannot be written ({problem}). Run this as its owner.")


def disable() -> list[Path]:
    """Remove the file wherever it lies; returns what was removed. Raises EnableError."""
    removed = enabled()
    for path in removed:
        try:
            path.unlink()
        except OSError as error:
            raise EnableError(
                f"{path} cannot be removed ({error}). Run this as its owner."
            ) from error
    return removed
