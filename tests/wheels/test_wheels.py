"""The wheels of dist/wheels (`make wheels`), read without the systems that they are for."""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.support.subprocesses import ROOT
from tflgpu_plugin.native import declare

WHEELS = sorted((ROOT / "dist" / "wheels").glob("tflgpu_plugin-*.whl"))
EP = sorted((ROOT / "dist" / "wheels").glob("onnxruntime_ep_tflgpu-*.whl"))
FOLDER = "tflgpu_plugin/native/"
HEADERS = ("core/tflgpu.h", "core/recorder.h", "tflite/abi.h", "litert/abi.h", "ort/abi.h")
ACCELERATOR, DEFINITION = "litert/libLiteRtGpuAccelerator", "LiteRtAcceleratorImpl"
MOST = 2_000_000  # bytes of a wheel, all of it code; 440,000 are the conformance suite
GLIBC = (2, 28)
LINKERS = {"_mh_dylib_header", "__dso_handle"}  # which it adds to every library of macOS


@dataclass(frozen=True)
class Library:
    """The headers of a library: its machine, its `name` for loaders (empty: none), the libraries
    it takes functions from, the functions it offers, and the least version of the system."""

    machine: str
    name: str
    needs: frozenset[str]
    offers: frozenset[str]
    least: tuple[int, ...]


def elf(content: bytes) -> Library:
    pytest.importorskip("elftools", reason="pyelftools reads ELF files")
    from elftools.elf.elffile import ELFFile

    file = ELFFile(BytesIO(content))
    dynamic = list(file.get_section_by_name(".dynamic").iter_tags())
    symbols = file.get_section_by_name(".dynsym").iter_symbols()
    versions = [
        auxiliary.name
        for _, found in file.get_section_by_name(".gnu.version_r").iter_versions()
        for auxiliary in found
    ]
    return Library(
        file.get_machine_arch(),
        next((tag.soname for tag in dynamic if tag.entry.d_tag == "DT_SONAME"), ""),
        frozenset(tag.needed for tag in dynamic if tag.entry.d_tag == "DT_NEEDED"),
        frozenset(s.name for s in symbols if s.name and s["st_shndx"] != "SHN_UNDEF"),
        max(tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in versions),
    )


def pe(content: bytes) -> Library:
    pefile: Any = pytest.importorskip("pefile", reason="pefile reads DLLs")
    file = pefile.PE(data=content)
    return Library(
        pefile.MACHINE_TYPE[file.FILE_HEADER.Machine],
        file.DIRECTORY_ENTRY_EXPORT.name.decode(),
        frozenset(entry.dll.decode().lower() for entry in file.DIRECTORY_ENTRY_IMPORT),
        frozenset(symbol.name.decode() for symbol in file.DIRECTORY_ENTRY_EXPORT.symbols),
        (file.OPTIONAL_HEADER.MajorSubsystemVersion, file.OPTIONAL_HEADER.MinorSubsystemVersion),
    )


def mach_o(content: bytes, folder: Path) -> Library:
    pytest.importorskip("macholib", reason="macholib reads libraries of macOS")
    from macholib import mach_o as names
    from macholib.MachO import MachO
    from macholib.SymbolTable import SymbolTable

    path = folder / "library"
    path.write_bytes(content)
    file = MachO(str(path))
    (header,) = file.headers
    commands = {load.cmd: (command, data) for load, command, data in header.commands}
    assert names.LC_CODE_SIGNATURE in commands
    least = int(commands[names.LC_BUILD_VERSION][0].minos)
    offered = {name.decode().removeprefix("_") for _, name in SymbolTable(file).extdefsyms}
    return Library(
        names.CPU_TYPE_NAMES[header.header.cputype],
        commands[names.LC_ID_DYLIB][1].rstrip(b"\0").decode(),
        frozenset(name for _, _, name in header.walkRelocatables()),
        frozenset(offered - LINKERS),
        (least >> 16, least >> 8 & 255),
    )


@dataclass(frozen=True)
class Wanted:
    file: str
    read: Callable[..., Library]
    machine: str
    name: str
    needs: tuple[str, ...]  # what names of needed libraries begin with
    most: tuple[int, ...]  # of the least version


C = ("libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux")
SYSTEM = ("kernel32.dll", "api-ms-win-crt-", "ucrtbase.dll")
WANTED: Mapping[str, Wanted] = {
    "manylinux_2_28_x86_64": Wanted("libtflgpu.so", elf, "x64", "tflgpu", C, GLIBC),
    "manylinux_2_28_aarch64": Wanted("libtflgpu.so", elf, "AArch64", "tflgpu", C, GLIBC),
    "win_amd64": Wanted("tflgpu.dll", pe, "IMAGE_FILE_MACHINE_AMD64", "tflgpu.dll", SYSTEM, (6, 2)),
    "win_arm64": Wanted("tflgpu.dll", pe, "IMAGE_FILE_MACHINE_ARM64", "tflgpu.dll", SYSTEM, (6, 2)),
    "macosx_12_0_arm64": Wanted(
        "libtflgpu.dylib", mach_o, "ARM64", "@rpath/tflgpu", ("/usr/lib/libSystem",), (12, 0)
    ),
}


def tag_of(wheel: Path) -> str:
    return wheel.stem.split("-py3-none-")[-1]


@pytest.mark.skipif(not WHEELS, reason="dist/wheels is empty: `make wheels` fills it")
@pytest.mark.parametrize("wheel", WHEELS, ids=tag_of)
def test_a_wheel_holds_what_its_name_says(wheel: Path, tmp_path: Path) -> None:
    wanted, archive = WANTED[tag_of(wheel)], zipfile.ZipFile(wheel)
    assert wheel.stat().st_size < MOST
    (described,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
    assert f"Tag: py3-none-{tag_of(wheel)}" in archive.read(described).decode().splitlines()
    native = [name for name in archive.namelist() if name.endswith((".so", ".dll", ".dylib"))]
    accelerator = FOLDER + ACCELERATOR + Path(wanted.file).suffix
    assert native == [FOLDER + wanted.file, accelerator]
    assert not [name for name in archive.namelist() if name.endswith((".c", "CMakeLists.txt"))]
    assert {FOLDER + name for name in (*HEADERS, "_declarations.py")} <= {*archive.namelist()}
    found, beside = (
        wanted.read(content, tmp_path) if wanted.read is mach_o else wanted.read(content)
        for content in (archive.read(name) for name in native)
    )
    assert (found.machine, found.name) == (wanted.machine, wanted.name)
    assert (beside.machine, beside.offers) == (wanted.machine, {DEFINITION})
    for library in (found, beside):
        assert [need for need in library.needs if not need.startswith(wanted.needs)] == []
        assert library.least <= wanted.most
    declared = {
        name
        for header in HEADERS
        for name in declare.functions(archive.read(FOLDER + header).decode())
    }
    assert found.offers == declared | {DEFINITION} and "tflite_plugin_create_delegate" in declared


@pytest.mark.skipif(not EP, reason="`make wheels` fills dist/wheels")
def test_the_wheel_for_onnxruntime_has_the_version_of_the_plugin() -> None:
    (wheel,) = EP
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert wheel.name == f"onnxruntime_ep_tflgpu-{version}-py3-none-any.whl"
    archive = zipfile.ZipFile(wheel)
    (described,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    assert "Requires-Dist: tflgpu-plugin" in archive.read(described).decode().splitlines()
    folders = {name.partition("/")[0] for name in archive.namelist()}
    assert folders == {"onnxruntime_ep_tflgpu", described.partition("/")[0]}
