"""Tests that PyInstaller's hook names everything that the package finds at run time. Stand-ins
replace PyInstaller's functions; docs/programs.md says what was frozen by hand."""

from __future__ import annotations

import runpy
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tflgpu_plugin
from tests.support.subprocesses import run_python


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns the variables that PyInstaller's hook defines, and records what it requests."""
    hooks = ModuleType("PyInstaller.utils.hooks")
    for name in ("collect_data_files", "collect_dynamic_libs", "copy_metadata"):
        setattr(hooks, name, lambda *given, _name=name, **named: [(_name, *given, *named)])
    package = Path(tflgpu_plugin.__file__).parent

    def collect_submodules(name: str, filter: Any) -> list[str]:
        files = [*package.rglob("*.py"), *(package.parent / "providers").rglob("*.py")]
        parts = [file.relative_to(package.parent).with_suffix("").parts for file in files]
        parts = [(name, *p) if p[0] == "providers" else p for p in parts]
        listed = (".".join(p).removesuffix(".__init__") for p in parts)
        return [one for one in listed if filter(one)]

    hooks.collect_submodules = collect_submodules  # type: ignore[attr-defined]
    for name in ("PyInstaller", "PyInstaller.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "PyInstaller.utils.hooks", hooks)
    (point,) = [p for p in entry_points(group="pyinstaller40") if "tflgpu_plugin" in p.value]
    (folder,) = point.load()()
    return runpy.run_path(str(Path(folder) / "hook-tflgpu_plugin.py"))


def test_it_collects_files(hook: dict[str, Any]) -> None:
    assert ("collect_dynamic_libs", "tflgpu_plugin") in hook["binaries"]
    assert ("collect_data_files", "tflgpu_plugin", "include_py_files") in hook["datas"]
    assert ("copy_metadata", "tflgpu-plugin") in hook["datas"]


@pytest.mark.adapter
def test_it_names_every_module_that_models_need(hook: dict[str, Any]) -> None:
    code = """
import sys
import tflgpu_plugin
from tests.support import onnx_models
from tflgpu_plugin.harness import onnx
if not onnx.missing():
    onnx_models.session(onnx_models.convolutions())
print(*sys.modules)
"""
    loaded = set(run_python(code).stdout.split())
    ours = {name for name in loaded if name.split(".")[0] == "tflgpu_plugin"}
    left_out = ("tflgpu_plugin.harness", "tflgpu_plugin.native._declarations")
    missing = {name for name in ours - {*hook["hiddenimports"]} if not name.startswith(left_out)}
    assert not missing
    assert {"wgpu", "_cffi_backend", "tflgpu_startup"} <= {*hook["hiddenimports"]}
