"""Runs the blocks of docs/scale-out.md that need no cluster; tests/batch/test_ray.py runs the
others."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from conformance import host as hosts
from tests.docs.test_page_blocks import blocks, plain, ran
from tests.support import batches

PAGE = "docs/scale-out.md"
COMMANDS = [one.text.strip() for one in blocks(PAGE) if one.text.startswith("tflgpu run")]

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not hosts.installed(), reason="no TFLite host: pip install -e .[tflite]"),
]


def text(start: str) -> str:
    (found,) = [one.text for one in blocks(PAGE) if one.start.startswith(start)]
    return found


def test_the_commands_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # no plans of other versions
    batches.user_folder(tmp_path)
    first, resume, several, cluster = COMMANDS
    assert "--ray" in cluster
    said = command(first, tmp_path)
    ends = ("pictures/", "9 of 10 ")  # the others are about the adapter and its driver
    shown = [line for line in said.splitlines() if line.startswith(ends)]
    assert plain("\n".join(shown)) == plain(text("pictures/broken.png"))
    printed = ran(sys.executable, "-c", text("from pathlib"), folder=tmp_path).splitlines()
    names = [line.split()[0] for line in printed]
    assert names == [f"pictures/{number}.png" for number in range(9)]
    assert "9 of 10 inputs have results, 9 of them from an earlier run" in command(resume, tmp_path)
    before = batches.files(tmp_path / "results")
    shutil.rmtree(tmp_path / "results")
    assert "9 of 10 inputs have results" in command(several, tmp_path)
    assert batches.files(tmp_path / "results") == before


def command(line: str, folder: Path) -> str:
    """Returns the command's output, of both streams."""
    words = f"exec 2>&1; {sys.executable} -m tflgpu_plugin.cli {line.removeprefix('tflgpu ')}"
    return ran("sh", "-c", words, folder=folder, most=1)
