"""Where the formula of a reference rounds, and it matters: numbers in between that are larger than
what comes of them. In float64 nothing happens there, unless `conformance.references.truth` asks how
far the answer moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tflgpu_plugin.ir import Array

Change = Callable[[Array], Array]
_changes: list[Change] = []


def rounded(value: Array | float, terms: int = 1) -> Array:
    """The value, which float32 arithmetic has rounded; a sum of so many terms, so many times."""
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
    """Within, roundings are what `change` makes of a number."""
    _changes.append(change)
    try:
        yield
    finally:
        _changes.remove(change)


def times_factor(x: Array, numbers: Sequence[float]) -> Array:
    """Multiples of a unit as integers, times a factor of 31 bits, of which halves go up; then
    without so many bits on the right, where halves go away from zero."""
    unit, high, low, shift, result = numbers
    steps = x / unit
    whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps).astype(np.int64)
    factor, left, right = (int(n) for n in (high * 2**15 + low, max(shift, 0), max(-shift, 0)))
    product = ((whole << left) * factor + 2**30) >> 31
    size = (np.abs(product) + (1 << right >> 1)) >> right
    return np.asarray(np.copysign(size, product) * result)
