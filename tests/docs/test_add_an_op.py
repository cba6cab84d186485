"""Tests the page that walks through a commit: its files exist, and contain what the page says."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.subprocesses import ROOT
from tflgpu_plugin import ops

PAGE = (ROOT / "docs" / "add-an-op.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\[([^\]]+)\]\(([^)]+)\)", PAGE)
# They say how things are for any op.
GENERAL = (
    "tests/",
    "CHANGELOG.md",
    "tflgpu_plugin/ops/attributes.py",
    "tflgpu_plugin/ops/table.py",
    "tflgpu_plugin/ops/forms.py",
    "tflgpu_plugin/kernels/__init__.py",
    # Families to which an op can be added, and the library.
    "tflgpu_plugin/ops/unary.py",
    "tflgpu_plugin/ops/binary.py",
    "tflgpu_plugin/ops/reduce.py",
    "tflgpu_plugin/ops/reduce_forms.py",
    "tflgpu_plugin/kernels/epilogue.py",
    "tflgpu_plugin/kernels/math.wgsl",
)


@pytest.mark.parametrize(("shown", "target"), LINKS)
def test_files_are_what_they_are_called(shown: str, target: str) -> None:
    path = (ROOT / "docs" / target).resolve()
    name = path.relative_to(ROOT.resolve()).as_posix()
    assert path.is_file() and shown.replace("\\_", "_") == name
    if not name.startswith(GENERAL):
        assert re.search(
            r"arg_max|ARG_MAX|ArgMax|\"arg\"|extreme element|def argument", path.read_text()
        ), name


def test_every_file_that_names_the_op_is_on_the_page() -> None:
    """Files that only use the op are exempt: anything else that names it should be in the op's
    row."""
    rooms = ("tflgpu_plugin/ops", "tflgpu_plugin/kernels", "providers")
    found = {
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"\barg_max\b|\"ARG_MAX\"|\"ArgMax\"", path.read_text())
    }
    assert found <= {target.removeprefix("../") for _, target in LINKS}
    assert {"arg_max", "arg_min"} <= ops.rows().keys()


def test_the_commit_is_there() -> None:
    (name, subject) = re.findall(r"Commit `(\w+)` \(\"([^\"]+)\"\)", PAGE)[0]
    done = subprocess.run(
        ["git", "log", "-1", "--format=%s", name], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip("there is no history beside these files")
    assert done.stdout.startswith(subject)
