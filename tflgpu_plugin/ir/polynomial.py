"""Polynomials with integer coefficients. Their variables are atoms: the symbols of a trace (see
`ir.extent`), and quotients and remainders of other polynomials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

Terms = tuple[tuple[tuple[int, ...], int], ...]  # ((atoms, coefficient), ...) in order, no zeros
ZERO: Terms = ()
MOST = (1 << 31) - 1  # the largest magnitude of an extent


class Atom(NamedTuple):
    """A variable of polynomials: a symbol (`op` is "in" and `a` is its number or name), or a
    function of the polynomials `a` and `b`. The functions are "quotient" and "remainder", which
    round down as in Python, and "rounded_up", a quotient that is rounded up. `value` is the example
    value; all values are in [least, most]."""

    op: str
    a: Any
    b: Terms
    value: int
    least: int
    most: int


class Guard(NamedTuple):
    """A condition on a polynomial. `kind` is "eq", "ne" or "ge": it is equal to 0, not equal to 0,
    or at least 0."""

    kind: str
    terms: Terms


def plus(a: Terms, b: Terms) -> Terms:
    """Returns a + b."""
    if not b:
        return a
    if len(b) == 1 and not b[0][0]:
        return shifted(a, b[0][1])
    found = dict(a)
    for atoms, c in b:
        found[atoms] = found.get(atoms, 0) + c
    return tuple(sorted((atoms, c) for atoms, c in found.items() if c))


def shifted(terms: Terms, number: int) -> Terms:
    """Returns terms + number: the constant term is the first."""
    if terms and not terms[0][0]:
        number, terms = number + terms[0][1], terms[1:]
    return (((), number), *terms) if number else terms


def times(a: Terms, b: Terms) -> Terms:
    """Returns a * b."""
    if len(b) == 1 and not b[0][0]:
        return tuple((atoms, c * b[0][1]) for atoms, c in a)
    found: dict[tuple[int, ...], int] = {}
    for left, m in a:
        for right, n in b:
            atoms = tuple(sorted((*left, *right)))
            found[atoms] = found.get(atoms, 0) + m * n
    return tuple(sorted((atoms, c) for atoms, c in found.items() if c))


def negated(terms: Terms) -> Terms:
    """Returns -terms."""
    return tuple([(atoms, -c) for atoms, c in terms])


def least(terms: Terms, atoms: Sequence[Atom]) -> int | None:
    """Returns a lower bound of a polynomial, or None if none is found.

    Replaces each atom by its least value plus, or its largest value minus, a variable that is at
    least 0. If no coefficient of these variables is negative then, the constant term is a lower
    bound."""
    signs = Counter[int]()
    for names, c in terms:
        for atom in names:
            signs[atom] += 1 if c > 0 else -1
    found: dict[tuple[int, ...], int] = {}
    for names, c in terms:
        parts: dict[tuple[int, ...], int] = {(): c}
        for atom in names:
            up = signs[atom] >= 0
            start = atoms[atom].least if up else atoms[atom].most
            wider: dict[tuple[int, ...], int] = {}
            for taken, n in parts.items():
                wider[taken] = wider.get(taken, 0) + n * start
                longer = tuple(sorted((*taken, atom)))
                wider[longer] = wider.get(longer, 0) + (n if up else -n)
            parts = wider
        for taken, n in parts.items():
            found[taken] = found.get(taken, 0) + n
    bound = found.pop((), 0)
    return bound if all(n >= 0 for n in found.values()) else None


def most(terms: Terms, atoms: Sequence[Atom]) -> int | None:
    """Returns an upper bound of a polynomial, or None if none is found."""
    below = least(negated(terms), atoms)
    return None if below is None else -below


def at_example(terms: Terms, atoms: Sequence[Atom]) -> int:
    """Returns the value of a polynomial for the example values."""
    return sum(c * prod(atoms[atom].value for atom in names) for names, c in terms)


def exact_quotient(a: Terms, b: Terms) -> Terms | None:
    """Returns the polynomial a / b, or None if b does not divide a."""
    found: dict[tuple[int, ...], int] = {}
    lead, by = b[-1]
    for _ in range(16):
        if not a:
            return tuple(sorted((atoms, c) for atoms, c in found.items() if c))
        atoms, c = a[-1]
        rest = list(atoms)
        for atom in lead:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % by:
            return None
        part, factor = tuple(rest), c // by
        found[part] = found.get(part, 0) + factor
        times = tuple((tuple(sorted((*names, *part))), -n * factor) for names, n in b)
        a = plus(a, times)
    return None


def quotient_limits(
    up: int, above: tuple[int | None, int | None], below: tuple[int | None, int | None]
) -> tuple[int, int]:
    """Returns bounds of a quotient (rounded up if `up` is 1), given those of its numerator
    (`above`) and its denominator (`below`); None stands for an unknown bound."""
    (low, high), (small, large) = above, below
    if low is None or low < 0 or small is None or small <= 0:
        return -MOST, MOST
    lowest = min(low, up) if large is None else (low + up * (large - 1)) // large
    return lowest, MOST if high is None else (high + up * (small - 1)) // small
