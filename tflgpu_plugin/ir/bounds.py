"""Bounds of polynomials (see `ir.polynomial`). The work for a polynomial is limited, whatever its
degree: a bound may be missing or wide, which only makes a trace keep one more guard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import comb, prod

from tflgpu_plugin.ir.polynomial import (
    MAX_EXTENT,
    Atom,
    Guard,
    Terms,
    negated,
    parts,
    plus,
    scaled,
    shifted,
)

MAX_REPLACED = 128  # terms of a polynomial whose variables are replaced
INT64 = (1 << 63) - 1

Range = tuple[int, int]
Sums = dict[tuple[int, ...], int]


def least(terms: Terms, limits: Callable[[int], Range]) -> int | None:
    """Returns a lower bound of a polynomial, given those of its atoms; None if none is found.

    Replaces each atom by its least value plus, or its largest value minus, a variable that is at
    least 0. If no coefficient of these variables is negative then, the constant term is a lower
    bound."""
    signs = Counter[int]()
    for names, c in terms:
        for atom in names:
            signs[atom] += 1 if c > 0 else -1
    found: Sums = dict(terms)
    for atom, sign in signs.items():
        found = _replaced(found, atom, limits(atom)[sign < 0], 1 if sign >= 0 else -1)
        if len(found) > MAX_REPLACED:
            return _sum_of_least(terms, limits)
    bound = found.pop((), 0)
    return bound if all(n >= 0 for n in found.values()) else None


def _replaced(terms: Sums, atom: int, start: int, sign: int) -> Sums:
    """Returns a polynomial with `start + sign * v` in place of an atom, where v is a new variable
    of the same number."""
    if start == 0 and sign > 0:
        return terms
    found: Sums = {}
    for names, c in terms.items():
        power = names.count(atom)
        if not power:
            found[names] = found.get(names, 0) + c
            continue
        first = names.index(atom)
        before, after = names[:first], names[first + power :]
        for k in range(power + 1):
            key = before + (atom,) * k + after
            found[key] = found.get(key, 0) + c * comb(power, k) * start ** (power - k) * sign**k
    return found


def _sum_of_least(terms: Terms, limits: Callable[[int], Range]) -> int | None:
    """Returns the sum of the lower bounds of the terms; None if a factor may be negative."""
    total = 0
    for names, c in terms:
        ranges = [limits(atom) for atom in names]
        if any(low < 0 for low, _ in ranges):
            return None
        total += c * prod(ends[c < 0] for ends in ranges)
    return total


class Bounds:
    """The bounds of the polynomials of a trace: those of its atoms, and what its guards add."""

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self.atoms = atoms
        self.learned: dict[int, Range] = {}  # of atoms
        self.floors: dict[Terms, int] = {}  # of polynomials without a constant term
        self.found: dict[Terms, int | None] = {}

    def least(self, terms: Terms) -> int | None:
        """Returns a lower bound of a polynomial, or None if none is found."""
        if terms not in self.found:
            self.found[terms] = least(terms, self._of_atom)
        bound = self.found[terms]
        constant, variable = parts(terms)
        floor = self.floors.get(variable)
        if floor is None:
            return bound
        return floor + constant if bound is None else max(bound, floor + constant)

    def most(self, terms: Terms) -> int | None:
        """Returns an upper bound of a polynomial, or None if none is found."""
        below = self.least(negated(terms))
        return None if below is None else -below

    def both(self, terms: Terms) -> tuple[int | None, int | None]:
        """Returns a lower and an upper bound of a polynomial."""
        return self.least(terms), self.most(terms)

    def ends(self, terms: Terms) -> Range:
        """Returns bounds of a polynomial: those of int64 where none is found."""
        low, high = self.both(terms)
        return -INT64 if low is None else low, INT64 if high is None else high

    def quotient(self, whole: Terms, rest: Terms, by: Terms, up: int) -> Terms | None:
        """Returns the polynomial that is the quotient of `whole * by + rest` and `by`, rounded up
        if `up` is 1, for all values of the symbols; None if none is found."""
        sign = -1 if up else 1
        for more in (0, -1, 1):
            left = plus(scaled(rest, sign), scaled(by, -sign * more))
            if (low := self.least(left)) is None or low < 0:
                continue
            if (low := self.least(plus(by, negated(left)))) is not None and low >= 1:
                return shifted(whole, more)
        return None

    def _of_atom(self, atom: int) -> Range:
        return self.learned.get(atom) or self.atoms[atom][4:]

    def learn(self, guard: Guard) -> None:
        """Takes a guard into account from now on."""
        above = [guard.terms] if guard.kind != "ne" else []
        if guard.kind == "ne":  # at a bound it moves the bound
            above = [
                shifted(terms, -1)
                for terms in (guard.terms, negated(guard.terms))
                if self.least(terms) == 0
            ]
        if guard.kind == "eq":
            above.append(negated(guard.terms))
        for terms in above:
            self._learn(terms)

    def _learn(self, terms: Terms) -> None:
        """Takes into account that a polynomial is at least 0."""
        constant, variable = parts(terms)
        self.floors[variable] = max(-constant, self.floors.get(variable, -constant))
        if len(variable) == 1 and len(variable[0][0]) == 1:
            ((atom,), c), (low, high) = variable[0], self._of_atom(variable[0][0][0])
            if c > 0:
                low = max(low, -(constant // c))
            else:
                high = min(high, constant // -c)
            if (low, high) != self._of_atom(atom):
                self.learned[atom] = low, high
                self.found.clear()


def quotient_limits(
    up: int, above: tuple[int | None, int | None], below: tuple[int | None, int | None]
) -> Range:
    """Returns bounds of a quotient (rounded up if `up` is 1), given those of its numerator
    (`above`) and its denominator (`below`); None stands for an unknown bound."""
    (low, high), (small, large) = above, below
    if low is None or low < 0 or small is None or small <= 0:
        return -MAX_EXTENT, MAX_EXTENT
    lowest = min(low, up) if large is None else (low + up * (large - 1)) // large
    return lowest, MAX_EXTENT if high is None else (high + up * (small - 1)) // small


def limits_of(atoms: Iterable[Atom]) -> list[Guard]:
    """Returns the conditions that symbols are within their limits."""
    found = []
    for k, atom in enumerate(atoms):
        if atom.op == "in" and atom.least:
            found.append(Guard("ge", shifted((((k,), 1),), -atom.least)))
        if atom.op == "in" and atom.most < MAX_EXTENT:
            found.append(Guard("ge", shifted((((k,), -1),), atom.most)))
    return found
