"""Tests `tflgpu enable` and `disable`: hosts know the plugin in every program; other programs are
not slower, and nothing is left behind."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tflgpu_plugin.cli import enable
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.harness import hosts

needs_onnxruntime = pytest.mark.skipif(
    not find_spec("onnxruntime"), reason="onnxruntime is not installed"
)


def answer(*arguments: str) -> Any:
    """Returns the JSON output of a command that succeeds."""
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def site_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder that stands for site-packages and contains the package with its list of
    files."""
    folder = tmp_path / "site-packages"
    record = folder / "tflgpu_plugin-0.dist-info" / "RECORD"
    record.parent.mkdir(parents=True)
    record.write_text('"a,b.py",sha256=x,1\n')
    own = importlib.metadata.PackagePath("tflgpu_plugin-0.dist-info/RECORD")
    own.dist = importlib.metadata.PathDistribution(record.parent)
    monkeypatch.setattr(enable, "folders", lambda: [folder])
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [own])
    return folder


def python(folder: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter that treats the folder as site-packages; returns the finished
    process."""
    begin = f"import site; site.addsitedir({str(folder)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + code],
        capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_it_costs_other_programs_nothing(site_folder: Path) -> None:
    path = site_folder / enable.FILE
    assert answer("enable")["enabled"] == [str(path)]
    code = "import json, sys; print({'ctypes', 'tflgpu_plugin', 'numpy'} & set(sys.modules))"
    assert python(site_folder, code).stdout.strip() == "set()"
    assert answer("disable")["removed"] == [str(path)]
    assert answer("disable")["removed"] == []
    assert not path.exists()


def test_info_says_what_is_left_out(site_folder: Path) -> None:
    told = f"{site_folder / enable.FILE} enables the plugin for TensorFlow Lite only"
    for words, left_out in ((["enable", "--no-onnxruntime"], True), (["enable"], False)):
        answer(*words)
        assert (told in CliRunner().invoke(main, ["info"]).stdout) == left_out


def test_the_package_lists_the_file(site_folder: Path) -> None:
    """Uninstalling the package removes the files that it lists."""
    record = site_folder / "tflgpu_plugin-0.dist-info" / "RECORD"
    before = record.read_text()
    for _ in range(2):
        enable.enable()
        assert record.read_text() == f"{before}{enable.FILE},,\n"
    enable.disable()
    assert record.read_text() == before
    assert [path.name for path in record.parent.iterdir()] == ["RECORD"]


def test_a_list_that_cannot_be_written(site_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "replace", refuse)
    assert enable.enable().is_file()
    record = site_folder / "tflgpu_plugin-0.dist-info"
    assert [path.name for path in record.iterdir()] == ["RECORD"]
    monkeypatch.setattr(importlib.metadata, "files", lambda name: None)
    assert enable.disable()


@pytest.mark.parametrize("gone", ["tflgpu_plugin", "tflgpu_startup"])
def test_it_outlives_the_package(site_folder: Path, gone: str) -> None:
    enable.enable()
    path = site_folder / enable.FILE
    code = f"import sys; sys.modules[{gone!r}] = None\n"
    modules = [f"{hosts.PACKAGES[name]}.interpreter" for name in [*hosts.installed()][-1:]]
    modules += ["onnxruntime"] if find_spec("onnxruntime") else []
    code += path.read_text() + "".join(f"import {name}\n" for name in modules)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@needs_onnxruntime
def test_a_plugin_that_cannot_be_used_is_a_warning(site_folder: Path, tmp_path: Path) -> None:
    """The program continues, whatever the plugin raises."""
    enable.enable()
    package = tmp_path / "shadow" / "tflgpu_plugin"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ValueError('no')")
    done = python(site_folder, "import onnxruntime; print('fine')", PYTHONPATH=str(package.parent))
    assert done.stdout.strip() == "fine"
    if "cannot be used here" in done.stderr:  # editable installs come before PYTHONPATH
        assert done.stderr.strip() == "WARNING: tflgpu-plugin cannot be used here: no"


def test_it_says_when_it_cannot_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(enable, "folders", lambda: [blocked / "site-packages"])
    result = CliRunner().invoke(main, ["enable"])
    assert result.exit_code == 2 and "cannot be written" in result.stderr


@pytest.mark.adapter
@pytest.mark.parametrize("name", hosts.installed())
def test_the_bare_name_works(site_folder: Path, name: str) -> None:
    enable.enable()
    module = hosts.PACKAGES[name]
    load = f"from {module}.interpreter import load_delegate\n"
    code = f"{load}load_delegate('tflgpu'); print('loaded')"
    assert python(site_folder, code).stdout.strip() == "loaded"
    enable.disable()
    code = f"{load}try: load_delegate('tflgpu')\nexcept OSError: print('absent')"
    assert python(site_folder, code).stdout.strip() == "absent"


LISTED = """
import onnxruntime
names = {device.ep_name for device in onnxruntime.get_ep_devices()}
print("TflGpuExecutionProvider" in names, onnxruntime.__spec__.loader is onnxruntime.__loader__)
"""


@pytest.mark.adapter
@needs_onnxruntime
def test_onnxruntime_knows_the_provider(site_folder: Path) -> None:
    for options, known in (([], True), (["--no-onnxruntime"], False)):
        answer("enable", *options)
        done = python(site_folder, LISTED)
        assert done.stdout.split() == [str(known), "True"]
    answer("disable")
    assert python(site_folder, LISTED).stdout.split()[0] == "False"
