"""What every door's callbacks have in common: they answer native code with a number and a sentence,
and open the device that the options name.

No exception leaves a callback; native code, and so the host's process, could do nothing with it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

from tflgpu_plugin import cache, messages, native
from tflgpu_plugin.engine import BuildError
from tflgpu_plugin.options import OptionError, Options
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.adapter import AdapterInfo, NoAdapter

from . import HostError

SENTENCES = (OptionError, NoAdapter, BuildError, native.NativeError, HostError)


def guarded(work: Callable[[], int | None], err: Any, err_size: int) -> int:
    """1 (or what `work` returns) on success; 0 with a sentence in `err` (char *) otherwise."""
    try:
        result = work()
        return 1 if result is None else result
    except BaseException as error:
        text = sentence(error).encode(errors="replace")[: err_size - 1]
        data = text.decode(errors="ignore").encode()  # hosts want whole letters
        native.ffi.memmove(err, data + b"\0", len(data) + 1)
        return 0


def sentence(error: BaseException) -> str:
    """What a user is told of an exception."""
    if os.environ.get("TFLGPU_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, SENTENCES):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted."
    return f"tflgpu failed with {error!r}. Please report this; TFLGPU_DEBUG=1 prints where it was."


def pairs(keys: Any, values: Any, count: int) -> dict[str, str]:
    """Options as C hands them over (two arrays of `count` char *)."""
    text = native.ffi.string
    return {text(keys[k]).decode(): text(values[k]).decode() for k in range(count)}


def opened(options: Options) -> AdapterInfo:
    """The adapter that the options name, with its device open. Raises OptionError or NoAdapter with
    a sentence.
    """
    cache.opened(options)  # a folder that is not safe is told now
    info = adapter.select(options.adapter)
    adapter.open_device(info)
    messages.software(info)
    return info
