"""A GPU for TensorFlow Lite and ONNX Runtime: one kernel library, and a frontend for each host.

Importing this package loads its shared library into the process. That is its one side effect, and
the reason why a host's own `load_delegate("tflgpu")` then finds the name. Everything else is
imported when it is first used.

    import tflgpu_plugin
    interpreter = Interpreter(path, experimental_delegates=[load_delegate("tflgpu")])"""

from __future__ import annotations

import atexit as _atexit
import ctypes as _ctypes
import os as _os
import sys as _sys
from contextlib import contextmanager as _contextmanager
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from tflgpu_plugin import native as _native, threads as _threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from tflgpu_plugin.frontend.reports import AdapterReport, NodeReport, Report
    from tflgpu_plugin.preference import Preference

__all__ = [
    "AdapterReport", "NodeReport", "Report", "adapters", "assert_used", "get_ep_name",
    "get_ep_names", "get_library_path", "last_report", "litert_environment", "load_delegate",
    "on_refusal", "preferred", "register", "report", "session", "set_log_level", "unregister",
]  # fmt: skip

on_refusal: Callable[[NodeReport], None] | None = None
"""Set it to a function that is called once with a NodeReport for each node that stays on the
CPU.
"""


def adapters() -> list[AdapterReport]:
    """Returns the adapters of this machine, the best first; `index`, or a part of a name, is a
    value of the option `adapter`. The list is empty where no adapter can be used."""
    from tflgpu_plugin.frontend import reports

    with _guarding_forks():
        from tflgpu_plugin.runtime import adapter

        return [reports.of_adapter(info) for info in adapter.adapters()]


def load_delegate(
    library: str | Mapping[str, Any] = "tflgpu", options: Mapping[str, Any] | None = None
) -> Any:
    """Returns a delegate for `Interpreter(..., experimental_delegates=[...])`, made with the
    `load_delegate` of the TFLite host that is already imported, or else of one that is installed
    (ai-edge-litert, tflite-runtime, TensorFlow). The options may also be the only argument:
    `load_delegate({"adapter": "nvidia"})`.

    Raises ValueError with a sentence for a bad option or when no adapter can be used, ImportError
    when there is no host, and TypeError for other arguments."""
    if not isinstance(library, str):
        if options is not None:
            raise TypeError("load_delegate() takes its options once.")
        options, name = library, "tflgpu"
    else:
        name = library
    if options is not None and not hasattr(options, "items"):
        raise TypeError(
            'load_delegate() takes options as a dictionary, such as {"adapter": "nvidia"}, not '
            f"{options!r}."
        )
    return _provider("tflite").load_delegate(name, options)


def litert_environment(**options: object) -> Any:
    """Returns an `Environment` for LiteRT's `CompiledModel` whose GPU accelerator is this plugin's,
    with these options of the plugin: `CompiledModel.from_file(path, hardware_accel=
    HardwareAccelerator.GPU | HardwareAccelerator.CPU, environment=litert_environment())`.

    Raises ValueError with a sentence for a bad option, ImportError with what to install where
    ai-edge-litert is missing or too old."""
    with _guarding_forks():
        return _provider("tflite").litert_environment(options)


def report(target: Any) -> Report:
    """Returns the report of this delegate, session or CompiledModel: where each node of its graphs
    runs, and how often partitions have run. Raises TypeError for anything else."""
    for ask in _provider_functions("report"):
        found: Report | None = ask(target)
        if found is not None:
            return found
    raise TypeError(
        "report() takes what load_delegate() returned, while it is in use, an onnxruntime session "
        "with this provider, or a CompiledModel with litert_environment(), not "
        f"{target!r}. assert_used(session) says why a session does not use it."
    )


def last_report() -> Report | None:
    """Returns the newest report of this thread, or None when this thread has given no graph to the
    plugin."""
    from tflgpu_plugin.frontend import reports

    return reports.newest()


def register() -> None:
    """Registers `TflGpuExecutionProvider` with onnxruntime, under the library name "tflgpu".
    Further calls do nothing.

    Raises ImportError or RuntimeError with a sentence when onnxruntime is missing or too old."""
    with _guarding_forks(), _native.looking():
        _provider("onnxruntime").register()


def unregister() -> None:
    """Removes the provider from onnxruntime; does nothing where it is not registered. Sessions that
    use it keep working, and `register()` adds it again."""
    _provider("onnxruntime").unregister()


def session(path: Any, *, sess_options: Any = None, **options: object) -> Any:
    """Returns an `onnxruntime.InferenceSession` that runs this ONNX model (a path, or the bytes of
    a file) on the GPU with these options of the plugin: `session("model.onnx", adapter="nvidia")`.
    Nodes that the plugin does not support stay on the CPU. onnxruntime's own fallback is off, so
    that errors of the provider are raised. `sess_options` is an `onnxruntime.SessionOptions`, to
    which the provider is added.

    Raises ValueError with a sentence for a bad option, RuntimeError when no adapter can be used,
    ImportError or RuntimeError as `register()` does, and what onnxruntime raises for the model."""
    with _guarding_forks(), _native.looking():
        return _provider("onnxruntime").session(path, sess_options, options)


def assert_used(session: Any) -> None:
    """Raises AssertionError, with the reasons, when no node of this onnxruntime.InferenceSession
    runs on the GPU: onnxruntime falls back to the CPU without an error. Raises TypeError for
    anything else."""
    if reason := _forked():
        raise AssertionError(reason)
    _provider("onnxruntime").assert_used(session)


def preferred(**options: object) -> AbstractContextManager[Preference]:
    """Returns a context in which sessions and interpreters of this process that name no other
    provider or delegate use this plugin, with these options: `with tflgpu_plugin.preferred():`. The
    context manager yields an object that counts them. Raises OptionError."""
    from tflgpu_plugin import preference

    return preference.preferred(**options)


def set_log_level(level: str) -> None:
    """Sets the least level that the logger "tflgpu_plugin" logs: debug, info, warning (the default,
    unless the variable TFLGPU_LOG names another), error or off. Raises ValueError for any other."""
    from tflgpu_plugin import log

    log.set_level(level)


def get_library_path() -> str:
    """Returns the absolute path of the shared library, for `register_execution_provider_library` of
    onnxruntime and other plugin loaders."""
    from importlib.util import find_spec

    if find_spec("onnxruntime"):
        _provider("onnxruntime")  # so that the library knows the adapters when it is registered
    return str(_native.library_path())


def get_ep_name() -> str:
    """Returns the name of the execution provider for onnxruntime."""
    return get_ep_names()[0]


def get_ep_names() -> list[str]:
    """Returns the names of all execution providers in the library."""
    return ["TflGpuExecutionProvider"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tflgpu-plugin")
    if name in __all__:  # the classes of reports
        return getattr(_import_module("tflgpu_plugin.frontend.reports"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _forked() -> str:
    """Returns why a forked child of a process that uses the GPU cannot use it, else ""."""
    text = _ctypes.create_string_buffer(_TEXT_BYTES + 4)
    return text.value.decode() if _library.tg_is_forked(text) else ""


def _provider_functions(function: str) -> list[Callable[..., Report | None]]:
    """Returns the function of this name of every provider that has one."""
    if "tflgpu_plugin.providers" not in _sys.modules and (reason := _forked()):
        raise RuntimeError(
            reason
        )  # an import that another thread had begun never ends in the child
    found = _providers().discover().values()
    return [getattr(p, function) for p in found if hasattr(p, function)]


def _providers() -> Any:
    """Returns the package of providers. Raises ImportError with a sentence where this package is
    the source tree, which Python finds first inside a checkout, and not the installed one."""
    try:
        return _import_module("tflgpu_plugin.providers")
    except ModuleNotFoundError as error:
        if error.name != "tflgpu_plugin.providers":
            raise
        raise ImportError(
            f"{_os.path.dirname(__file__)} is the source of tflgpu_plugin, not an installed "
            "package. Run Python in another folder, or install this one: pip install -e ."
        ) from None


def _provider(name: str) -> Any:
    """Returns a connected provider. Raises ProviderError with a sentence when it is not
    installed."""
    with _guarding_forks():
        provider: Any = _providers().find(name)
        provider.connect()
        return provider


@_contextmanager
def _guarding_forks() -> Iterator[None]:
    """Guards work during which a fork would leave a child waiting for import locks that no thread
    of the child can release: such a child gets a sentence that says why it cannot use the GPU.
    Raises RuntimeError with that sentence in the child."""
    if reason := _forked():
        raise RuntimeError(reason)
    _library.tg_busy(1)
    try:
        yield
    finally:
        _library.tg_busy(-1)


# The first delegate comes through this stub, which connects the frontend; native code calls the
# frontend itself from then on. The three pointers are tg_tflite_callbacks of native/core/tflgpu.h,
# declared with ctypes because reading the headers takes longer than everything else here.
_CREATE = _ctypes.CFUNCTYPE(
    _ctypes.c_int64, _ctypes.c_void_p, _ctypes.c_void_p, _ctypes.c_size_t, _ctypes.c_void_p
)
_TEXT_BYTES = 4096  # of the text of a tg_error, which one 32-bit number follows


def _create(keys: int, values: int, count: int, err: int) -> int:
    def create() -> int:
        with _native.looking():
            # ctypes passes NULL, which is no options, as None.
            return int(_provider("tflite").create(keys or 0, values or 0, count, err))

    try:
        return _threads.run_for_caller(_library.tg_caller_thread(), create)
    except BaseException as error:  # native code takes no exception
        text = str(error).encode(errors="replace")[: _TEXT_BYTES - 1]
        text = text.decode(errors="ignore").encode() + b"\0"
        _ctypes.memmove(err, text, len(text))
        return 0


_stub = _CREATE(_create)
_native.keep_for_ever(_stub)


def _load() -> Any:
    """Loads the library and registers the stub. The path must be absolute: loaders match bare names
    with the SONAMEs of libraries that are already loaded. Raises ImportError where that cannot
    work."""
    state = _ctypes.PYFUNCTYPE(_ctypes.c_void_p)
    here, main = (
        state((f"PyInterpreterState_{name}", _ctypes.pythonapi))() for name in ("Get", "Main")
    )
    if (
        here != main
    ):  # hosts would call the main interpreter, and the end of this one would free the library
        raise ImportError("tflgpu_plugin works in Python's main interpreter only, not in others.")
    library = _ctypes.CDLL(str(_native.library_path()))
    if _sys.platform == "linux":
        first = _ctypes.CDLL("tflgpu", _os.RTLD_NOW | _os.RTLD_NOLOAD)
        if first._handle != library._handle:  # `load_delegate("tflgpu")` would find that copy
            raise ImportError(
                "This process has loaded another copy of tflgpu_plugin before the one in "
                f"{_os.path.dirname(__file__)}. Remove one of them, or start another process."
            )
    stubs = (_ctypes.c_void_p * 3)(_ctypes.cast(_stub, _ctypes.c_void_p).value, None, None)
    library.tg_tflite_set_callbacks.restype = None
    library.tg_caller_thread.restype = _ctypes.c_uint64
    library.tg_tflite_set_callbacks(stubs)
    _atexit.register(library.tg_tflite_set_callbacks, None)
    return library


_library = _load()
