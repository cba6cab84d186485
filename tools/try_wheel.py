"""Tries the wheel of dist/ in fresh environments: each Python, with either host and with both.

Usage: python tools/try_wheel.py [PYTHON...]; by default 3.11 to 3.14, as far as they are on PATH.

Each environment gets the wheel with its extras, binaries only, and runs `tflgpu demo`, which
compares with the hosts' CPU kernels. `make wheel` makes the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("tflite", "onnxruntime", "tflite,onnxruntime")


def tried(python: str, extras: str, wheel: Path) -> tuple[bool, str]:
    """Whether the demo agreed in an environment of this Python, and in which hosts, or why not."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder) / "bin"
        install = [str(programs / "pip"), "install", "-q", "--disable-pip-version-check"]
        commands = (
            [python, "-m", "venv", folder],
            [*install, "--only-binary=:all:", f"{wheel}[{extras}]"],
            [str(programs / "tflgpu"), "demo", "--runs", "1"],
        )
        for command in commands:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                lines = (done.stdout + done.stderr).strip().splitlines()
                return False, lines[-1] if lines else f"status {done.returncode}"
    hosts = re.findall(r"(?:tflite-runtime|ai-edge-litert|onnxruntime) [\d.]+", done.stdout)
    agreed = len(re.findall(r"^All \d+ tensors agree\.$", done.stdout, re.MULTILINE))
    return agreed == len(hosts) == 1 + extras.count(","), f"{', '.join(hosts)}: {agreed} agree"


def main(arguments: list[str]) -> int:
    wheels = sorted((ROOT / "dist").glob("tflgpu_plugin-*.whl"))
    if len(wheels) != 1:
        print("There is no wheel in dist/, or more than one: run make wheel.", file=sys.stderr)
        return 2
    pythons = arguments or [p for v in VERSIONS if (p := shutil.which(f"python{v}"))]
    bad = 0
    for python in pythons:
        for extras in EXTRAS:
            ok, text = tried(python, extras, wheels[0])
            bad += not ok
            print(f"{'ok' if ok else 'FAIL':<5} {python} [{extras}]: {text}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
