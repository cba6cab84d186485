"""The values that the tensors of a loop's body can have, as `loop_body` tracks them."""

from __future__ import annotations

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


class Numbers(NamedTuple):
    """A list of integers, each a constant or a counter."""

    entries: tuple[int | Counter, ...]


class Carried(NamedTuple):
    """The value that the loop carries at `position`, as it is before the step."""

    position: int


class Vector(NamedTuple):
    """A matrix of floats, each row of which is the value of the expression number `form`."""

    form: int
    rows: int
    width: int


class Piece(NamedTuple):
    """A part of the list that the loop carries at `position`: the rows before the counter if
    `before`, else the row at the counter and all after it."""

    position: int
    counter: Counter
    before: bool


class Listed(NamedTuple):
    """The list that the loop carries at `position`, with the row at the counter replaced by
    expression `form`."""

    position: int
    counter: Counter
    form: int


class Below(NamedTuple):
    """A condition: each counter of `limits` is below its limit."""

    limits: frozenset[tuple[Counter, int]]
