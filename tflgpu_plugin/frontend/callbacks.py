"""What every frontend's callbacks have in common: they answer native code with a number and a
sentence, and open the device that the options name.

No exception leaves a callback; native code, and so the host's process, could do nothing with it.
An interruption (Ctrl-C) that meets one is raised again when the host is back in the user's code.
"""

from __future__ import annotations

import _thread
import atexit
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from tflgpu_plugin import native
from tflgpu_plugin.cache import store
from tflgpu_plugin.errors import BuildError, HostError, ImpossibleShapes, debugging
from tflgpu_plugin.frontend import messages
from tflgpu_plugin.options import OptionError, Options
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.adapter import AdapterInfo, NoAdapter

SENTENCES = (OptionError, NoAdapter, BuildError, native.NativeError, HostError)


IMPOSSIBLE = -1  # the answer where the model itself cannot be run with the shapes of a run
SOON = 0.05  # seconds after which an interruption is raised again, unless a callback runs

Functions = Mapping[str, Any]  # by name; they return an int or None

_running: set[int] = set()  # threads that are in a callback
_tables: dict[str, Any] = {}  # what native code points to; never emptied
_connecting = threading.Lock()


def connect(host: str, functions: Functions, dispensable: str) -> None:
    """Give native code these functions by the names that a host's (tg_<host>) callbacks have there;
    they are cleared before Python goes down. The `dispensable` one is not done again after an
    interruption.
    """
    ffi, kind = native.ffi, f"tg_{host}_callbacks"
    set_callbacks = getattr(native.lib, f"tg_{host}_set_callbacks")
    with _connecting:
        if host not in _tables:
            table = ffi.new(f"{kind} *")
            for name, member in ffi.typeof(kind).fields:
                needed = name != dispensable
                answer = answering(functions, name, needed)
                setattr(table, name, callback(member.type, answer, needed))
            atexit.register(set_callbacks, ffi.NULL)
            _tables[host] = table
        set_callbacks(_tables[host])


def answering(functions: Functions, name: str, needed: bool = True) -> Callable[..., int]:
    """A function as native code calls it: with a tg_error * behind its arguments (`guarded`)."""
    return lambda *given: guarded(lambda: functions[name](*given[:-1]), given[-1], needed)


def callback(kind: Any, function: Callable[..., int], needed: bool = True) -> Any:
    """A C function pointer (of this cffi type) to a callback that answers with `guarded`."""

    def outside(error_type: type[BaseException], error: BaseException, where: Any) -> int:
        """Before or after `guarded`: signals may come between any two instructions."""
        if not isinstance(error, KeyboardInterrupt):
            traceback.print_exception(error_type, error, where)
        elif needed:
            _interrupt_soon()
        else:
            native.lib.tg_interrupted()
            return 1
        return 0

    made = native.ffi.callback(kind, function, error=0, onerror=outside)
    native.keep_for_ever(made)
    return made


def _interrupt_soon() -> None:
    """Raise KeyboardInterrupt in the main thread when it has left our callbacks."""
    threading.Thread(target=_interrupt, daemon=True).start()


def _interrupt() -> None:
    time.sleep(SOON)
    while threading.main_thread().ident in _running:
        time.sleep(SOON)
    _thread.interrupt_main()


def guarded(work: Callable[[], int | None], err: Any, needed: bool = True) -> int:
    """1 (or what `work` returns) on success; 0 or IMPOSSIBLE with a sentence in `err` (tg_error *)
    otherwise.

    Hosts make an error of their own of the latter, which would hide that Ctrl-C was pressed. So
    work that is interrupted is done again when it is `needed`, else left as it is, and the user
    gets KeyboardInterrupt when the host returns.
    """
    thread = threading.get_ident()
    _running.add(thread)
    try:
        try:
            result = work()
        except KeyboardInterrupt:
            native.lib.tg_interrupted()
            result = work() if needed else None
        return 1 if result is None else result
    except BaseException as error:
        text = sentence(error).encode(errors="replace")[: len(err.text) - 1]
        err.text = text.decode(errors="ignore").encode()  # hosts want whole letters
        return IMPOSSIBLE if isinstance(error, ImpossibleShapes) else 0
    finally:
        _running.discard(thread)


def sentence(error: BaseException) -> str:
    """What a user is told of an exception."""
    if debugging():
        traceback.print_exception(error)
    if isinstance(error, SENTENCES):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this on the host."
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"The operating system says: {error.strerror}{where}."
    return f"tflgpu failed with {error!r}. Please report this; TFLGPU_DEBUG=1 prints where it was."


def pairs(keys: Any, values: Any, count: int) -> dict[str, str]:
    """Options as C hands them over (two arrays of `count` char *); bytes that are no UTF-8, as the
    names of folders may have, as Python's file functions take them.
    """

    def text(string: Any) -> str:
        return bytes(native.ffi.string(string)).decode(errors="surrogateescape")

    return {text(keys[k]): text(values[k]) for k in range(count)}


def opened(options: Options) -> AdapterInfo:
    """The adapter that the options name, with its device open. Raises OptionError or NoAdapter with
    a sentence.
    """
    store.opened(options)  # a folder that is not safe is told now
    info = adapter.select(options.adapter)
    adapter.open_device(info)
    messages.software(info)
    return info
