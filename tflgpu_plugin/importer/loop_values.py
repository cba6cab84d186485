"""The values that the tensors of a loop's body can have, as `loop_body` tracks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Slab(NamedTuple):
    """Rows `start` to `stop` of a constant, and the expression that they are multiplied with (None:
    they are added).
    """

    tensor: int
    start: int
    stop: int
    factor: int | None = None


class Counter(NamedTuple):
    """The integer that is carried at this position, plus an offset."""

    position: int
    more: int = 0


@dataclass(frozen=True)
class Numbers:
    """Integers, constants or counters."""

    entries: tuple[int | Counter, ...]


@dataclass(frozen=True)
class Carried:
    """The value that is carried at a position, as it is before the step."""

    position: int


@dataclass(frozen=True)
class Vector:
    """Rows of floats, with an expression for each."""

    form: int
    rows: int
    width: int


@dataclass(frozen=True)
class Piece:
    """The rows of a carried list before a counter, or from it on."""

    position: int
    counter: Counter
    before: bool


@dataclass(frozen=True)
class Listed:
    """A carried list with the row at a counter replaced."""

    position: int
    counter: Counter
    form: int


@dataclass(frozen=True)
class Below:
    """A comparison: every one of these counters is below its limit."""

    limits: frozenset[tuple[Counter, int]]
