"""`tflgpu enable` and `disable`: register the plugin with the hosts in every program, and undo it.

A .pth file in site-packages runs one line at each Python start, which registers an import hook of
tflgpu_startup.py (a few microseconds); the plugin itself is imported only after a host,
so other programs do not pay for it. The file is added to the package's list of installed files, so
that uninstalling the package removes it."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import os
import site
import sysconfig
from contextlib import suppress
from pathlib import Path

FILE = "tflgpu-plugin.pth"
PROVIDERS = ("tflite", "onnxruntime")


def line(providers: tuple[str, ...]) -> str:
    """Returns the content of the .pth file: one line, which does nothing once the package has
    been removed."""
    code = (
        "try:\n import tflgpu_startup\nexcept ImportError: pass\n"
        f"else: tflgpu_startup.enable{providers!r}"
    )
    return f"import sys; exec({code!r})\n"


class EnableError(RuntimeError):
    """The .pth file cannot be written or removed; the text says what to do."""


def folders() -> list[Path]:
    """Returns the folders that may contain the .pth file: this environment's site-packages, then
    the user's, unless Python ignores that one (as in most virtual environments)."""
    found = [Path(sysconfig.get_path("purelib"))]
    if site.ENABLE_USER_SITE:
        found.append(Path(site.getusersitepackages()))
    return found


def enabled() -> list[Path]:
    """Returns the .pth files that exist."""
    return [folder / FILE for folder in folders() if (folder / FILE).is_file()]


def serves_onnxruntime(path: Path) -> bool:
    """Whether this .pth file (one of `enabled()`) also registers the plugin with ONNX Runtime."""
    return PROVIDERS[1] in path.read_text(encoding="utf-8")


def enable(onnxruntime: bool = True) -> Path:
    """Writes the .pth file, replacing an existing one, and returns its path. Raises
    EnableError."""
    problem: OSError | None = None
    text = line(PROVIDERS if onnxruntime else PROVIDERS[:1])
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FILE).write_text(text, encoding="utf-8")
        except OSError as error:
            problem = problem or error
            continue
        _record(folder / FILE, True)
        return folder / FILE
    raise EnableError(f"{folders()[0]} cannot be written ({problem}). Run this as its owner.")


def disable() -> list[Path]:
    """Removes the .pth file from all folders and returns the removed paths. Raises
    EnableError."""
    removed = enabled()
    for path in removed:
        try:
            path.unlink()
        except OSError as error:
            raise EnableError(
                f"{path} cannot be removed ({error}). Run this as its owner."
            ) from error
        _record(path, False)
    return removed


def _record(path: Path, present: bool) -> None:
    """Adds the .pth file to the list of the installed package's files, or removes it from that
    list. If the list cannot be written, the file outlives the package, and does nothing."""
    with suppress(OSError, importlib.metadata.PackageNotFoundError):
        files = importlib.metadata.files("tflgpu-plugin") or []
        own = next((file for file in files if file.match("*.dist-info/RECORD")), None)
        if own is None:
            return
        record = Path(str(own.locate()))
        root = record.parents[1]
        name = path.name if path.parent.resolve() == root.resolve() else str(path)
        rows = list(csv.reader(io.StringIO(record.read_text(encoding="utf-8"))))
        kept = [row for row in rows if row and row[0] != name]
        if present:
            kept.append([name, "", ""])
        if kept != rows:
            _replace(record, kept)


def _replace(record: Path, rows: list[list[str]]) -> None:
    made = record.with_name(f"RECORD.{os.getpid()}")
    try:
        with made.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        os.replace(made, record)
    except OSError:
        made.unlink(missing_ok=True)
        raise
