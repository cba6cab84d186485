"""Runs programs from the index unmodified, with `tflgpu exec` and without, and compares their
answers.

Usage: python tools/programs.py [--folder FOLDER] [PROGRAM...]

Installs the wheel in dist/ (`make wheel`) and the programs, all of which contain their models, into
an environment in FOLDER. Prints a line for each program: whether the answers agree (the same texts,
and numbers within TOLERANCE), the nodes on the GPU, and the first answers. Status 1: a program
differs, fails, or has no node on the GPU. docs/programs.md has the table of all that were
tried."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-3
SECONDS = 600  # of a run
PICTURE = """
from PIL import Image, ImageDraw, ImageFont
picture = Image.new("RGB", (640, 200), "white")
for row, text in enumerate(("Hello world 42", "Second line")):
    ImageDraw.Draw(picture).text((20, 20 + 90 * row), text, "black", ImageFont.load_default(48))
picture.save("page.png")
"""
PROGRAMS: Mapping[str, str] = {  # what prints the answers as JSON, by the package
    "rapidocr-onnxruntime": """
from rapidocr_onnxruntime import RapidOCR
print(json.dumps([[text, float(score)] for _, text, score in RapidOCR()("page.png")[0]]))
""",
    "rapidocr": """
from rapidocr import RapidOCR
found = RapidOCR()("page.png")
print(json.dumps([list(found.txts), list(map(float, found.scores))]))
""",
    "nudenet": """
import numpy as np
from nudenet import NudeDetector
session = NudeDetector().onnx_session
shape = [n if isinstance(n, int) else size
         for n, size in zip(session.get_inputs()[0].shape, (1, 3, 320, 320))]
x = np.random.default_rng(0).random(shape, np.float32)
print(json.dumps(session.run(None, {session.get_inputs()[0].name: x})[0].max(-1).ravel().tolist()))
""",
    "magika": """
from magika import Magika
for text in (b"import os\\nprint(os.getcwd())\\n", b"<html><p>text</p></html>", b"a,b\\n1,2\\n"):
    found = Magika().identify_bytes(text * 20)
    print(json.dumps([found.output.label, found.score]))
""",
}


def environment(folder: Path, names: Sequence[str]) -> Path:
    """Returns the Python of an environment with the wheel and these packages."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (wheel,) = (ROOT / "dist").glob("tflgpu_plugin-*.whl")
    pip = [str(python), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "opencv-python-headless", "pillow", *names], check=True)
    subprocess.run([*pip, "--force-reinstall", "--no-deps", str(wheel)], check=True)
    subprocess.run([*pip, str(wheel)], check=True)
    return python


def answers(python: Path, folder: Path, name: str, *before: str) -> tuple[list[Any], Any]:
    """Returns the answers of a program, and the summary of `tflgpu exec` if `before` starts it."""
    file = folder / f"run_{name}.py"
    file.write_text(f"import json\n{PROGRAMS[name]}", encoding="utf-8")
    done = subprocess.run(
        [str(python), *before, str(file)],
        cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return found, json.loads(done.stderr.splitlines()[-1]) if before else None


def agree(one: Any, other: Any) -> bool:
    """Whether texts are equal, numbers within TOLERANCE, and lists of them as long."""
    if isinstance(one, list):
        same = isinstance(other, list) and len(one) == len(other)
        return same and all(map(agree, one, other))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/programs")
    parser.add_argument("programs", nargs="*", default=[*PROGRAMS])
    given = parser.parse_args(arguments)
    folder, bad = given.folder.resolve(), 0
    folder.mkdir(parents=True, exist_ok=True)
    python = environment(folder / "venv", given.programs)
    subprocess.run([str(python), "-c", PICTURE], cwd=folder, check=True)
    for name in given.programs:
        try:
            expected, _ = answers(python, folder, name)
            words = ("-m", "tflgpu_plugin", "exec", "--json", "--")
            found, summary = answers(python, folder, name, *words)
        except (subprocess.SubprocessError, ValueError, IndexError) as error:
            said = str(getattr(error, "stderr", "")).splitlines()[-1:]
            print("FAILS", name, type(error).__name__, *said, sep=" | ", flush=True)
            bad += 1
            continue
        same = bool(expected) and agree(expected, found) and summary["nodes_on_gpu"] > 0
        nodes = f"{summary['nodes_on_gpu']} of {summary['nodes']} nodes"
        print("agrees" if same else "DIFFERS", name, nodes, str(found)[:100], sep=" | ", flush=True)
        bad += not same
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
