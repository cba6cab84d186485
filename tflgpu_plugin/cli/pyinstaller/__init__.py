"""Tells PyInstaller, through an entry point, where the hook is that adds to frozen programs the
files that this package needs at run time."""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Returns the folders in which PyInstaller looks for hooks."""
    return [str(Path(__file__).parent)]
