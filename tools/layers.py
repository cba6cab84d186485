"""Runs import-linter's contracts (pyproject.toml) over the package as it is installed.

`providers/` is beside the package in the checkout and installs as `tflgpu_plugin.providers`, so the
Python files are copied to the paths of an installation."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    from importlinter.cli import lint_imports

    with tempfile.TemporaryDirectory(prefix="tflgpu-layers-") as folder:
        package = Path(folder) / "tflgpu_plugin"
        for source, target in (("tflgpu_plugin", package), ("providers", package / "providers")):
            shutil.copytree(ROOT / source, target, ignore=_no_python)
        sys.meta_path[:] = [BuiltinImporter, FrozenImporter, PathFinder]  # no editable installs
        os.chdir(folder)  # import-linter looks there first
        return lint_imports(str(ROOT / "pyproject.toml"), cache_dir=None)


def _no_python(folder: str, names: list[str]) -> list[str]:
    return [
        name
        for name in names
        if name == "__pycache__" or not (name.endswith(".py") or (Path(folder) / name).is_dir())
    ]


if __name__ == "__main__":
    sys.exit(main())
