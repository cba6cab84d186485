"""`tflgpu conformance`: runs the conformance suite, which the wheel holds, with pytest in a process
of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import tflgpu_plugin
from tflgpu_plugin.cli.exits import DIFFERS, FINE, INTERRUPTED, UNUSABLE
from tflgpu_plugin.runtime import adapter

NAME = "conformance"
NEEDED = {  # modules, with what to install for them
    "pytest": "pytest", "xdist": "pytest-xdist", "flatbuffers": "flatbuffers", "onnx": "onnx",
    "ai_edge_litert": "ai-edge-litert", "PIL": "pillow",
}  # fmt: skip
# By pytest's status, which is negative after a signal. 2: tests could not be collected, or Ctrl-C.
STATUS = {0: FINE, 1: DIFFERS, 2: UNUSABLE, 4: UNUSABLE, 5: UNUSABLE}
PREFIX = re.compile(r"^ERROR: (?=\S)")  # of pytest's sentences about options


@dataclass(frozen=True)
class Request:
    """The arguments: the folder of the report; what is tested, as in the options of the suite, ""
    for all; only the quick part; and the number of processes."""

    out: Path
    op: str = ""
    dtype: str = ""
    host: str = ""
    adapter: str = ""
    quick: bool = False
    jobs: int = 1


@dataclass(frozen=True)
class Done:
    """The exit status, the page of the report, and the number of tests by their outcome."""

    status: int
    report: str
    counts: dict[str, int]


def run(request: Request, quiet: bool = False) -> Done:
    """Runs the suite; its progress goes to stdout, or to stderr if `quiet`. Raises NoAdapter, or
    ImportError with a sentence where something is not installed."""
    adapter.select(request.adapter or None)
    missing = [name for module, name in NEEDED.items() if not importlib.util.find_spec(module)]
    if missing:
        raise ImportError(
            f"The conformance suite needs {', '.join(missing)}. "
            "Run: pip install 'tflgpu-plugin[conformance]'"
        )
    request.out.mkdir(parents=True, exist_ok=True)
    (request.out / "report.json").unlink(missing_ok=True)
    status = _ended(_command(request), quiet)
    return Done(status, str(request.out / "report.html"), _counts(request.out / "report.json"))


def _ended(command: list[str], quiet: bool) -> int:
    """Runs the suite's process to its end; returns the status for it."""
    interrupted = False
    with subprocess.Popen(
        command, stdout=2 if quiet else None, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as suite:
        assert suite.stderr is not None
        while True:
            try:
                for line in suite.stderr:
                    click.echo(PREFIX.sub("Error: ", line), err=True, nl=False)
                suite.wait()
                break
            except KeyboardInterrupt:  # which the suite gets, too: it writes its report and ends
                interrupted = True
    if interrupted:
        return INTERRUPTED
    if suite.returncode not in STATUS:
        click.echo(f"The suite has not come to its end (status {suite.returncode}).", err=True)
    return STATUS.get(suite.returncode, DIFFERS)


def _command(request: Request) -> list[str]:
    folder = root()
    words = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    words += ["-p", "no:logging", "-c", os.devnull, "--rootdir", str(folder), str(folder / NAME)]
    words += ["--report", str(request.out.resolve())]
    for name in ("op", "dtype", "host", "adapter"):
        if value := getattr(request, name):
            words += [f"--{name}", value]
    words += ["-m", "quick"] if request.quick else []
    return words + (["-n", str(request.jobs)] if request.jobs > 1 else [])


def root() -> Path:
    """Returns the folder with the suite: that of the installed package, or the checkout. Raises
    ImportError with a sentence where neither has it."""
    beside = Path(tflgpu_plugin.__file__).parents[1]
    for place in (beside / "tflgpu_suite", beside):
        if (place / NAME / "conftest.py").is_file():
            return place
    raise ImportError(
        "This installation of tflgpu-plugin lacks the conformance suite. "
        "Run: pip install --force-reinstall tflgpu-plugin"
    )


def _counts(path: Path) -> dict[str, int]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # no test ran
        return {}
    return dict(found["counts"])
