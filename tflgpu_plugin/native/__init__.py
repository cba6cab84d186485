"""The shared library: finding it, loading it, and calling it through cffi.

Nothing is loaded until `load()` (or `ffi`, `lib`) is asked for. The declarations are the very
header files that C includes.
"""

from __future__ import annotations

import atexit
import functools
import importlib.metadata
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FILE = "libtflgpu.so"
_HEADERS = ("tflgpu.h", "abi_tflite.h")
_ERROR_BYTES = 2048


class NativeError(RuntimeError):
    """A native function failed; the message is its sentence."""


@functools.cache
def library_path() -> Path:
    """The installed shared library: beside this file, or where an editable install has put it."""
    beside = Path(__file__).with_name(_FILE)
    candidates = [beside]
    try:
        installed = importlib.metadata.distribution("tflgpu-plugin")
        candidates.append(Path(str(installed.locate_file(f"tflgpu_plugin/native/{_FILE}"))))
    except importlib.metadata.PackageNotFoundError:
        pass
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise NativeError(f"{_FILE} is not installed; it should be {beside}. Reinstall tflgpu-plugin.")


def declarations() -> Any:
    """A cffi parser that knows both headers, without the library."""
    return _once("declarations", _parse)


def load() -> Any:
    """The library, loaded once for the life of the process."""
    return _once("library", _open)


_made: dict[str, Any] = {}
_lock = threading.RLock()


def _once(name: str, make: Callable[[], Any]) -> Any:
    """Two threads must not parse the headers both: types of one parser are foreign to the other."""
    if name not in _made:
        with _lock:
            if name not in _made:
                _made[name] = make()
    return _made[name]


def _parse() -> Any:
    from cffi import FFI

    parser: Any = FFI()
    for name in _HEADERS:
        parser.cdef(Path(__file__).with_name(name).read_text())
    return parser


def _open() -> Any:
    library: Any = declarations().dlopen(str(library_path()))
    atexit.register(library.tg_close)
    return library


def __getattr__(name: str) -> Any:
    if name == "lib":
        return load()
    if name == "ffi":
        return declarations()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def call(function: Any, *args: Any) -> Any:
    """Call a function that ends in (err, err_size); raise NativeError with its sentence.

    A function that returns a pointer fails with NULL, a status with anything but 0, a count with
    less than 0.
    """
    ffi = declarations()
    err = ffi.new("char[]", _ERROR_BYTES)
    result = function(*args, err, _ERROR_BYTES)
    failed = result == ffi.NULL if isinstance(result, ffi.CData) else _is_failure(function, result)
    if failed:
        raise NativeError(
            ffi.string(err).decode(errors="replace") or "The native library gave no reason."
        )
    return result


def _is_failure(function: Any, result: int) -> bool:
    return result < 0 if function == load().tg_tflite_preview else result != 0


def open_wgpu() -> None:
    """Load wgpu's native library and bind ours to it."""
    from wgpu.backends.wgpu_native import lib_path

    call(load().tg_bind_wgpu, str(lib_path).encode())


def take_log() -> str:
    """What wgpu has logged since the last call."""
    text = declarations().new("char[]", 16384)
    count = load().tg_take_log(text, 16384)
    return bytes(declarations().buffer(text, count)).decode(errors="replace")
