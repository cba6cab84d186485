"""Microsoft's compiler for D3D12 (DXC) on Linux, called through its COM interfaces."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

# Positions in the tables of virtual functions. The interfaces of DXC on Linux have a destructor,
# with two entries, after the three functions of IUnknown.
RELEASE, FIRST = 2, 5
# The class, and the interfaces that are asked for.
COMPILER = "73e22d93-e6ce-47f3-b5bf-f0664f39c1b0"
COMPILER_3, RESULT = "228b4687-5a6a-4730-900c-9702b2203f54", "58346cda-dde7-4497-9461-6f87af5e0659"
UTF8 = 65001
# As wgpu compiles, without the signature that only Windows can make.
ARGUMENTS = ("-T", "cs_6_2", "-E", "main", "-HV", "2018", "-enable-16bit-types", "-Vd")


class _Text(ctypes.Structure):
    _fields_ = (("start", ctypes.c_char_p), ("size", ctypes.c_size_t), ("encoding", ctypes.c_uint))


class Compiler:
    """The compiler in a shared library. Raises OSError where that cannot be loaded."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))  # kept loaded
        self._compiler = ctypes.c_void_p()
        made = self._library.DxcCreateInstance(
            _id(COMPILER), _id(COMPILER_3), ctypes.byref(self._compiler)
        )
        if made:
            raise OSError(f"{library.name} makes no compiler: {made & 0xFFFFFFFF:#x}")

    def error(self, hlsl: bytes, arguments: Sequence[str] = ARGUMENTS) -> str:
        """Returns the first error in a compute shader, "" if it compiles."""
        given = (ctypes.c_wchar_p * len(arguments))(*arguments)
        text, made = _Text(hlsl, len(hlsl), UTF8), ctypes.c_void_p()
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, *(ctypes.c_void_p,) * 3)
        # Arguments are objects, not their addresses: a call keeps its arguments, while the object
        # at an address may be freed before the call.
        failed = _call(self._compiler, FIRST, *kinds)(
            self._compiler, ctypes.byref(text), given, len(arguments), None,
            _id(RESULT), ctypes.byref(made),
        )  # fmt: skip
        if failed or not made:
            return f"the compiler returns {failed & 0xFFFFFFFF:#x} and no result"
        status, errors = ctypes.c_int(), ctypes.c_void_p()
        _call(made, FIRST, ctypes.c_void_p)(made, ctypes.byref(status))
        _call(made, FIRST + 2, ctypes.c_void_p)(made, ctypes.byref(errors))
        told = _content(errors) if errors else ""
        for each in (errors, made):
            if each:
                _call(each, RELEASE)(each)
        found = [line for line in told.splitlines() if "error" in line]
        return (found or ["it does not compile"])[0] if status.value else ""


def _content(blob: ctypes.c_void_p) -> str:
    start = _call(blob, FIRST, result=ctypes.c_void_p)(blob)
    size = _call(blob, FIRST + 1, result=ctypes.c_size_t)(blob)
    return ctypes.string_at(start, size).decode(errors="replace") if start and size else ""


def _id(text: str) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * 16).from_buffer_copy(UUID(text).bytes_le)


def _call(
    made: ctypes.c_void_p, position: int, *kinds: Any, result: Any = ctypes.c_int
) -> Callable[..., Any]:
    """Returns a function of an interface, whose first argument is the object."""
    table = ctypes.cast(made, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    return ctypes.CFUNCTYPE(result, ctypes.c_void_p, *kinds)(table[position] or 0)
