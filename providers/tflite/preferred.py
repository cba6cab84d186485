"""Interpreters without delegates get ours, where the user prefers us."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from inspect import BoundArguments
from typing import Any

from . import records

Plain = Callable[[BoundArguments], None]


def wrapped(module: str) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """(class, method, what is called in its place)."""
    host = sys.modules[module]

    def made(preference: Any, plain: Plain, arguments: BoundArguments) -> None:
        _made(preference, plain, arguments, host)

    yield host.Interpreter, "__init__", made


def _made(preference: Any, plain: Plain, arguments: BoundArguments, host: Any) -> None:
    """`Interpreter(...)`. One that keeps all tensors is for looking at the host's own kernels."""
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
        preference.made("interpreter", delegate, records.report)
    return None
