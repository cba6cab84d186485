"""Polynomials with integer coefficients. Their variables are atoms: the symbols of a trace (see
`ir.extent`), and quotients and remainders of other polynomials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd, prod
from operator import floordiv, mod
from typing import Any, NamedTuple

from tflgpu_plugin.ir.heuristics import ExcludesOneError

Terms = tuple[tuple[tuple[int, ...], int], ...]  # ((atoms, coefficient), ...) in order, no zeros
ZERO: Terms = ()
ONE: Terms = (((), 1),)
MAX_TERMS, MAX_FACTORS = 32, 8  # of a polynomial; a longer one becomes an atom
FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "quotient": floordiv, "remainder": mod, "rounded_up": lambda a, b: -(-a // b),
    "larger": max, "smaller": min,
}  # fmt: skip
MAX_EXTENT = (1 << 31) - 1  # the largest magnitude of an extent


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


def parts(terms: Terms) -> tuple[int, Terms]:
    """Returns the constant term of a polynomial, and its other terms."""
    return (terms[0][1], terms[1:]) if terms and not terms[0][0] else (0, terms)


def times(a: Terms, b: Terms) -> Terms:
    """Returns a * b."""
    if len(b) == 1 and not b[0][0]:
        return scaled(a, b[0][1])
    found: dict[tuple[int, ...], int] = {}
    for left, m in a:
        for right, n in b:
            atoms = tuple(sorted((*left, *right)))
            found[atoms] = found.get(atoms, 0) + m * n
    return tuple(sorted((atoms, c) for atoms, c in found.items() if c))


def scaled(terms: Terms, by: int) -> Terms:
    """Returns terms * by."""
    return tuple([(atoms, by * c) for atoms, c in terms]) if by else ZERO


def negated(terms: Terms) -> Terms:
    """Returns -terms."""
    return scaled(terms, -1)


def at_example(terms: Terms, atoms: Sequence[Atom]) -> int:
    """Returns the value of a polynomial for the example values."""
    return sum(c * prod(atoms[atom].value for atom in names) for names, c in terms)


def divided(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """Returns polynomials (q, r) with a = q * b + r: q is 0 if the leading term of b divides no
    term of a. Ends after at most 16 steps of the long division."""
    lead, by = max(b, key=_degree)
    found: dict[tuple[int, ...], int] = {}
    rest, kept = dict(a), dict[tuple[int, ...], int]()
    for _ in range(16 + len(a)):
        if not rest or len(found) > 16:
            break
        atoms, c = max(rest.items(), key=_degree)
        part = _without(atoms, lead)
        if part is None or c % by:
            kept[atoms] = rest.pop(atoms)
            continue
        found[part] = c // by
        for names, n in b:
            product = tuple(sorted((*names, *part)))
            rest[product] = rest.get(product, 0) - n * found[part]
            if not rest[product]:
                del rest[product]
    return tuple(sorted(found.items())), tuple(sorted((rest | kept).items()))


def _degree(term: tuple[tuple[int, ...], int]) -> tuple[int, tuple[int, ...]]:
    """Returns what orders terms, so that the product of two leading terms is that of the
    product."""
    return len(term[0]), term[0]


def _without(atoms: Sequence[int], others: Iterable[int]) -> tuple[int, ...] | None:
    """Returns the factors of a product without these; None if it does not have all of them."""
    rest = list(atoms)
    for atom in others:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def exact_quotient(a: Terms, b: Terms) -> Terms | None:
    """Returns the polynomial a / b, or None if b does not divide a."""
    found, rest = divided(a, b)
    return None if rest else found


def divided_by(terms: Terms, number: int) -> tuple[Terms, Terms]:
    """Returns polynomials (q, r) with terms = q * number + r: the multiples of a number, and the
    rest, of which the constant term is at least 0 and less than the number."""
    multiples = (term for term in terms if term[0] == () or term[1] % number == 0)
    whole = tuple((k, c // number) for k, c in multiples if c // number)
    return whole, plus(terms, tuple((k, -c * number) for k, c in whole))


def is_short(terms: Terms) -> bool:
    """Whether a polynomial has few terms of few factors."""
    return len(terms) <= MAX_TERMS and all(len(atoms) <= MAX_FACTORS for atoms, _ in terms)


def parted(terms: Terms) -> tuple[int, int, Terms]:
    """Returns numbers k, c and a polynomial p with terms = k + c * p, of which equal parts of
    polynomials are equal: p has no constant term, and its last coefficient is positive."""
    constant, variable = parts(terms)
    common = gcd(*(c for _, c in variable))
    factor = common if variable[-1][1] > 0 else -common
    return constant, factor, tuple([(atoms, c // factor) for atoms, c in variable])


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


class EvaluationAtOne(Evaluation):
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
