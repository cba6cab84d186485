"""The shared library: finding it, loading it, and calling it through cffi.

It is loaded by `load()`, or by the first use of `ffi` or `lib`. The declarations are the header
files that C includes, parsed when the library is built (declare.py)."""

from __future__ import annotations

import atexit
import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from tflgpu_plugin import log, threads, trusted
from tflgpu_plugin.registry import Single

MAX_ADAPTERS = 32  # adapters
_START, _END = {"win32": ("", ".dll"), "darwin": ("lib", ".dylib")}.get(
    sys.platform, ("lib", ".so")
)
_FILE = f"{_START}tflgpu{_END}"
_WGPU = tuple(f"{_START}wgpu_native{build}{_END}" for build in ("-release", ""))


class NativeError(RuntimeError):
    """An error for a native function that failed; the message is its sentence."""


class OutOfMemory(NativeError):
    """An error for a native function that failed because the host or the GPU does not have enough
    memory."""


@functools.cache
def library_path() -> Path:
    """Returns the path of the installed library: next to this file, or where an editable install
    has put it. Raises NativeError."""
    beside = Path(__file__).with_name(_FILE)
    folders = (Path(folder, "tflgpu_plugin", "native") for folder in sys.path)
    for candidate in (beside, *(folder / _FILE for folder in folders)):
        if candidate.is_file():
            return in_code_page(candidate) if sys.platform == "win32" else candidate
    raise NativeError(f"{_FILE} is not installed; it should be {beside}. Reinstall tflgpu-plugin.")


def in_code_page(path: Path) -> Path:
    """Returns a path that onnxruntime for Windows accepts, the short name if there is one: it fails
    with "No Unicode translation" for characters that are not in the code page."""
    try:
        str(path).encode("mbcs", "strict")
    except UnicodeEncodeError:
        import ctypes

        room = ctypes.create_unicode_buffer(1 << 15)
        kernel: Any = getattr(ctypes, "windll").kernel32  # noqa: B009  (types know it there only)
        return Path(room.value) if kernel.GetShortPathNameW(str(path), room, len(room)) else path
    return path


def declarations() -> Any:
    """Returns the cffi interface of the headers in core and tflite/abi.h, without the library."""
    return interface("_declarations")


@functools.cache
def interface(module: str) -> Any:
    """Returns a cffi interface that the build has made from headers: `_declarations`, or
    `_declarations_ort` for ort/abi.h. Raises NativeError."""
    try:
        return importlib.import_module(f"{__name__}.{module}").ffi
    except ModuleNotFoundError as error:
        raise NativeError(f"{error.name} is not installed. Reinstall tflgpu-plugin.") from error


def keep_for_ever(function: Any) -> None:
    """Prevents this callback from being freed: native code calls it even after all modules of this
    package have been removed from `sys.modules`."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))


def _load() -> Any:
    library: Any = declarations().dlopen(str(library_path()))
    deliver = declarations().callback("void(*)(void)", _deliver_for_call)
    keep_for_ever(deliver)
    library.tg_set_log_callback(deliver)
    atexit.register(library.tg_close)  # called last
    atexit.register(library.tg_set_log_callback, declarations().NULL)
    atexit.register(deliver_log)
    return library


load = Single(_load)  # the library, loaded once and kept as long as the process
ffi: Any  # made by __getattr__, like lib
lib: Any


def __getattr__(name: str) -> Any:
    if name == "lib":
        return load()
    if name == "ffi":
        return declarations()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def call(function: Any, *args: Any) -> Any:
    """Calls a function whose last parameter is a tg_error, and returns its result. Raises
    NativeError with its sentence where the result is NULL or a status other than 0."""
    ffi = declarations()
    err = ffi.new("tg_error *")
    result = function(*args, err)
    if result == ffi.NULL if isinstance(result, ffi.CData) else result != 0:
        reason = ffi.string(err.text).decode(errors="replace")
        kind = OutOfMemory if err.no_memory else NativeError
        raise kind(reason or "The native library gave no reason.")
    return result


@contextmanager
def busy() -> Iterator[None]:
    """Marks calls into our code that hold locks, while the context is entered. A child that is
    forked then must not use the GPU, because it would wait for these locks. Raises NativeError in
    such a child."""
    lib = load()
    call(lib.tg_is_forked)
    lib.tg_busy(1)
    try:
        with delivering():
            yield
    finally:
        lib.tg_busy(-1)


def open_wgpu() -> None:
    """Loads wgpu's native library and binds ours to it, without importing the wgpu package, which
    takes as long as the rest of a start. Raises NativeError."""
    call(load().tg_bind_wgpu, str(wgpu_path()).encode())


def adapters() -> tuple[Any, int]:
    """Returns wgpu's adapters of Vulkan and Metal (tg_adapter[]) and their number, which are looked
    up once, by the first thread that asks. Raises NativeError."""
    with busy():
        return _adapters()


def d3d12_adapters() -> tuple[Any, int]:
    """Returns wgpu's adapters of D3D12 and their number, which takes long: it makes a device of
    each. Raises NativeError."""
    with busy():
        return _d3d12_adapters()


def _look() -> tuple[Any, int]:
    quiet: AbstractContextManager[None] = nullcontext()
    if sys.platform == "linux":
        from tflgpu_plugin.native import drivers

        drivers.open_ahead(load())
        quiet = drivers.quiet()
    open_wgpu()
    with quiet:
        return _listed(load().TG_VULKAN_AND_METAL)


def look_at_d3d12() -> tuple[Any, int]:
    """Looks adapters of D3D12 up anew, see `d3d12_adapters`."""
    from tflgpu_plugin.native import dxc

    open_wgpu()
    path = dxc.found().path
    if path and (found := _listed(load().TG_D3D12_BY_DXC, path.encode()))[1]:
        return found
    return _listed(load().TG_D3D12_BY_FXC)  # wgpu lists none if it cannot load that DLL


def _listed(backends: int, compiler: bytes | None = None) -> tuple[Any, int]:
    ffi = declarations()
    listed, count = ffi.new("tg_adapter[]", MAX_ADAPTERS), ffi.new("size_t *")
    call(load().tg_adapters_list, backends, compiler or ffi.NULL, listed, MAX_ADAPTERS, count)
    return listed, int(count[0])


_adapters = Single(_look)
_d3d12_adapters = Single(look_at_d3d12)


@contextmanager
def looking() -> Iterator[None]:
    """Lets another thread look for adapters while the context is entered, since loading drivers
    takes as long as importing the modules that use them."""

    def look() -> None:
        with suppress(NativeError):  # raised again in callers of adapters()
            adapters()

    begun = threads.begin(look, "adapters")
    try:
        yield
    finally:
        begun.wait()


def wgpu_path() -> Path:
    """Returns the path of the library in the installed wgpu package, or of the one that wgpu's
    variable names. Raises NativeError."""
    if named := trusted.variable("WGPU_LIB_PATH").strip():
        return Path(named)
    found = importlib.util.find_spec("wgpu")
    if found is None or not found.origin:
        raise NativeError("The wgpu package is not installed. Install it with `pip install wgpu`.")
    folder = Path(found.origin).parent / "resources"
    for name in _WGPU:
        if (folder / name).is_file():
            return folder / name
    raise NativeError(f"{folder} has no {_WGPU[0]}. Install wgpu again: `pip install wgpu`.")


_inside = threads.local()  # `entered` where the thread is in a `delivering` context
_taking = threads.Lock()  # no thread waits for it, because handlers may call deliver_log again


@contextmanager
def delivering() -> Iterator[None]:
    """A context for a call into our code that has released our locks at its end. The outermost of
    these contexts on a thread then delivers messages of the GPU to `logging`."""
    nested, _inside.entered = getattr(_inside, "entered", False), True
    try:
        yield
    finally:
        _inside.entered = nested
        deliver_log()


def deliver_log() -> None:
    """Logs the messages of wgpu and of devices, each once; in a `delivering` context they wait for
    its end. The caller must not hold a lock, because handlers are code of the program."""
    library = load()
    while library.tg_has_log():
        if getattr(_inside, "entered", False) or not _taking.acquire(blocking=False):
            return
        try:
            text = declarations().new("char[]", library.TG_LOG_BYTES)
            taken = bytes(declarations().buffer(text, library.tg_take_log(text)))
            for message in taken.decode(errors="replace").split("\0")[:-1]:
                log.say(message[1:], 10 * int(message[0]))
        finally:
            _taking.release()


def _deliver_for_call() -> None:
    """Delivers messages for native code, at the end of a host's call."""
    threads.run_for_caller(load().tg_caller_thread(), deliver_log)
