"""Symbolic extents: integers that have an example value and remember how they depend on the extents
of a run.

A `Trace` creates symbols for extents that may differ in the next run. Arithmetic with symbols
yields polynomials. A comparison is answered by the example values and leaves a guard: the condition
that it has this result. What was computed holds for all values of the symbols that satisfy every
guard. Code that needs a plain number (an index, a hash, a text) gets the example value and leaves
the guard that the extent has this value. So code that does not know symbols is still correct, but
only for this value. The idea is that of `SymInt` in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from tflgpu_plugin.ir.bounds import Bounds, limits_of, quotient_limits
from tflgpu_plugin.ir.heuristics import ExcludesOneError, assumes_one, in_heuristic
from tflgpu_plugin.ir.polynomial import (
    MAX_EXTENT,
    ONE,
    ZERO,
    Atom,
    EvaluationAtOne,
    Guard,
    Terms,
    at_example,
    divided,
    divided_by,
    is_short,
    negated,
    parted,
    pinned,
    plus,
    shifted,
    times,
)  # fmt: skip

MIN_SYMBOL = 2  # extents of 0 and 1 do not become symbols, but see `Trace.unit`
TYPICAL = 4  # the example of an extent that is 1 in the present run, but may be larger
EXTENTS = MIN_SYMBOL, MAX_EXTENT
INTEGERS = 2 - MAX_EXTENT, MAX_EXTENT - 2  # of values of a run; others may have been clamped


@dataclass
class Trace:
    """The symbols, guards and functions of symbols of a trace. `one` is the atom of a symbol that
    may be 1. Guards that do not hold for 1 raise ExcludesOneError, or are added to `many`."""

    atoms: list[Atom] = field(default_factory=list)
    guards: dict[Guard, None] = field(default_factory=dict)
    fixed: int = 0
    known: dict[tuple[str, Any, Terms], int] = field(default_factory=dict)
    quotients: dict[tuple[str, Terms, Terms, bool], int] = field(default_factory=dict)
    one: int | None = None
    many: list[Guard] | None = None

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds(self.atoms)

    def symbol(self, number: Any, value: int, low: int = MIN_SYMBOL, high: int = MAX_EXTENT) -> int:
        """Returns the symbol `number` with this example value."""
        return self.atom("in", number, ZERO, value, low, high)

    def unit(self, number: Any, value: int) -> int:
        """Returns the symbol `number` of an extent that may be 1. If it is 1 now, the example value
        is a typical larger number, since code that holds for that often holds for 1, too."""
        made = self.symbol(number, value if value > 1 else TYPICAL, 1)
        self.one = self.known["in", number, ZERO]
        return made

    @cached_property
    def at_one(self) -> EvaluationAtOne:
        """Returns what evaluates polynomials as if the extent that may be 1 were 1."""
        assert self.one is not None
        return EvaluationAtOne(self.atoms, self.one)

    @property
    def conditions(self) -> list[Guard]:
        """Returns all conditions for which the trace holds: guards, and limits of symbols."""
        return [*limits_of(self.atoms), *self.guards]

    @property
    def pinned(self) -> set[Any]:
        """Returns the symbols for which a guard allows a single value."""
        return {self.atoms[k].a for k in pinned(self.guards) if self.atoms[k].op == "in"}

    def atom(self, op: str, a: Any, b: Terms, value: int, low: int, high: int) -> int:
        """Returns an atom (see `Atom`) as a number. The same function always returns the same
        atom."""
        key = op, a, b
        if key not in self.known:
            self.known[key] = len(self.atoms)
            self.atoms.append(Atom(op, a, b, value, low, high))
        return Extent((((self.known[key],), 1),), value, self)

    def made(self, terms: Terms, value: int) -> int:
        """Returns a polynomial as a number: a plain integer if it is constant. A long one becomes
        an atom, so that the work for a result does not depend on how it was computed."""
        if not terms or (len(terms) == 1 and not terms[0][0]):
            return value
        if is_short(terms):
            return Extent(terms, value, self)
        constant, factor, rest = parted(terms)
        low, high = self.bounds.ends(rest)
        named = self.atom("quotient", rest, ONE, (value - constant) // factor, low, high)
        return constant + factor * named

    def holds(self, kind: str, terms: Terms, value: int) -> bool:
        """Whether the value of a polynomial is 0 (kind "eq") or at least 0 ("ge") for the example
        values. Adds a guard unless the result is the same for all values."""
        if in_heuristic():
            value = self.at_one.value(terms) if assumes_one() and self.one is not None else value
            return value == 0 if kind == "eq" else value >= 0
        low = self.bounds.least(terms)
        if low is not None and low >= (1 if kind == "eq" else 0):
            return kind == "ge"
        high = self.bounds.most(terms)
        if high is not None and high < 0:
            return False
        if kind == "eq":
            first = terms if terms[-1][1] > 0 else negated(terms)
            guard = Guard("eq" if value == 0 else "ne", first)
        else:
            guard = Guard("ge", terms if value >= 0 else plus(negated(terms), (((), -1),)))
        if guard not in self.guards:
            self._add(guard)
        return value == 0 if kind == "eq" else value >= 0

    def _add(self, guard: Guard) -> None:
        """Adds a guard. Raises ExcludesOneError."""
        if self.one is None or self.at_one.hold([guard]):
            self.guards[guard] = None
            self.bounds.learn(guard)
        elif self.many is None:
            raise ExcludesOneError
        elif guard not in self.many:
            self.many.append(guard)


if TYPE_CHECKING:
    _Number = int
else:
    _Number = object  # an int would lose its symbol wherever C code reads it


class Extent(_Number):
    """An integer that is a polynomial over the atoms of a trace, with its example value."""

    __slots__ = ("terms", "trace", "value")
    terms: Terms
    value: int
    trace: Trace

    def __init__(self, terms: Terms, value: int, trace: Trace) -> None:
        self.terms, self.value, self.trace = terms, value, trace

    def fix(self) -> int:
        """Returns the example value, and leaves the guard that the extent has this value."""
        trace = self.trace
        if in_heuristic():
            alone = assumes_one() and trace.one is not None
            return trace.at_one.value(self.terms) if alone else self.value
        trace.holds("eq", plus(self.terms, terms_of(-self.value)), 0)
        trace.fixed += 1
        return self.value

    # ---- arithmetic

    def __add__(self, other: Any) -> Any:
        if type(other) is int:
            return Extent(shifted(self.terms, other), self.value + other, self.trace)
        if (value := _value(other)) is None:
            return self.fix() + other
        return self.trace.made(plus(self.terms, terms_of(other)), self.value + value)

    __radd__ = __add__

    def __neg__(self) -> int:
        return Extent(negated(self.terms), -self.value, self.trace)

    def __pos__(self) -> int:
        return self

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if type(other) is int:
            return self._scaled(other)
        if (value := _value(other)) is None:
            return self.fix() * other
        return self.trace.made(times(self.terms, terms_of(other)), self.value * value)

    __rmul__ = __mul__

    def _scaled(self, by: int) -> int:
        terms = tuple([(atoms, by * c) for atoms, c in self.terms])
        return Extent(terms, by * self.value, self.trace) if by else 0

    def __floordiv__(self, other: Any) -> Any:
        known = _value(other) is not None
        return _divided(self, other, self.trace) if known else self.fix() // other

    def __rfloordiv__(self, other: Any) -> Any:
        known = _value(other) is not None
        return _divided(other, self, self.trace) if known else other // self.fix()

    def __mod__(self, other: Any) -> Any:
        known = _value(other) is not None
        return _remainder(self, other, self.trace) if known else self.fix() % other

    def __rmod__(self, other: Any) -> Any:
        known = _value(other) is not None
        return _remainder(other, self, self.trace) if known else other % self.fix()

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __abs__(self) -> int:
        return self if self >= 0 else -self

    def __pow__(self, other: Any, _: Any = None) -> Any:
        return (
            prod([self] * other) if isinstance(other, int) and other >= 0 else self.fix() ** other
        )

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << int(other))

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << int(other))

    def __rpow__(self, other: Any, _: Any = None) -> Any:
        return other ** self.fix()

    def __rlshift__(self, other: Any) -> Any:
        return other << self.fix()

    def __and__(self, other: Any) -> Any:
        return self.fix() & other

    def __or__(self, other: Any) -> Any:
        return self.fix() | other

    __rand__, __ror__ = __and__, __or__

    def __truediv__(self, other: Any) -> Any:
        return self.fix() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.fix()

    def bit_length(self) -> int:
        """Returns the number of bits, and leaves guards that it does not change."""
        bits = self.value.bit_length()
        same = self >= 1 << bits >> 1 and self < 1 << bits
        return bits if same else self.fix().bit_length()

    # ---- comparisons

    def __eq__(self, other: object) -> bool:
        if (value := _value(other)) is None:
            return False if other is None else bool(self.fix() == other)
        terms = _difference(self, other)
        return self.trace.holds("eq", terms, self.value - value) if terms else True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __ge__(self, other: Any) -> bool:
        if (value := _value(other)) is None:
            return bool(self.fix() >= other)
        terms = _difference(self, other)
        return self.trace.holds("ge", terms, self.value - value) if terms else True

    def __le__(self, other: Any) -> bool:
        if (value := _value(other)) is None:
            return bool(self.fix() <= other)
        terms = negated(_difference(self, other))
        return self.trace.holds("ge", terms, value - self.value) if terms else True

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __bool__(self) -> bool:
        return self != 0

    # ---- what needs a plain number

    def __index__(self) -> int:
        return self.fix()

    def __int__(self) -> int:
        return self.fix()

    def __float__(self) -> float:
        return float(self.fix())

    def __hash__(self) -> int:
        return hash(self.fix())

    def __str__(self) -> str:
        return str(self.fix())

    def __format__(self, how: str) -> str:
        return format(self.fix(), how)

    def __repr__(self) -> str:
        return f"<{self.value}: {self.terms}>"

    def __round__(self, _: Any = None) -> int:
        return self

    __ceil__ = __floor__ = __trunc__ = __pos__


def _value(number: Any) -> int | None:
    """Returns the (example) value of an integer, or None if `number` is not one."""
    if type(number) is int:
        return number
    if isinstance(number, Extent):
        return number.value
    return int(number) if isinstance(number, int) or hasattr(number, "__index__") else None


def _difference(a: Extent, b: Any) -> Terms:
    """Returns a - b as a polynomial."""
    if type(b) is int:
        return shifted(a.terms, -b)
    return plus(a.terms, negated(terms_of(b)))


def terms_of(number: Any) -> Terms:
    """Returns an integer as a polynomial."""
    if isinstance(number, Extent):
        return number.terms
    return (((), int(number)),) if number else ZERO


def _divided(a: Any, b: Any, trace: Trace) -> int:
    """Returns a // b. For a negative numerator it negates a quotient that is rounded up, so that
    atoms are positive."""
    if not isinstance(b, Extent) and b < 0:
        return _divided(-a, -b, trace)
    terms = terms_of(a)
    if terms and terms[-1][1] < 0:
        return -_quotient(-a, b, "rounded_up", trace)
    return _quotient(a, b, "quotient", trace)


def _quotient(a: Any, b: Any, op: str, trace: Trace) -> int:
    """Returns a / b rounded down (`op` is "quotient") or up ("rounded_up"). Caches quotients in the
    trace."""
    key = op, terms_of(a), terms_of(b), in_heuristic()
    if key not in trace.quotients:
        trace.quotients[key] = _new_quotient(a, b, op, trace)
    return trace.quotients[key]


def _new_quotient(a: Any, b: Any, op: str, trace: Trace) -> int:
    """Returns a quotient that is a polynomial where that holds for all values of the symbols;
    multiples of a constant b are taken out of it."""
    terms, by, atoms, bounds = terms_of(a), terms_of(b), trace.atoms, trace.bounds
    up, symbolic = int(op == "rounded_up"), isinstance(b, Extent)
    whole, rest = divided(terms, by) if symbolic else divided_by(terms, b)
    exact = whole if not rest and (not symbolic or b != 0) else bounds.quotient(whole, rest, by, up)
    if exact is not None:
        return trace.made(exact, at_example(exact, atoms))
    outside, terms = (0, terms) if symbolic else (trace.made(whole, at_example(whole, atoms)), rest)
    low, high = quotient_limits(up, bounds.both(terms), bounds.both(by))
    if low == high:
        return outside + low
    inside, divisor = at_example(terms, atoms), at_example(by, atoms)
    value = -(-inside // divisor) if up else inside // divisor
    return outside + trace.atom(op, terms, by, value, low, high)


def _remainder(a: Any, b: Any, trace: Trace) -> int:
    """Returns a % b. For a constant b it is a separate atom, because its bounds are known."""
    rest: int = a - b * _divided(a, b, trace)
    if not isinstance(rest, Extent) or isinstance(b, Extent) or b < 0:
        return rest
    inside = tuple((atoms, c % b) for atoms, c in terms_of(a) if c % b)
    return trace.atom("remainder", inside, terms_of(b), rest.value, 0, b - 1)
