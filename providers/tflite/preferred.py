"""Adds our delegate to interpreters without delegates, and our accelerator to LiteRT's compiled
models, where the user prefers this plugin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from inspect import BoundArguments
from typing import Any

from tflgpu_plugin import providers

from . import delegates, litert

Plain = Callable[[BoundArguments], Any]


def wrapped(module: str) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yields (class, method name, replacement) of each method of the host to wrap."""
    host = sys.modules[module]
    if module != litert.MODULE:
        yield host.Interpreter, "__init__", partial(_made, host)
    elif hasattr(host, "Environment"):  # since ai-edge-litert 2.3
        litert.watch(host)
        for name in litert.MAKERS:
            yield host.CompiledModel, name, partial(_compiled, host)


def _made(host: Any, preference: Any, plain: Plain, arguments: BoundArguments) -> None:
    """Wraps `Interpreter(...)`. An interpreter that preserves all tensors stays without a delegate:
    it is for debugging the host's own kernels."""
    given = arguments.arguments
    if given.get("experimental_delegates") or given.get("experimental_preserve_all_tensors"):
        preference.not_ours()
        plain(arguments)
        return
    attempt = BoundArguments(arguments.signature, given.copy())
    try:
        delegate = host.load_delegate("tflgpu", dict(preference.options))
        attempt.arguments["experimental_delegates"] = [delegate]
        plain(attempt)
    except Exception as error:
        plain(arguments)
        preference.fail("interpreter", error)
    else:
        preference.made("interpreter", delegate, delegates.report)


# ---- LiteRT's CompiledModel ----------------------------------------------------------------------

# Environments of ours in place of those of programs, by these: models of one share one.
_instead: providers.WeakRegistry[Any, providers.Registry[str, Any]] = providers.WeakRegistry()
_making = providers.threads.RLock()


def _compiled(host: Any, preference: Any, plain: Plain, arguments: BoundArguments) -> Any:
    """Wraps `CompiledModel.from_file(...)` and `from_buffer(...)`: models on the GPU, and those
    that do not name their hardware unless the preference is for named GPUs only."""
    given = dict(arguments.arguments)
    given.pop(next(iter(given)))  # the class
    unnamed = given.get("hardware_accel") is None and given.get("options") is None
    theirs = given.get("environment")
    takes = litert.on_gpu(**_named(given)) or (unnamed and not preference.named)
    if not takes or not _is_plain(host, theirs):
        if not preference.named:
            preference.not_ours()
        return plain(arguments)
    attempt = BoundArguments(arguments.signature, arguments.arguments.copy())
    if unnamed:
        kinds = host.HardwareAccelerator
        attempt.arguments["hardware_accel"] = kinds.GPU | kinds.CPU
    try:
        attempt.arguments["environment"] = _ours(theirs, dict(preference.options))
        model = plain(attempt)
    except Exception as error:
        model = plain(arguments)
        preference.fail("compiled model", error)
    else:
        preference.made("compiled model", model, litert.report)
    return model


def _named(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given.get(name) for name in ("model", "hardware_accel", "environment", "options")}


def _is_plain(host: Any, environment: Any) -> bool:
    """Whether an environment is the host's own, which names no folder of accelerators."""
    if environment is None:
        return True
    own = host.Environment.__module__
    folder = str(sys.modules[own].__file__).rpartition("environment")[0].rstrip("\\/")
    return bool(environment.options.runtime_path == folder)


def _ours(theirs: Any, options: dict[str, str]) -> Any:
    """Returns an environment of ours with these options, in place of the program's, if any."""
    if theirs is None:
        return litert.environment(options)
    key = litert.folder(options)
    with _making:
        known = _instead.get(theirs) or providers.Registry()
        if known.get(key) is None:
            known.put(key, litert.environment(options, theirs))
            _instead.put(theirs, known)
        return known.get(key)
