"""Tests that `tflgpu exec` warns about programs that will not use the plugin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tflgpu_plugin.cli import launch
from tflgpu_plugin.cli.commands import main

OTHER = "which will not have the plugin; install tflgpu-plugin there."
posix = pytest.mark.skipif(os.name != "posix", reason="programs are found in another way")


def script(folder: Path, first_line: str, name: str = "program") -> Path:
    path = folder / name
    path.write_text(f"{first_line}\n")
    path.chmod(0o755)
    return path


def test_the_python_of_this_environment_and_its_scripts(tmp_path: Path) -> None:
    for line in (f"#!{sys.executable}", f"#!{sys.executable} -u", f"#! {sys.executable}"):
        assert launch.elsewhere(script(tmp_path, line)) == ""
    assert launch.elsewhere(Path(sys.executable)) == ""


def test_scripts_of_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = script(elsewhere, "\x7fELF", "python3.12")
    monkeypatch.setenv("PATH", str(elsewhere), prepend=os.pathsep)
    for line in (f"#!{other}", "#!/usr/bin/env python3.12", "#!/usr/bin/env -S python3.12 -u"):
        told = launch.elsewhere(script(tmp_path, line))
        assert told == f"program runs in {other}, {OTHER}"


@posix
def test_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs in a virtual environment, in the Python that created it, or through a link
    to that."""
    link = tmp_path / "python3"
    link.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "prefix", "/of/a/virtual/environment")
    assert launch.elsewhere(link) == f"{link} is another Python, {OTHER}"
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert launch.elsewhere(link) == ""


@posix
def test_programs_that_are_not_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts of this environment are excluded, since they may start its Python through a shell."""
    told = launch.elsewhere(Path("/bin/sh"))
    assert told.startswith("sh is not a Python program. Only Python processes of this environment")
    shell = script(tmp_path, "#!/bin/sh")
    assert "program is not a Python program" in launch.elsewhere(shell)
    monkeypatch.setattr(launch, "OWN", (tmp_path,))
    assert launch.elsewhere(shell) == ""
    assert "is not a Python program" in launch.elsewhere(script(tmp_path, "\x7fELF"))


@posix
def test_the_warning_is_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "execve", lambda *arguments: sys.exit(0))
    done = CliRunner().invoke(main, ["exec", "--", "/bin/sh", "-c", "true"])
    assert done.exit_code == 0 and done.stdout == ""
    assert done.stderr.startswith("WARNING: tflgpu: sh is not a Python program.")
    assert CliRunner().invoke(main, ["exec", "--", "python", "-c", "pass"]).stderr == ""
