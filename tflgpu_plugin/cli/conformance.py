"""`tflgpu conformance`: runs the conformance suite, which the wheel holds, with pytest in a process
of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import tflgpu_plugin
from tflgpu_plugin.cli.exits import DIFFERS, FINE, INTERRUPTED, UNUSABLE
from tflgpu_plugin.runtime import adapter

NAME = "conformance"
GRACE = 20  # seconds for the suite to write its report after the signal that ends it
NEEDED = {  # modules, with what to install for them
    "pytest": "pytest", "xdist": "pytest-xdist", "flatbuffers": "flatbuffers", "onnx": "onnx",
    "ai_edge_litert": "ai-edge-litert", "PIL": "pillow",
}  # fmt: skip
BAD = ("FAIL", "REFUSED")  # outcomes of tests, unless a refusal was expected
# By pytest's status, which is negative after a signal. 2: tests could not be collected, or Ctrl-C.
STATUS = {0: FINE, 1: DIFFERS, 2: UNUSABLE, 4: UNUSABLE, 5: UNUSABLE}
PREFIX = re.compile(r"^ERROR: (?=\S)")  # of pytest's sentences about options


@dataclass(frozen=True)
class Request:
    """The arguments: the folder of the report; what is tested, as in the options of the suite, ""
    for all; only the quick part; and the number of processes. After `seconds` the suite ends as
    after Ctrl-C, with a report of the tests so far; None: when all are done."""

    out: Path
    op: str = ""
    dtype: str = ""
    host: str = ""
    adapter: str = ""
    quick: bool = False
    jobs: int = 1
    seconds: float | None = None


@dataclass(frozen=True)
class Done:
    """The exit status, the page of the report, and the number of results by their outcome."""

    status: int
    report: str
    counts: dict[str, int]

    def bad(self) -> list[dict[str, Any]]:
        """Returns the records of the report that make the suite fail."""
        if not self.counts:
            return []
        records = _read(Path(self.report).with_suffix(".json")).get("records", [])
        return [one for one in records if one["outcome"] in BAD and not one.get("expected_refusal")]


def run(request: Request, out: int | None = None) -> Done:
    """Runs the suite; its progress goes to stdout, or to `out` as in `subprocess`. Raises
    NoAdapter, or ImportError with a sentence where something is not installed."""
    adapter.select(request.adapter or None)
    missing = [name for module, name in NEEDED.items() if not importlib.util.find_spec(module)]
    if missing:
        raise ImportError(
            f"The conformance suite needs {', '.join(missing)}. "
            "Run: pip install 'tflgpu-plugin[conformance]'"
        )
    report, fresh = request.out / "report.json", not request.out.exists()
    request.out.mkdir(parents=True, exist_ok=True)
    before = _written(report)
    status = _ended(request, out)
    if fresh and not any(request.out.iterdir()):
        request.out.rmdir()  # what was asked for is not there
    counts = _read(report).get("counts", {}) if _written(report) != before else {}
    return Done(status, str(request.out / "report.html"), dict(counts))


def _written(report: Path) -> tuple[int, int] | None:
    """Returns what tells a file from one that was written in its place; None without a file."""
    try:
        found = report.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino


def _ended(request: Request, out: int | None) -> int:
    """Runs the suite's process to its end; returns the status for it."""
    interrupted, pipe = False, subprocess.PIPE
    with (
        subprocess.Popen(
            _command(request), stdout=out, stderr=pipe, text=True, errors="replace"
        ) as suite,
        _ending(suite, request.seconds),
    ):
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


@contextmanager
def _ending(suite: subprocess.Popen[str], seconds: float | None) -> Iterator[None]:
    """Ends the suite after this time, if it is still running then; kills it where it does not end,
    since a driver that hangs sees no signal."""
    timers = []
    if seconds is not None:
        timers = [
            threading.Timer(seconds, suite.terminate),
            threading.Timer(seconds + GRACE, suite.kill),
        ]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


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


def _read(path: Path) -> dict[str, Any]:
    """Returns a report, {} where no test has run."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found
