"""The values that the tensors of a loop's body can have, as `loop_body` tracks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Slab(NamedTuple):
    """A summand of a linear expression: rows `start` to `stop` of the constant `tensor`, times the
    expression `factor` (None: a bias)."""

    tensor: int
    start: int
    stop: int
    factor: int | None = None


class Counter(NamedTuple):
    """The integer that the loop carries at `position`, plus the offset `more`."""

    position: int
    more: int = 0


@dataclass(frozen=True)
class Numbers:
    """A list of integers, each a constant or a counter."""

    entries: tuple[int | Counter, ...]


@dataclass(frozen=True)
class Carried:
    """The value that the loop carries at `position`, as it is before the step."""

    position: int


@dataclass(frozen=True)
class Vector:
    """A matrix of floats; the expression with the number `form` gives each of its rows."""

    form: int
    rows: int
    width: int


@dataclass(frozen=True)
class Piece:
    """The rows of the list carried at `position`: those `before` the counter, or from it on."""

    position: int
    counter: Counter
    before: bool


@dataclass(frozen=True)
class Listed:
    """The list carried at `position` with its row at the counter replaced by expression `form`."""

    position: int
    counter: Counter
    form: int


@dataclass(frozen=True)
class Below:
    """A condition: each counter of `limits` is below its limit."""

    limits: frozenset[tuple[Counter, int]]
