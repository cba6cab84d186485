"""Tests the wheel: it is one file for every Python, right for its platform, and runs without a
compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tflgpu_suite/conformance"
CODE = """
import importlib.metadata, tflgpu_plugin
from tflgpu_plugin.demo import hosts
from tflgpu_plugin.cli import conformance
assert ".venv" not in tflgpu_plugin.__file__, tflgpu_plugin.__file__
assert conformance.root().name == "tflgpu_suite", conformance.root()
delegate = hosts.host().delegate()
print(importlib.metadata.version("tflgpu-plugin"), tflgpu_plugin.report(delegate))
"""

pytestmark = pytest.mark.wheel


def command(*words: str | Path, folder: Path = ROOT, **more: str) -> str:
    """Returns the output of a command; shows its errors if it fails."""
    environment = os.environ | more
    done = subprocess.run(
        [*map(str, words)], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    command("sh", "tools/wheel.sh", PYTHON=sys.executable)
    (found,) = (ROOT / "dist").glob("*.whl")
    return found


def test_one_wheel_for_every_python(wheel: Path) -> None:
    name, _version, python, abi, platform = wheel.stem.split("-")
    assert (name, python, abi) == ("tflgpu_plugin", "py3", "none")
    # It needs no newer C library than wgpu's own wheel, so that it fits wherever that does.
    versions = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", platform)]
    assert versions and min(versions) <= 28, platform
    assert "manylinux" in command(sys.executable, "-m", "auditwheel", "show", wheel)


def test_wheel_holds_what_runs_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {"tflgpu_plugin/providers/tflite/ops.py", "tflgpu_plugin/kernels/conv.wgsl"}
    assert packages <= set(names)
    libraries = {name.rpartition("/")[2] for name in names if name.endswith(".so")}
    assert libraries == {"libtflgpu.so", "libLiteRtGpuAccelerator.so"}
    folders = {name.partition("/")[0] for name in names}
    startup = {"tflgpu_startup.py", "tflgpu_startup.pth"}
    own = {"tflgpu_plugin", next(f for f in folders if f.endswith(".dist-info"))}
    assert folders == own | startup | {"tflgpu_suite"}
    expectations = f"{SUITE}/expect/every-adapter.txt"
    assert not [
        name
        for name in names
        if name.endswith((".c", ".txt", ".json", ".gz"))
        and ".dist-info" not in name
        and name != expectations
    ]
    assert expectations in names


@pytest.mark.adapter
def test_the_conformance_suite_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """The wheel has all that it imports; the checkout is not importable here."""
    pytest.importorskip("ai_edge_litert")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path, [name for name in file.namelist() if name.startswith(SUITE)])
    suite = tmp_path / SUITE
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:logging", "-c", os.devnull)
    chosen = ("--op", "lrn", "--host", "ai_edge_litert", "--report", tmp_path / "report")
    run = (sys.executable, "-m", "pytest", *options, "--rootdir", suite.parent, suite, *chosen)
    said = command(*run, folder=tmp_path)
    assert re.search(r"^conformance: \d+ PASS\b", said, re.MULTILINE), said
    report = (tmp_path / "report" / "report.json").read_text(encoding="utf-8")
    assert '"LOCAL_RESPONSE_NORMALIZATION"' in report and '"commit": "unknown"' in report


def test_wheel_installs_and_runs_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    command(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    # A search path without cc, cmake or ninja; binaries only, so that nothing is built.
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "env"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / "pip").symlink_to(tmp_path / "venv" / "bin" / "pip")
    # The line of the README, as it is pasted.
    (line,) = re.findall(r"^pip install \S.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    more = {"PIP_ONLY_BINARY": ":all:", "PIP_QUIET": "1", "CC": "false"}
    command("sh", "-c", line, PATH=str(tools), **more)
    # Run from elsewhere, so that the checkout is not importable.
    assert command(python, "-c", CODE, folder=tmp_path).split()[0] in wheel.name


EP_CODE = """
import onnxruntime, onnxruntime_ep_tflgpu as ep
onnxruntime.register_execution_provider_library("tflgpu", ep.get_library_path())
names = {device.ep_name for device in onnxruntime.get_ep_devices()}
assert {ep.get_ep_name()} == {*ep.get_ep_names()} and ep.get_ep_name() in names, names
print(ep.__file__)
"""


@pytest.mark.adapter
def test_the_package_for_onnxruntime_names_the_provider_and_its_library(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path)
    command(*build, "tools/ep")
    (built,) = tmp_path.glob("onnxruntime_ep_tflgpu-*-py3-none-any.whl")
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path)
    command(*pip, built)
    said = command(sys.executable, "-c", EP_CODE, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert Path(said.strip()).is_relative_to(tmp_path)
