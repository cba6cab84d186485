"""Microsoft's newer compiler for D3D12, dxcompiler.dll, which wgpu's package does not bring.
Without it wgpu compiles with FXC, a part of Windows, which has neither subgroups nor float16."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from tflgpu_plugin import trusted

VARIABLE, FILE = "TFLGPU_DXC", "dxcompiler.dll"
OLDEST = (1, 8, 2502)  # older ones do not sign what they compile, so that Windows refuses it
_FIXED_INFO = struct.pack("<II", 0xFEEF04BD, 0x10000)  # begins the version in a DLL
_VERSION = struct.Struct("<HHHH")  # minor, major, revision, build


@dataclass(frozen=True)
class Compiler:
    """The compiler that D3D12 gets: `path` is that of the DLL, "" for FXC. `reason` says why one
    that was found or named is not used."""

    path: str = ""
    reason: str = ""

    @property
    def advice(self) -> str:
        """Returns the sentences for `tflgpu info`."""
        if self.path:
            return f"D3D12 compiles kernels with {self.path}."
        least = ".".join(map(str, OLDEST))
        why = f"{self.reason} " if self.reason else ""
        return (
            f"{why}D3D12 compiles kernels with FXC, which may take seconds for one and has "
            "neither subgroups nor float16, so that models start and run slower. The GPU maker's "
            f"driver for Vulkan is better; else put {FILE} {least} or newer "
            "(https://github.com/microsoft/DirectXShaderCompiler/releases) into a folder of PATH, "
            f"or set {VARIABLE} to its path."
        )


def lists_d3d12() -> bool:
    """Whether this system may have adapters of D3D12."""
    return sys.platform == "win32"


def found() -> Compiler:
    """Returns the compiler that the user names, or that is in a folder of PATH."""
    if trusted.privileged():
        return Compiler()
    if named := os.environ.get(VARIABLE, "").strip():
        return _usable(Path(named).absolute(), f"{VARIABLE} names")
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder.strip('"'), FILE)
        if path.is_absolute() and path.is_file():
            return _usable(path, "PATH has")
    return Compiler()


def _usable(path: Path, how: str) -> Compiler:
    try:
        made = version(path)
    except (OSError, ValueError):  # the latter: a path or a file that is empty
        return Compiler(reason=f"{how} {path}, which cannot be read.")
    if made >= OLDEST:
        return Compiler(str(path))
    said = f"is version {'.'.join(map(str, made))}" if made else "has no version"
    return Compiler(reason=f"{how} {path}, which {said}.")


def version(path: Path) -> tuple[int, ...]:
    """Returns the version in a DLL; () where it has none. Raises OSError, or ValueError for an
    empty file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(_FIXED_INFO)
        place = at + len(_FIXED_INFO)
        if at < 0 or len(data) < place + _VERSION.size:
            return ()
        minor, major, revision, build = _VERSION.unpack_from(data, place)
        return major, minor, build, revision
