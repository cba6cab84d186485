"""Polynomials with integer coefficients. Their variables are atoms: the symbols of a trace (see
`ir.extent`), and quotients and remainders of other polynomials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from operator import floordiv, mod
from typing import Any, NamedTuple

from tflgpu_plugin.ir.choosing import ExcludesOneError

Terms = tuple[tuple[tuple[int, ...], int], ...]  # ((atoms, coefficient), ...) in order, no zeros
ZERO: Terms = ()
FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "quotient": floordiv, "remainder": mod, "rounded_up": lambda a, b: -(-a // b),
    "larger": max, "smaller": min,
}  # fmt: skip
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


def limits_of(atoms: Sequence[Atom]) -> list[Guard]:
    """Returns the conditions that symbols are within their limits."""
    found = []
    for k, atom in enumerate(atoms):
        if atom.op == "in" and atom.least:
            found.append(Guard("ge", shifted((((k,), 1),), -atom.least)))
        if atom.op == "in" and atom.most < MOST:
            found.append(Guard("ge", shifted((((k,), -1),), atom.most)))
    return found


def pinned(guards: Iterable[Guard]) -> set[int]:
    """Returns the atoms for which a guard allows a single value."""
    equal = (guard.terms for guard in guards if guard.kind == "eq")
    named = ([atoms for atoms, _ in terms if atoms] for terms in equal)
    return {atoms[0] for atoms, *others in named if len(atoms) == 1 and not others}


class Evaluation:
    """Evaluates polynomials for given values of the symbols. Raises ZeroDivisionError, or
    OverflowError beyond int64, with which native code computes."""

    def __init__(self, atoms: Sequence[Atom], symbols: Mapping[Any, int]) -> None:
        self.atoms, self.symbols = atoms, symbols
        self.known: dict[int, int] = {}

    def total(self, terms: Terms) -> int:
        """Returns the value of a polynomial."""
        return sum(c * prod(map(self.atom, atoms)) for atoms, c in terms)

    def atom(self, index: int) -> int:
        """Returns the value of an atom."""
        if index not in self.known:
            op, a, b, *_ = self.atoms[index]
            value = (
                self.symbol(index) if op == "in" else FUNCTIONS[op](self.total(a), self.total(b))
            )
            if abs(value) >> 63:
                raise OverflowError("native code computes with int64")
            self.known[index] = value
        return self.known[index]

    def symbol(self, index: int) -> int:
        """Returns the value of the symbol that is this atom."""
        return self.symbols[self.atoms[index].a]

    def hold(self, guards: Sequence[Guard]) -> bool:
        """Whether all guards hold."""
        try:
            return all(holds(guard.kind, self.total(guard.terms)) for guard in guards)
        except ArithmeticError:
            return False


def holds(kind: str, value: int) -> bool:
    """Whether a guard of this kind holds for the value of its polynomial."""
    return value >= 0 if kind == "ge" else (value == 0) == (kind == "eq")


class SingleEvaluation(Evaluation):
    """Evaluates polynomials for the example values of symbols, but with 1 for one of them, which is
    the atom `one`."""

    def __init__(self, atoms: Sequence[Atom], one: int) -> None:
        super().__init__(atoms, {})
        self.one = one

    def symbol(self, index: int) -> int:
        return 1 if index == self.one else self.atoms[index].value

    def value(self, terms: Terms) -> int:
        """Returns the value of a polynomial. Raises ExcludesOneError if it has none, as a quotient
        by n - 1."""
        try:
            return self.total(terms)
        except ArithmeticError as error:
            raise ExcludesOneError from error
