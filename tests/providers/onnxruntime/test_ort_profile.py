"""Tests that onnxruntime's own profile holds the launches of a session, with the names of nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import onnx_models
from tflgpu_plugin.harness import onnx

if reason := onnx.missing():
    pytest.skip(reason, allow_module_level=True)

import onnxruntime

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 25),
        reason="onnxruntime has profilers of providers from 1.25 on",
    ),
]
SHAPE, FEEDS = (4, 4), {"x": np.ones((4, 4), np.float32)}
NAMES = "first", "on_the_cpu", "second"


def model(names: tuple[str, str, str]) -> bytes:
    nodes = [
        onnx_models.node("MatMul", ["x", "w"], ["a"], name=names[0]),
        onnx_models.node("Relu", ["a"], ["b"], name=names[1]),
        onnx_models.node("MatMul", ["b", "w"], ["c"], name=names[2]),
    ]
    weights = {"w": np.linspace(-1, 1, 16).astype(np.float32).reshape(SHAPE)}
    return onnx_models.model(nodes, {"x": SHAPE}, {"c": SHAPE}, weights)


def session(folder: Path | None, names: tuple[str, str, str] = NAMES) -> Any:
    """Returns a session of two partitions, profiled in this folder."""
    settings = onnx.settings(optimized=False)
    if folder is not None:
        settings.enable_profiling, settings.profile_file_prefix = True, str(folder / "profile")
    return onnx.opened(model(names), settings, {"force": "1", "exclude": names[1]})


def events(session: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text())
    return found


def test_launches_have_the_names_of_nodes(tmp_path: Path) -> None:
    """Each run has every launch, inside the time that the host took for the run."""
    profiled, other = session(tmp_path), session(None)
    for _ in range(2):
        profiled.run(None, FEEDS)
        other.run(None, FEEDS)
    found = events(profiled)
    runs = [event for event in found if event["name"] == "model_run"]
    kernels = [event for event in found if event["cat"] == "Kernel"]
    assert [event["name"].partition(": ")[2] for event in kernels] == [NAMES[0], NAMES[2]] * 2
    for event, run in zip(kernels, (runs[0], runs[0], runs[1], runs[1]), strict=True):
        assert event["ph"] == "X" and event["args"]["provider"] == onnx_models.EP
        assert run["ts"] <= event["ts"] + event["dur"] <= run["ts"] + run["dur"]
    moved = [event["name"] for event in found if event["cat"] == "Api"]
    assert moved == ["tflgpu upload", "tflgpu download"] * 4


def test_a_profile_ends_when_its_session_does(tmp_path: Path) -> None:
    """Without end_profiling, onnxruntime writes the profile when the session ends."""
    one = session(tmp_path)
    one.run(None, FEEDS)
    del one
    (written,) = tmp_path.iterdir()
    assert any(event["cat"] == "Kernel" for event in json.loads(written.read_text()))


@pytest.mark.parametrize("letter", ["\u00e9", "\u5bbd", "\U0001d54f"])
@pytest.mark.parametrize("start", range(4))
def test_long_names_end_with_a_whole_character(tmp_path: Path, letter: str, start: int) -> None:
    """A profile is UTF-8, also where a name is cut."""
    long = "a" * start + 300 * letter
    one = session(tmp_path, (long, NAMES[1], "short"))
    one.run(None, FEEDS)
    first = next(event["name"] for event in events(one) if event["cat"] == "Kernel")
    assert "\ufffd" not in first and len(first.encode()) > 500
    assert first.partition(": ")[2] == long[: len(first.partition(": ")[2])]


def test_runs_after_the_end_are_not_in_a_profile(tmp_path: Path) -> None:
    one = session(tmp_path)
    one.run(None, FEEDS)
    found = events(one)
    one.run(None, FEEDS)
    assert sum(event["cat"] == "Kernel" for event in found) == 2
