"""Adds our delegate to interpreters without delegates, where the user prefers this plugin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from inspect import BoundArguments
from typing import Any

from . import delegates

Plain = Callable[[BoundArguments], None]


def wrapped(module: str) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yields (class, method name, replacement) of each method of the host to wrap."""
    host = sys.modules[module]
    yield host.Interpreter, "__init__", partial(_made, host)


def _made(host: Any, preference: Any, plain: Plain, arguments: BoundArguments) -> None:
    """Wraps `Interpreter(...)`. An interpreter that preserves all tensors stays without a delegate:
    it is for debugging the host's own kernels."""
    given = arguments.arguments
    if given.get("experimental_delegates") or given.get("experimental_preserve_all_tensors"):
        preference.not_ours()
        return plain(arguments)
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
    return None
