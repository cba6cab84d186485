"""Writes the part of a model that is wrong on the GPU as a small model, with a program that shows
the difference."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin import engine
from tflgpu_plugin.frontend.reports import many
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.harness.bisect import Cut, Wrong
from tflgpu_plugin.harness.compare import Comparison, Subject, compare, judged
from tflgpu_plugin.harness.inputs import BadInput
from tflgpu_plugin.harness.parts import before

PROGRAM = '''\
"""Compares a result of tflgpu-plugin with the one that the CPU kernels have computed.

{facts}
"""

import sys
from pathlib import Path

import numpy as np
import tflgpu_plugin
from tflgpu_plugin.harness.agreement import difference

HERE = Path(__file__).resolve().parent
OPTIONS = {options}
INPUTS = {{name: np.load(HERE / file) for name, file in {files}.items()}}
ALLOWED = {allowed}  # the largest difference of results that agree

{program}
apart = difference(np.load(HERE / "expected.npy"), got)
print(f"The largest difference is {{apart:.3g}}; {{ALLOWED:.3g}} is allowed.")
sys.exit(0 if apart <= ALLOWED else 1)
'''
LISTED = "# The files of this folder: "  # the start of the last line of run.py


@dataclass(frozen=True)
class Repro:
    """The result of `write`: the folder, how many nodes of the model its model has, and whether
    the results of that differ, too."""

    folder: str
    nodes: int
    differs: bool

    def line(self) -> str:
        wrote = f"Wrote {many(self.nodes, 'node')} of the model to {self.folder}"
        if self.differs:
            return f"{wrote}; `python {self.folder}/run.py` shows the difference."
        return f"{wrote}, which agree alone: the fault depends on more of the model."


@dataclass(frozen=True)
class _Tried:
    """A part of a model that was compared, with its kernels by name."""

    subject: Subject
    comparison: Comparison
    kernels: Mapping[str, str]


def write(
    folder: Path, subject: Subject, wrong: Wrong, options: Mapping[str, Any], tolerance: float
) -> Repro:
    """Writes the smallest part of the model around the cut of a wrong result that differs, or the
    largest one. Raises OSError, BadInput, or what the host raises."""
    assert wrong.cut
    for tried in _parts(subject.fixed(), wrong.cut, options, tolerance):
        if not tried.comparison.agrees:
            break
    part, (agreement,) = tried.subject, tried.comparison.agreements
    (expected,) = judged(part)[0].run()
    folder.mkdir(parents=True, exist_ok=True)
    for name in _ours(folder):
        (folder / name).unlink(missing_ok=True)
    (folder / part.file).write_bytes(part.content)
    files = {name: f"input{number}.npy" for number, name in enumerate(part.given())}
    for name, value in part.given().items():
        np.save(folder / files[name], value)
    np.save(folder / "expected.npy", expected)
    for name, wgsl in tried.kernels.items():
        (folder / f"{name}.wgsl").write_text(wgsl, encoding="utf-8")
    program = PROGRAM.format(
        facts="\n".join(_facts(wrong, tried.comparison)), options=dict(options), files=files,
        allowed=agreement.allowed, program=part.program,
    )  # fmt: skip
    names = ", ".join(["run.py", *sorted(path.name for path in folder.iterdir())])
    (folder / "run.py").write_text(f"{program}{LISTED}{names}\n", encoding="utf-8")
    return Repro(str(folder), len(part.nodes()), not tried.comparison.agrees)


def refuse(folder: Path, model: Path) -> None:
    """Raises BadInput if the folder has other files than those of an earlier `write`, or the
    model."""
    if not folder.is_dir():
        return
    others = {path.name for path in folder.iterdir()} - _ours(folder)
    if others or model.resolve().parent == folder.resolve():
        raise BadInput(f"{folder} holds other files: choose a new or an empty folder.")


def _ours(folder: Path) -> set[str]:
    """Returns the names of the files that an earlier `write` wrote into the folder."""
    program = folder / "run.py"
    text = program.read_text(encoding="utf-8", errors="replace") if program.is_file() else ""
    *_, last = text.splitlines() or [""]
    if not last.startswith(LISTED):
        return set()
    return {Path(name).name for name in last.removeprefix(LISTED).split(", ")}


def _parts(
    subject: Subject, cut: Cut, options: Mapping[str, Any], tolerance: float
) -> Iterator[_Tried]:
    """Yields the part of the model, and then parts that begin twice as far before it each time, up
    to the one that begins at the model's inputs."""
    nodes, sources, steps, size = subject.nodes(), set(cut.sources), 1, 0
    while size < len((part := subject.part(sources, cut.result)).nodes()):
        size = len(part.nodes())
        with engine.watch() as built:
            found = compare(part, options, 1, (), tolerance)
        pipelines = (one for _, made in built for one in made.plan.pipelines)
        yield _Tried(part, found, {one.name: one.wgsl for one in pipelines})
        for _ in range(steps):
            sources = before(nodes, sources)
        steps *= 2


def _facts(wrong: Wrong, found: Comparison) -> Iterator[str]:
    yield "In the whole model it is computed by:"
    yield from (f"  {one.line()}" for one in wrong.suspects)
    yield f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    yield f"tflgpu-plugin {hosts.version('tflgpu-plugin')}, {found.host}"
    if found.report.adapter:
        used = found.report.adapter
        yield ", ".join(filter(None, (used.name, used.driver, used.backend)))
