"""While the driver compiles many kernels, a line of level info says so, once, and a terminal shows
how far it is."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tflgpu_plugin import log
from tflgpu_plugin.ir import Pipeline
from tflgpu_plugin.runtime import pipelines

PIPELINES = tuple(Pipeline(name, f"fn {name}() {{}}", "w") for name in ("a", "b", "c"))


class Cache(pipelines.Pipelines):
    """Stands for a device, which makes pipelines without a driver."""

    def made(self, pipeline: Pipeline, device: Any) -> Any:
        return f"made {pipeline.label}"


@pytest.mark.parametrize(("after", "lines"), [(-1, 1), (1e9, 0)])
def test_compiling_is_information(
    after: float, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[tuple[str, int]]()
    monkeypatch.setattr(pipelines, "SILENT_SECONDS", after)
    monkeypatch.setattr(log, "say", lambda text, level=log.WARNING: said.append((text, level)))
    made = pipelines.make(PIPELINES, None, Cache(), False)
    assert made == ["made a", "made b", "made c"]
    assert [level for _, level in said] == [log.INFO] * lines
    assert all("the driver compiles 3 GPU kernels" in text for text, _ in said)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, to: io.StringIO, level: str = "warning") -> str:
    """Returns what is written to this stream while kernels are made, and then a line."""
    monkeypatch.setattr(pipelines, "SILENT_SECONDS", -1)
    monkeypatch.setattr(sys, "stderr", to)
    before = logging.getLogger(log.NAME).level
    log.set_level(level)
    try:
        pipelines.make(PIPELINES, None, Cache(), False)
        log.write("the end")
    finally:
        logging.getLogger(log.NAME).setLevel(before)
    return to.getvalue()


def test_a_terminal_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is gone before other lines are written."""
    found = shown(monkeypatch, Terminal())
    states = [state for state in found.split("\r") if state.strip()]
    assert states[:3] == [f"tflgpu: the driver compiles GPU kernels, {k} of 3" for k in (1, 2, 3)]
    assert states[3:] == ["the end\n"]
    assert found.split("\r")[-2].strip() == "" and len(found.split("\r")[-2]) == len(states[2])


def test_a_stream_that_can_only_be_written_shows_no_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Programs replace stderr by objects that have less than files have."""
    written = list[str]()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=lambda: None))
    log.progress("one of three")
    log.write("the end")
    assert "".join(written) == "the end\n"


@pytest.mark.parametrize("kind", ["file", "off", "other progress"])
def test_no_progress_is_shown(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    to = io.StringIO() if kind == "file" else Terminal()
    with log.without_progress() if kind == "other progress" else nullcontext():
        found = shown(monkeypatch, to, "off" if kind == "off" else "warning")
    assert found == "the end\n"
