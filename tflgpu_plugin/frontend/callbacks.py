"""Code that the callbacks of every frontend share: they return a number and a sentence to native
code, and open the device that the options name.

Native code runs each callback on a helper thread while the host's thread waits outside Python.
Therefore no signal handler, trace function or greenlet of the program interrupts our work; they run
when the host has returned. No exception leaves a callback, since native code could not handle it:
an error of this plugin becomes a sentence, and one of the program is raised again in the thread
that called the host."""

from __future__ import annotations

import atexit
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from tflgpu_plugin import native, threads
from tflgpu_plugin.cache import store
from tflgpu_plugin.errors import BuildError, HostError, ImpossibleShapes
from tflgpu_plugin.frontend import messages
from tflgpu_plugin.ir import Refusal
from tflgpu_plugin.log import REPORT
from tflgpu_plugin.options import OptionError, Options
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo, NoAdapter
from tflgpu_plugin.switches import debugging

SENTENCES = (OptionError, NoAdapter, BuildError, native.NativeError, HostError)

IMPOSSIBLE = -1  # returned where no device can run the model with the shapes of a run

Functions = Mapping[str, Any]  # by name; they return an int or None

_tables: dict[str, Any] = {}  # objects that native code points to; never emptied
_connecting = threads.Lock()


def connect(host: str, functions: Functions) -> None:
    """Gives native code these functions under the names that a host's callbacks (tg_<host>) have
    there; they are cleared before Python shuts down."""
    ffi, kind = native.ffi, f"tg_{host}_callbacks"
    set_callbacks = getattr(native.lib, f"tg_{host}_set_callbacks")
    with _connecting:
        if host not in _tables:
            table = ffi.new(f"{kind} *")
            for name, member in ffi.typeof(kind).fields:
                made = ffi.callback(member.type, callback_of(functions, name), error=0)
                native.keep_for_ever(made)
                setattr(table, name, made)
            atexit.register(set_callbacks, ffi.NULL)
            _tables[host] = table
        set_callbacks(_tables[host])


def callback_of(functions: Functions, name: str) -> Callable[..., int]:
    """Returns a function as native code calls it, with a tg_error * after its arguments
    (`guarded`)."""
    return lambda *given: guarded(lambda: functions[name](*given[:-1]), given[-1])


def guarded(work: Callable[[], int | None], err: Any) -> int:
    """Returns 1 (or what `work` returns) on success. Otherwise it returns 0 or IMPOSSIBLE and
    writes a sentence to `err` (tg_error *), which the host reports as one of its errors.
    `threads.run_for_caller` says when interrupted work is done again."""

    def delivered() -> int | None:
        with native.delivering():  # what handlers of the program raise is for the caller
            return work()

    try:
        result = threads.run_for_caller(native.lib.tg_caller_thread(), delivered)
        return 1 if result is None else result
    except BaseException as error:
        text = sentence(error).encode(errors="replace")[: len(err.text) - 1]
        err.text = text.decode(errors="ignore").encode()  # hosts need complete UTF-8 characters
        return IMPOSSIBLE if isinstance(error, ImpossibleShapes) else 0


def sentence(error: BaseException) -> str:
    """Returns the sentence that a user reads about an exception."""
    if debugging():
        traceback.print_exception(error)
    if isinstance(error, SENTENCES):
        return str(error)
    if isinstance(error, MemoryError):
        return "There is not enough memory for this on the host."
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"The operating system says: {error.strerror}{where}."
    return f"tflgpu failed with {error!r}. {REPORT} TFLGPU_DEBUG=1 prints where it was."


def refusal(error: Exception) -> Refusal:
    """Returns the refusal of all nodes of a graph, the work on which ended with this exception."""
    if isinstance(error, BuildError):
        return error.sentence
    kinds = {
        MemoryError: "memory.exhausted",
        NoAdapter: "device.missing",
        HostError: "host.interface",
    }
    code = next((code for kind, code in kinds.items() if isinstance(error, kind)), "defect")
    return Refusal(code, sentence(error))


def pairs(keys: Any, values: Any, count: int) -> dict[str, str]:
    """Returns options that C passes as two arrays of `count` char *. Bytes that are not UTF-8, as
    names of folders may contain, are decoded as Python's file functions do."""

    def text(string: Any) -> str:
        return bytes(native.ffi.string(string)).decode(errors="surrogateescape")

    return {text(keys[k]): text(values[k]) for k in range(count)}


def opened(options: Options) -> AdapterInfo:
    """Returns the adapter that the options name, with its device open. Raises OptionError or
    NoAdapter with a sentence."""
    store.opened(options)  # an unsafe folder is refused now, not at the first write
    info = adapter.select(options.adapter)
    device = adapter.open_device(info)
    if options.without:
        from tflgpu_plugin import engine  # imported late, because a start is then shorter

        engine.target_of(device, options)  # unknown names are refused now
    messages.software(info)
    return info
