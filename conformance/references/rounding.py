"""The rounding of a reference's formula where it matters: if intermediate results are larger than
the final one. Without effect in float64, unless `conformance.references.truth` measures how far the
answer moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tflgpu_plugin.ir import Array

Change = Callable[[Array], Array]
_changes: list[Change] = []


def rounded(value: Array | float, terms: int = 1) -> Array:
    """Returns the value with the rounding errors of float32 arithmetic: of a sum of this many
    terms, this many times."""
    value = np.asarray(value, np.float64)
    for change in _changes:
        with np.errstate(invalid="ignore"):
            value = np.asarray(value + terms**0.5 * (change(value) - value))
    return value


def rounds() -> bool:
    """Whether `rounded` changes anything."""
    return bool(_changes)


@contextmanager
def by(change: Change) -> Iterator[None]:
    """Makes `change` the rounding of numbers inside of the block."""
    _changes.append(change)
    try:
        yield
    finally:
        _changes.remove(change)


def times_factor(x: Array, numbers: Sequence[float]) -> Array:
    """Multiplies multiples of a unit, as integers, by a 31-bit factor, rounding halves up; then
    drops this many bits on the right, rounding halves away from zero."""
    unit, high, low, shift, result = numbers
    steps = x / unit
    whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps).astype(np.int64)
    factor, left, right = (int(n) for n in (high * 2**15 + low, max(shift, 0), max(-shift, 0)))
    product = ((whole << left) * factor + 2**30) >> 31
    size = (np.abs(product) + (1 << right >> 1)) >> right
    return np.asarray(np.copysign(size, product) * result)


def dynamic_quantize(x: Array, factors: Array | None = None) -> tuple[Array, ...]:
    """Returns x in 255 steps over its range, minus the zero point; the scale, and the factors times
    it."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.asarray((high - low) / 255 or 1, x.dtype)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    numbers = np.clip(np.rint(x / scale) + zero, 0, 255) - zero
    return (numbers, scale) if factors is None else (numbers, scale, factors * scale)


def wide_product(x: Array, numbers: Sequence[float]) -> Array:
    """Returns the products of integers along the first axis: integers of any size, of which each
    step keeps 32 bits."""
    factor, right = map(int, numbers)

    def step(a: Array, b: Array | int) -> Array:
        wide = (a * b * factor + (1 << (right - 1))) >> right
        return np.asarray((wide + 2**31) % 2**32 - 2**31)

    rows = [np.rint(row).astype(np.int64).astype(object) for row in x]
    made = rows[0]
    for row in rows[1:]:
        made = step(made, row)
    return step(made, 1).astype(np.float64)
