"""Variables that stay on the device between runs, and programs that read them.

A host does not say when a program reads a tensor. So the Interpreter class of the host is wrapped:
before a program gets a variable, the variable is copied to the host's memory."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from tflgpu_plugin.providers import Unsupported, native

from . import loops, model_file
from .host_node import library

# The module of each host with the class Interpreter, by package.
MODULES = {
    "ai_edge_litert": "ai_edge_litert.interpreter",
    "tflite_runtime": "tflite_runtime.interpreter",
    "tensorflow": "tensorflow.lite.python.interpreter",
}


def may_stay(ffi: Any, context: Any, tensors: Collection[int]) -> bool:
    """Whether these variables of the graph of `context` may stay on the device: programs can read
    them only with the methods that are wrapped, which reach the first graph of a model, and not as
    an output. Wraps the methods."""
    host = _host(ffi, context) if tensors and loops.is_first(ffi, context) else None
    try:
        if host is None or not set(tensors).isdisjoint(model_file.order(ffi, [context], 0)[1]):
            return False
    except Unsupported:
        return False
    _wrap(host.Interpreter)
    return True


def _host(ffi: Any, context: Any) -> Any:
    """Returns the module with the class Interpreter of the host of `context`, or None."""
    path = Path(library(ffi, context))
    for package, module in MODULES.items():
        found = sys.modules.get(module)
        if found and path.is_relative_to(Path(str(sys.modules[package].__file__)).parent):
            return found
    return None


def _wrap(interpreter: type) -> None:
    """Wraps the methods of the host's class Interpreter that return a tensor, once: they then fetch
    the tensor first."""
    plain_view, plain_copy = interpreter.tensor, interpreter.get_tensor  # type: ignore[attr-defined]
    if getattr(plain_copy, "tflgpu_fetches", False):
        return

    @functools.wraps(plain_copy)
    def get_tensor(self: Any, tensor_index: int, *more: Any, **named: Any) -> Any:
        with suppress(ValueError, TypeError):  # which the host raises once more
            _fetch(plain_view(self, tensor_index)())
        return plain_copy(self, tensor_index, *more, **named)

    @functools.wraps(plain_view)
    def tensor(self: Any, *given: Any, **named: Any) -> Any:
        view = plain_view(self, *given, **named)
        return lambda: _fetch(view())

    get_tensor.tflgpu_fetches = True  # type: ignore[attr-defined]
    interpreter.tensor, interpreter.get_tensor = tensor, get_tensor  # type: ignore[attr-defined]


def _fetch(view: Any) -> Any:
    """Returns a view of a tensor's memory, with its newest value. Hosts refuse a run while the
    program has a view. Raises NativeError if the value is lost."""
    if view.nbytes:
        memory = native.ffi.from_buffer(view)
        native.call(native.lib.tg_tflite_show_state, memory, view.nbytes)
    return view
