"""Repeats tests that bound memory or CPU time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

TRIES = 3


def measured(test: Callable[..., None]) -> Callable[..., None]:
    """Returns a test that passes when one of `TRIES` runs of `test` passes. Allocators, caches and
    other work on the machine add to memory and CPU time, and take nothing away: the least of a few
    measurements is that of the program itself."""

    @wraps(test)
    def repeated(*arguments: Any, **named: Any) -> None:
        for last in (False,) * (TRIES - 1) + (True,):
            try:
                return test(*arguments, **named)
            except AssertionError:
                if last:
                    raise

    return repeated
