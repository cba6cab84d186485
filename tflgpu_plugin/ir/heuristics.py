"""Heuristics: functions that choose among alternatives which are all correct for every shape, such
as tile sizes. They compare example values alone and leave no guards (see `ir.extent`).

One extent of a trace, usually the batch, may be 1 in some runs and larger in others (`Trace.unit`).
The functions here also find out where 1 would lead to another choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ExcludesOneError(BaseException):
    """An error where a comparison of the extent that may be 1 would have another result for 1. Not
    an Exception, so that code that turns defects into refusals does not catch it."""


@dataclass
class ComparedWithOne:
    """Whether any heuristic would choose differently if the extent that may be 1 were 1."""

    differs: bool = False


_in_heuristic: ContextVar[bool] = ContextVar("_in_heuristic", default=False)
_assumes_one: ContextVar[bool] = ContextVar("_assumes_one", default=False)
_comparison: ContextVar[ComparedWithOne | None] = ContextVar("_comparison", default=None)


def in_heuristic() -> bool:
    """Whether a heuristic is running, so that comparisons leave no guards."""
    return _in_heuristic.get()


def assumes_one() -> bool:
    """Whether heuristics choose as if the extent that may be 1 were 1."""
    return _assumes_one.get()


@contextmanager
def assuming_one(assumed: bool = True) -> Iterator[None]:
    """Heuristics choose as if the extent that may be 1 were 1 (or not, unless `assumed`) while the
    context is entered."""
    token = _assumes_one.set(assumed)
    try:
        yield
    finally:
        _assumes_one.reset(token)


@contextmanager
def compared_with_one() -> Iterator[ComparedWithOne]:
    """Yields an object that records whether any heuristic that runs while the context is entered
    would choose differently if the extent that may be 1 were 1."""
    token = _comparison.set(found := ComparedWithOne())
    try:
        yield found
    finally:
        _comparison.reset(token)


def note_difference() -> None:
    """Records for `compared_with_one` that code outside of heuristics would act differently if the
    extent that may be 1 were 1."""
    if (found := _comparison.get()) is not None:
        found.differs = True


def heuristic(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function that compares example values alone and leaves no guards. Each of its
    possible results must be correct for all values of the symbols; only speed may depend on it."""

    @wraps(function)
    def made(*given: P.args, **named: P.kwargs) -> T:
        token, outer = _in_heuristic.set(True), _comparison.get()
        within = _comparison.set(None)
        try:
            found = function(*given, **named)
            if outer is not None and not outer.differs:
                with assuming_one():
                    outer.differs = bool(function(*given, **named) != found)
            return found
        finally:
            _in_heuristic.reset(token)
            _comparison.reset(within)

    return made
