"""Functions for code that computes with integers that may be symbolic (see `ir.extent`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin.ir.extent import Extent, terms_of
from tflgpu_plugin.ir.heuristics import heuristic, note_difference
from tflgpu_plugin.ir.polynomial import MAX_EXTENT, Terms, negated, plus


def is_integer(number: Any) -> bool:
    """Whether this is an integer of Python or numpy, or a symbolic one. A bool is not."""
    return isinstance(number, int | np.integer | Extent) and not isinstance(number, bool)


def integers(numbers: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Returns numbers as an array: of int64, or of objects if some are symbolic."""
    found = np.asarray(numbers)
    return found if symbolic(found) else found.astype(np.int64)


def symbolic(array: np.ndarray[Any, np.dtype[Any]]) -> bool:
    """Whether an array contains symbolic numbers."""
    return array.dtype == object


def is_symbolic(shape: Iterable[int]) -> bool:
    """Whether any extent of a shape is symbolic."""
    return any(isinstance(extent, Extent) for extent in shape)


def always_divides(by: int, number: int) -> bool:
    """Whether `by` divides a number; if that is symbolic, for all values of its symbols."""
    terms = number.terms if isinstance(number, Extent) else (((), number),)
    return all(c % by == 0 for _, c in terms)


def always_equal(a: Any, b: Any) -> bool:
    """Whether two integers are equal for all values of their symbols. Leaves no guard, so code must
    be correct in either case where they may be equal for some values."""
    return terms_of(a) == terms_of(b) if isinstance(a, Extent) or isinstance(b, Extent) else a == b


def equal_by_example(some: Sequence[int], others: Sequence[int]) -> bool:
    """Whether numbers are equal, for code that is also correct if it takes equal numbers for
    different ones: returns False without a guard where the example values differ. Leaves a guard if
    they are equal for the example values but not for all values of the symbols."""
    if len(some) != len(others):
        return False
    if all(always_equal(a, b) for a, b in zip(some, others, strict=True)):
        return True
    return _equal(some, others) and all(a == b for a, b in zip(some, others, strict=True))


@heuristic
def _equal(some: Sequence[int], others: Sequence[int]) -> bool:
    return all(a == b for a, b in zip(some, others, strict=True))


def always_at_most(number: Any, most: Any) -> bool:
    """Whether a symbolic number is at most another one for all values of their symbols; false for
    numbers that are not symbolic. Leaves no guard."""
    left = most - number
    if not isinstance(left, Extent):
        return isinstance(number, Extent) and bool(left >= 0)
    low = left.trace.bounds.least(left.terms)
    return low is not None and low >= 0


def may_exceed(number: int, most: int) -> bool:
    """Whether a number is above another one for some values of their symbols. Leaves no guard, so
    code must be correct if it is not."""
    more = number - most
    if not isinstance(more, Extent):
        return more > 0
    high = more.trace.bounds.most(more.terms)
    return high is None or high > 0


def may_exceed_one(extent: int) -> bool:
    """Whether an extent is above 1 for some values of its symbols. Leaves no guard."""
    return isinstance(extent, Extent) or extent > 1


def is_one(extent: int, matters: bool = True) -> bool:
    """Whether an extent is 1 for all values of its symbols. Leaves no guard. If it is 1 for some
    values only, and this `matters`, records that a plan for 1 would differ (`note_difference`)."""
    if not isinstance(extent, Extent):
        return extent == 1
    if matters and extent.trace.one is not None:
        note_difference()
    return False


def within_factor(number: Any, factor: int) -> int:
    """Returns the example value of a symbolic integer, and leaves the guard that its value stays
    within this factor of it."""
    value = number.value if isinstance(number, Extent) else integer(number)
    stays = value <= number * factor and number <= value * factor
    return value if stays else int(number)


def integer(number: Any) -> int:
    """Returns a number as an int, without its fraction; returns a symbolic integer unchanged."""
    return number if isinstance(number, Extent) else int(number)


def larger(a: int, b: int) -> int:
    """Returns the larger of two integers that may be symbolic, without leaving a guard."""
    return _extreme("larger", max, a, b)


def smaller(a: int, b: int) -> int:
    """Returns the smaller of two integers that may be symbolic, without leaving a guard."""
    return _extreme("smaller", min, a, b)


def _extreme(op: str, choose: Callable[..., int], a: int, b: int) -> int:
    """Returns the one of `a` and `b` that is chosen for all values of the symbols, or an atom for
    the choice."""
    trace = next((n.trace for n in (a, b) if isinstance(n, Extent)), None)
    if trace is None:
        return choose(a, b)
    low, high = trace.bounds.both(plus(terms_of(a), negated(terms_of(b))))
    if low is not None and low >= 0:
        return a if op == "larger" else b
    if high is not None and high <= 0:
        return b if op == "larger" else a
    for number, other in ((a, b), (b, a)):
        if isinstance(number, Extent) and terms_of(other) in _choices(op, number):
            return number
    first, second = sorted((terms_of(a), terms_of(b)))
    ends = trace.bounds.both(first), trace.bounds.both(second)
    least = choose(-MAX_EXTENT if low is None else low for low, _ in ends)
    most = choose(MAX_EXTENT if high is None else high for _, high in ends)
    return trace.atom(op, first, second, choose(example(a), example(b)), least, most)


def _choices(op: str, number: Extent) -> Sequence[Terms]:
    """Returns the two numbers of which this is the larger or smaller one (`op`), if any."""
    names, factor = number.terms[-1]
    alone = len(number.terms) == 1 and len(names) == 1 and factor == 1
    atom = number.trace.atoms[names[0]] if alone else None
    return (atom.a, atom.b) if atom is not None and atom.op == op else ()


def from_front(number: int, extent: int) -> int:
    """Returns a position on an axis counted from its start; a negative number counts from the
    end."""
    return number + extent * smaller(larger(-number, 0), 1)


def in_range(
    numbers: np.ndarray[Any, np.dtype[Any]], low: float | None, high: float | None = None
) -> bool:
    """Whether all numbers are at least `low` and at most `high` (None: any)."""
    ends = (
        numbers.reshape(-1)
        if symbolic(numbers) or not numbers.size
        else (numbers.min(), numbers.max())
    )
    above = low is None or all(number >= low for number in ends)
    return bool(above and (high is None or all(number <= high for number in ends)))


def hashed(value: Any) -> Hashable:
    """Returns a hashable key of a number, or of nested tuples of numbers. Keys are equal if the
    numbers are equal for all values of the symbols."""
    if isinstance(value, Extent):
        return "extent", value.terms
    return tuple(map(hashed, value)) if isinstance(value, tuple) else value


class Word(NamedTuple):
    """A symbolic parameter of a kernel that is an i32 or f32 (`kind`). A plain `Extent` is a
    u32."""

    number: int
    kind: str


def example(number: Any) -> Any:
    """Returns the example value of a symbolic number; any other number unchanged."""
    number = number.number if isinstance(number, Word) else number
    return number.value if isinstance(number, Extent) else number


def i32(number: int) -> np.int32 | Word:
    """Returns a parameter of type i32 for a kernel."""
    return Word(number, "i32") if isinstance(number, Extent) else np.int32(number)


def f32(number: int) -> float | Word:
    """Returns a parameter of type f32 for a kernel."""
    return Word(number, "f32") if isinstance(number, Extent) else float(number)


def sliced(given: slice, extent: int) -> tuple[int, int, int]:
    """Returns the start, stop and step of a slice of an axis, like `slice.indices`."""
    step = 1 if given.step is None else given.step
    lowest, highest = (0, extent) if step > 0 else (-1, extent - 1)
    ends = (lowest, highest) if step > 0 else (highest, lowest)
    start, stop = (
        end if n is None else smaller(larger(from_front(n, extent), lowest), highest)
        for n, end in zip((given.start, given.stop), ends, strict=True)
    )
    return start, stop, step
