"""Runs mypy --strict over the package under its installed names.

`providers/` is beside the package in the checkout and installs as `tflgpu_plugin.providers`; a
folder of links shows mypy the tree as it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "types"
PACKAGES = ("tflgpu_plugin", "benchmarks", "conformance", "examples")


def link_tree() -> None:
    package = TREE / "tflgpu_plugin"
    package.mkdir(parents=True, exist_ok=True)
    wanted = {path.name: path for path in (ROOT / "tflgpu_plugin").iterdir()}
    wanted["providers"] = ROOT / "providers"
    for link in package.iterdir():
        link.unlink()
    for name, path in wanted.items():
        (package / name).symlink_to(path)
    beside = {name: ROOT / name for name in PACKAGES[1:]}
    beside["tflgpu_startup.py"] = ROOT / "startup" / "tflgpu_startup.py"
    for name, path in beside.items():
        (TREE / name).unlink(missing_ok=True)
        (TREE / name).symlink_to(path)


def main() -> int:
    link_tree()
    wanted = sys.argv[1:] or PACKAGES
    command = [sys.executable, "-m", "mypy", "--strict", f"--config-file={ROOT / 'pyproject.toml'}"]
    command += [part for package in wanted for part in ("-p", package)]
    done = subprocess.run(
        [*command, f"--cache-dir={ROOT / '.mypy_cache'}"],
        cwd=TREE,
        env=os.environ | {"MYPYPATH": str(TREE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    print(done.stdout.replace("tflgpu_plugin/providers/", "providers/"), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
