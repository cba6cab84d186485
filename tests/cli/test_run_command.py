"""Tests the command `tflgpu run`: exit statuses, messages, JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conformance import host as hosts
from tests.support import batches
from tflgpu_plugin.cli.commands import main

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not hosts.installed(), reason="no TFLite host: pip install -e .[tflite]"),
]


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """Returns a model, and a folder of five inputs."""
    model, folder = batches.model(tmp_path), batches.arrays(tmp_path / "in", batches.values(5))
    return [str(model), str(folder)]


def run(*words: Any) -> Any:
    return CliRunner().invoke(main, ["run", *map(str, words)])


def test_all_is_well(given: list[str], tmp_path: Path) -> None:
    done = run(*given, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["inputs"], found["done"], found["failures"]) == (5, 5, [])


def test_inputs_without_results(given: list[str], tmp_path: Path) -> None:
    """Each has a message; status 1 distinguishes this from a run that could not start."""
    (tmp_path / "in" / "0001.npy").write_bytes(b"")
    done = run(*given, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert f"{tmp_path / 'in' / '0001.npy'}: it cannot be read" in done.stderr
    assert "4 of 5 inputs have results" in done.stdout
    done = run(*given, "--out", tmp_path / "more", "--json")
    (failure,) = json.loads(done.stdout)["failures"]
    assert done.exit_code == 1 and failure["index"] == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-o", "no_option=1"], "no_option"),
        (["-o", "x"], "KEY=VALUE"),
        (["--host", "none"], "not installed"),
        (["--adapters", "none such"], "No adapter matches"),
        (["--host", "onnxruntime"], "reads files whose names end in .onnx"),
    ],
)
def test_what_cannot_be_run(
    words: list[str], sentence: str, given: list[str], tmp_path: Path
) -> None:
    done = run(*given, "--out", tmp_path / "out", *words)
    assert done.exit_code == 2 and sentence in done.stderr, done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("finished", [False, True])
def test_an_interrupt(
    finished: bool, given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tflgpu_plugin.batch.run.run", interrupted)
    out = tmp_path / "out"
    if finished:
        out.mkdir()
    done = run(*given, "--out", out)
    assert done.exit_code == 130 and ("--resume" in done.output) == finished, done.output


def test_without_ray(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = run(*given, "--out", tmp_path / "out", "--ray")
    assert done.exit_code == 2 and "pip install 'tflgpu-plugin[ray]'" in done.stderr
