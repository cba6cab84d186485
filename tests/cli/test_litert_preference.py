"""Tests that LiteRT's CompiledModel takes our accelerator where the user prefers the plugin or has
enabled it, and that it is unchanged otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.support import small_models
from tflgpu_plugin.cli import enable
from tflgpu_plugin.providers.tflite import litert

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        "ai_edge_litert" not in hosts.installed(), reason="ai_edge_litert is not installed"
    ),
]
NODES = 3  # of the model here
MAKE = """
import json, sys
from ai_edge_litert.compiled_model import CompiledModel, Environment, HardwareAccelerator as H
kinds = {"named": H.GPU | H.CPU, "CPU": H.CPU, "unnamed": None}
found = {}
for name, kind in kinds.items():
    found[name] = CompiledModel.from_file(sys.argv[-1], hardware_accel=kind)
found["own environment"] = CompiledModel.from_file(
    sys.argv[-1], hardware_accel=H.GPU | H.CPU, environment=Environment.create())
import tflgpu_plugin
told = {}
for name, model in found.items():
    try:
        told[name] = tflgpu_plugin.report(model).count("gpu")
    except TypeError:
        told[name] = None
print(json.dumps(told))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(small_models.guide())
    return path


def kinds() -> Any:
    return litert.module().HardwareAccelerator


def of(file: Path, *given: Any, **named: Any) -> Any:
    return litert.module().CompiledModel.from_file(str(file), *given, **named)


def count(model: Any) -> int | None:
    """Returns how many nodes are on the GPU; None for a model that is not ours."""
    found = litert.report(model)
    return None if found is None else found.count("gpu")


def test_models_that_name_no_accelerator_are_ours(file: Path) -> None:
    both = kinds().GPU | kinds().CPU
    plain = litert.module().Environment.create()
    with tflgpu_plugin.preferred(exclude="MEAN", force=1) as preference:
        models = [of(file), of(file, both), of(file, hardware_accel=both, environment=plain)]
        assert [count(model) for model in models] == [NODES - 1] * 3
        assert count(of(file, kinds().CPU)) is None
        elsewhere = tflgpu_plugin.litert_environment()
        assert count(of(file, both, elsewhere)) == NODES
        with pytest.raises(TypeError):
            of()
    assert str(preference).startswith("3 compiled models, 6 of 9 nodes on the GPU")
    assert str(preference).endswith("; 2 with other providers or delegates left alone")
    assert count(of(file, kinds().CPU)) is count(of(file)) is None


def test_one_environment_of_a_program_becomes_one_of_ours(file: Path) -> None:
    theirs = litert.module().Environment.create()
    with tflgpu_plugin.preferred():
        first, second = (of(file, kinds().GPU, theirs) for _ in range(2))
    assert first.environment is second.environment is not theirs
    given, ours = theirs.options, first.environment.options
    assert ours.dispatch_library_path == given.dispatch_library_path
    assert ours.compiler_plugin_path == given.compiler_plugin_path


def test_a_model_that_cannot_be_ours_is_made_without(file: Path) -> None:
    with tflgpu_plugin.preferred(adapter="nothing like it") as preference:
        assert count(of(file)) is None
    assert "1 made without the GPU" in str(preference)


def test_a_broken_model_is_the_hosts_error(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(b"broken" * 100)
    with tflgpu_plugin.preferred() as preference, pytest.raises(RuntimeError, match="load model"):
        of(path)
    assert preference.failed == 0


def told(command: list[str], **environment: str) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_program_under_exec(file: Path) -> None:
    program = file.with_name("program.py")
    program.write_text(MAKE)
    words = [sys.executable, "-m", "tflgpu_plugin.cli", "exec", "--"]
    found = told([*words, str(program), str(file)])
    assert found == {"named": NODES, "CPU": None, "unnamed": NODES, "own environment": NODES}


def test_enabling_is_for_models_that_name_the_gpu(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    monkeypatch.setattr(enable, "folders", lambda: [folder])
    enable.enable()
    begin = f"import site; site.addsitedir({str(folder)!r})\n"
    found = told([sys.executable, "-c", begin + MAKE, str(file)])
    assert found == {"named": NODES, "CPU": None, "unnamed": None, "own environment": NODES}
    enable.disable()
    of_cpu = MAKE.replace("H.GPU | H.CPU", "H.CPU")  # their GPU may not be there
    found = told([sys.executable, "-c", begin + of_cpu, str(file)])
    assert set(found.values()) == {None}


def test_the_files_of_the_host_are_as_they_were(file: Path) -> None:
    package = Path(str(litert.module().__file__)).parent
    before = {path: path.stat().st_mtime_ns for path in package.rglob("*") if path.suffix != ".pyc"}
    with tflgpu_plugin.preferred():
        of(file)
    assert before == {path: path.stat().st_mtime_ns for path in before}
