"""Choices among alternatives that are all correct for every shape, such as tile sizes. They depend
on example values alone and leave no guards (see `ir.extent`)."""

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
    """The answer to a question about the extent that may be 1 would be another one for 1. No
    Exception, so that code that reports defects of a node does not take it for one."""


@dataclass
class Compared:
    """Whether any choice would differ if the extent that may be 1 were 1."""

    differs: bool = False


_choosing: ContextVar[bool] = ContextVar("_choosing", default=False)
_single: ContextVar[bool] = ContextVar("_single", default=False)
_compared: ContextVar[Compared | None] = ContextVar("_compared", default=None)


def choosing() -> bool:
    """Whether a choice is being made."""
    return _choosing.get()


def single() -> bool:
    """Whether choices are made as if the extent that may be 1 were 1."""
    return _single.get()


@contextmanager
def as_single(single: bool = True) -> Iterator[None]:
    """Makes choices as if the extent that may be 1 were 1."""
    token = _single.set(single)
    try:
        yield
    finally:
        _single.reset(token)


@contextmanager
def compared() -> Iterator[Compared]:
    """Compares all choices with those that would be made if the extent that may be 1 were 1."""
    token = _compared.set(found := Compared())
    try:
        yield found
    finally:
        _compared.reset(token)


def differ() -> None:
    """Notes that something would be done differently if the extent that may be 1 were 1."""
    if (found := _compared.get()) is not None:
        found.differs = True


def chooses(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function that chooses by example values alone and leaves no guards. Each of its
    possible results must be correct for all values of the symbols; only speed may depend on the
    choice."""

    @wraps(function)
    def made(*given: P.args, **named: P.kwargs) -> T:
        token, outer = _choosing.set(True), _compared.get()
        within = _compared.set(None)
        try:
            found = function(*given, **named)
            if outer is not None and not outer.differs:
                with as_single():
                    outer.differs = bool(function(*given, **named) != found)
            return found
        finally:
            _choosing.reset(token)
            _compared.reset(within)

    return made
