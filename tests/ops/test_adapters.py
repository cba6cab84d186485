"""Tests that our description of adapters equals that of the wgpu package."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.subprocesses import run_python
from tflgpu_plugin import native, trusted
from tflgpu_plugin.native import dxc
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo, NoAdapter

INTEL, NVIDIA = (0x8086, 0x9A49), (0x10DE, 0x2204)
BOTH = (("discrete", NVIDIA), ("integrated", INTEL))
Listed = tuple[str, str, tuple[int, int]]  # kind, backend, vendor and device
THEIRS = """
import json, wgpu
found = wgpu.gpu.enumerate_adapters_sync()
print(json.dumps([{"name": a.info["device"], "limits": a.limits} for a in found]))
"""


@pytest.mark.adapter
def test_limits_are_those_of_the_adapter() -> None:
    """Another process is asked, so that the package's own instance stays out of this one."""
    ours, said = adapter.select(None), json.loads(run_python(THEIRS).stdout)
    theirs = [found["limits"] for found in said if found["name"] == ours.name]
    assert dict(ours.limits).keys() == adapter.LIMITS.keys()
    assert any(all(limits[name] == value for name, value in ours.limits) for limits in theirs)


def fake(kind: str, backend: str, ids: tuple[int, int]) -> AdapterInfo:
    return AdapterInfo("GPU", "vendor", "driver", backend, kind, *ids)


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        (  # D3D12 listed first
            [("discrete", "D3D12", NVIDIA), ("discrete", "Vulkan", NVIDIA)],
            [("discrete", "Vulkan", NVIDIA), ("discrete", "D3D12", NVIDIA)],
        ),
        (  # the kind comes before the backend
            [("integrated", "Vulkan", INTEL), ("discrete", "D3D12", NVIDIA)],
            [("discrete", "D3D12", NVIDIA), ("integrated", "Vulkan", INTEL)],
        ),
        (
            # Between two adapters of the same kind, the one that the system lists first stays
            # first, even if only the other one offers Vulkan.
            [
                ("discrete", "D3D12", NVIDIA),
                ("discrete", "Vulkan", INTEL),
                ("discrete", "D3D12", INTEL),
            ],
            [
                ("discrete", "D3D12", NVIDIA),
                ("discrete", "Vulkan", INTEL),
                ("discrete", "D3D12", INTEL),
            ],
        ),
        (  # each backend's list of the same two
            [(k, b, i) for b in ("D3D12", "Vulkan") for k, i in BOTH],
            [(k, b, i) for k, i in BOTH for b in ("Vulkan", "D3D12")],
        ),
        (  # two equal cards
            [("discrete", b, NVIDIA) for b in ("D3D12", "D3D12", "Vulkan", "Vulkan")],
            [("discrete", b, NVIDIA) for b in ("Vulkan", "Vulkan", "D3D12", "D3D12")],
        ),
        (  # a backend of software is another adapter than the GPU
            [("software", "Vulkan", INTEL), ("integrated", "D3D12", INTEL)],
            [("integrated", "D3D12", INTEL), ("software", "Vulkan", INTEL)],
        ),
    ],
)  # fmt: skip
def test_order_of_adapters(listed: list[Listed], chosen: list[Listed]) -> None:
    """The order is best first: by kind, then as the system lists them, with Vulkan before D3D12 for
    the same adapter."""
    found = adapter.best_first([fake(*each) for each in listed])
    assert [(a.kind, a.backend, (a.vendor_id, a.device_id)) for a in found] == chosen
    assert [a.index for a in found] == list(range(len(found)))


@pytest.mark.parametrize("first", adapter.BACKENDS.values())
def test_every_backend_has_a_rank(first: str) -> None:
    order = adapter.best_first([fake("discrete", b, NVIDIA) for b in adapter.BACKENDS.values()])
    assert [a.backend for a in order] == list(adapter.BACKEND_PREFERENCE)
    assert first in adapter.BACKEND_PREFERENCE


def test_a_misspelt_adapter_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [AdapterInfo("NVIDIA GeForce RTX 3080", "nvidia", "565.57", "Vulkan", "discrete", 1, 2)]
    monkeypatch.setattr(adapter, "adapters", lambda: found)
    assert adapter.select("rtx 3080") is found[0] and adapter.select("0") is found[0]
    end = " This machine has adapter 0: NVIDIA GeForce RTX 3080 (Vulkan)."
    for wanted, sentence in {
        "Nvidea": f"No adapter matches 'Nvidea'. Did you mean 'nvidia'?{end}",
        "Nvida GeForce RTX 3080": "Did you mean 'nvidia geforce rtx 3080'?",
        "geforse": "Did you mean 'geforce'?",
        "vulcan": "Did you mean 'vulkan'?",
        "7": f"No adapter matches '7'.{end}",
        "radeon": f"No adapter matches 'radeon'.{end}",
    }.items():
        with pytest.raises(NoAdapter) as caught:
            adapter.select(wanted)
        assert sentence in str(caught.value)


# ---- D3D12 ---------------------------------------------------------------------------------------


def listed_adapters(*kinds: tuple[int, int]) -> tuple[Any, int]:
    """Returns native adapters of these kinds and backends, in wgpu's numbers."""
    made = native.declarations().new("tg_adapter[]", len(kinds) + 1)
    for each, (kind, backend) in zip(made, kinds, strict=False):
        each.kind, each.backend, each.vendor_id = kind, backend, 0x8086
    return made, len(kinds)


DISCRETE, INTEGRATED, SOFTWARE = 1, 2, 3
D3D12, VULKAN = 4, 6


@pytest.mark.parametrize(
    ("vulkan", "variable", "asked"),
    [
        ([(DISCRETE, VULKAN)], "", False),
        ([(INTEGRATED, VULKAN), (SOFTWARE, VULKAN)], "", False),
        ([(SOFTWARE, VULKAN)], "", True),
        ([], "", True),
        ([(DISCRETE, VULKAN)], "1", True),
    ],
)
def test_d3d12_is_only_asked_without_another_gpu(
    vulkan: list[tuple[int, int]], variable: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[int]()
    monkeypatch.setenv("TFLGPU_D3D12", variable)
    monkeypatch.setattr(native, "adapters", lambda: listed_adapters(*vulkan))

    def d3d12_adapters() -> tuple[Any, int]:
        calls.append(1)
        return listed_adapters((INTEGRATED, D3D12))

    monkeypatch.setattr(native, "d3d12_adapters", d3d12_adapters)
    for windows in (True, False):
        calls.clear()
        monkeypatch.setattr(dxc, "lists_d3d12", lambda windows=windows: windows)
        found = [(info.kind, info.backend) for info in adapter.enumerated()]
        assert (("integrated", "D3D12") in found) == bool(calls) == (asked and windows)
        assert len(found) == len(vulkan) + len(calls)
        if variable and windows:  # by rule, whatever wgpu lists first
            assert found == [("discrete", "Vulkan"), ("integrated", "D3D12")]


def test_a_failing_look_up_hides_no_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> tuple[Any, int]:
        raise native.NativeError("no device can be made")

    monkeypatch.setenv("TFLGPU_D3D12", "1")
    monkeypatch.setattr(dxc, "lists_d3d12", lambda: True)
    monkeypatch.setattr(native, "d3d12_adapters", fails)
    monkeypatch.setattr(native, "adapters", lambda: listed_adapters((DISCRETE, VULKAN)))
    assert [info.kind for info in adapter.enumerated()] == ["discrete"]
    monkeypatch.setattr(native, "adapters", fails)
    with pytest.raises(adapter.NoAdapter, match="no device can be made"):
        adapter.enumerated()


@pytest.mark.adapter
def test_wgpu_lists_each_backend_by_itself() -> None:
    """Linux has no D3D12: wgpu makes the instance, with either compiler, and finds nothing."""
    listed, count = native.adapters()
    assert {listed[k].backend for k in range(count)} <= {VULKAN, 5}
    ours = native.load()
    for backends, path in ((ours.TG_D3D12_BY_FXC, None), (ours.TG_D3D12_BY_DXC, b"C:\\dxc.dll")):
        room, number = native.ffi.new("tg_adapter[]", 2), native.ffi.new("size_t *")
        native.call(ours.tg_adapters_list, backends, path or native.ffi.NULL, room, 2, number)
        assert number[0] == 0 or sys.platform == "win32"
    for backends, path in ((ours.TG_D3D12_BY_DXC, None), (ours.TG_BACKENDS, None),
                           (ours.TG_D3D12_BY_FXC, b"C:\\dxc.dll")):  # fmt: skip
        with pytest.raises(native.NativeError, match="do not fit the compiler"):
            native.call(ours.tg_adapters_list, backends, path or native.ffi.NULL, room, 2, number)


def dll(path: Path, version: tuple[int, ...]) -> Path:
    """Writes a file with the version of a DLL, which is in a resource somewhere in it."""
    major, minor, build, revision = version
    info = struct.pack("<IIHHHH", 0xFEEF04BD, 0x10000, minor, major, revision, build)
    path.write_bytes(b"MZ" + bytes(1000) + info + bytes(40))
    return path


@pytest.mark.parametrize("named", [True, False])
def test_the_newer_compiler_is_found(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / dxc.FILE
    monkeypatch.setenv(dxc.VARIABLE, str(path) if named else "")
    folders = ["", "relative", str(tmp_path / "none"), "" if named else f'"{tmp_path}"']
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    how = f"{dxc.VARIABLE} names" if named else "PATH has"
    if named:
        assert dxc.found() == dxc.Compiler(reason=f"{how} {path}, which cannot be read.")
    else:
        assert dxc.found() == dxc.Compiler()
    for version in ((1, 8, 2502, 8), (1, 9, 1, 0), (2, 0, 0, 0)):
        assert dxc.found() != dxc.Compiler(str(path))
        dll(path, version)
        assert dxc.found() == dxc.Compiler(str(path)) and str(path) in dxc.found().advice
        assert "FXC" not in dxc.found().advice
        path.unlink()
    dll(path, (1, 8, 2407, 7))
    assert dxc.found().reason == f"{how} {path}, which is version 1.8.2407.7."
    assert "FXC" in dxc.found().advice and "1.8.2407.7" in dxc.found().advice
    path.write_bytes(b"MZ")
    assert dxc.found().reason == f"{how} {path}, which has no version."
    path.write_bytes(struct.pack("<II", 0xFEEF04BD, 0x10000))
    assert "no version" in dxc.found().reason
    path.write_bytes(b"")
    assert "cannot be read" in dxc.found().reason
    monkeypatch.setattr(trusted, "privileged", lambda: True)
    dll(path, (1, 9, 0, 0))
    assert dxc.found() == dxc.Compiler()


@pytest.mark.parametrize("loads", [True, False])
def test_fxc_compiles_where_the_dll_cannot_be_loaded(
    loads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wgpu lists no adapters of D3D12 then."""
    made, lib = dll(tmp_path / dxc.FILE, (1, 8, 2502, 8)), native.load()
    monkeypatch.setenv(dxc.VARIABLE, str(made))
    asked = list[tuple[int, Any]]()

    class Library:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def tg_adapters_list(self, backends: int, path: Any, *rest: Any) -> int:
            asked.append((backends, path if isinstance(path, bytes) else None))
            rest[2][0] = int(loads or backends == lib.TG_D3D12_BY_FXC)
            return 0

    monkeypatch.setattr(native, "load", Library)
    assert native.look_at_d3d12()[1] == 1
    by_dxc, by_fxc = (lib.TG_D3D12_BY_DXC, str(made).encode()), (lib.TG_D3D12_BY_FXC, None)
    assert asked == ([by_dxc] if loads else [by_dxc, by_fxc])
