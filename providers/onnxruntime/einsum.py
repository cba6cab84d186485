"""Builds Einsum of one or two operands from reductions, one matrix product, and a transpose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import prod

from tflgpu_plugin.ir import asks
from tflgpu_plugin.providers import Builder

TERMS = re.compile(r"[a-zA-Z]*(,[a-zA-Z]*)?(->[a-zA-Z]*)?")


def einsum(e: Builder) -> int:
    """Builds Einsum. Axes that neither the result nor the other operand has are summed first."""
    terms, wanted = _equation(e)
    extents = {letter: n for k, term in enumerate(terms)
               for letter, n in zip(term, e.shape(e.x(k)), strict=True)}  # fmt: skip
    given = [_summed(e, e.x(k), term, {*"".join(terms[:k] + terms[k + 1 :]), *wanted})
             for k, term in enumerate(terms)]  # fmt: skip
    y, letters = given[0] if len(given) == 1 else _product(e, given, wanted, extents)
    return e.transpose(y, [letters.index(letter) for letter in wanted])


def _equation(e: Builder) -> tuple[list[str], str]:
    """Returns (letters of each operand, letters of the result). Without "->", the result has
    all letters that occur once, in alphabetical order."""
    left, arrow, right = e.text("equation", "").replace(" ", "").partition("->")
    counts = Counter(left.replace(",", ""))
    implied = "".join(sorted(letter for letter, count in counts.items() if count == 1))
    return left.split(","), right if arrow else implied


def _summed(e: Builder, x: int, letters: str, kept: set[str]) -> tuple[int, str]:
    """Sums `x` over the axes whose letters are not in `kept`. Returns the result and its
    letters."""
    axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
    if not axes:
        return x, letters
    y = e.add("reduce_sum", x, e.index(axes), keep_dims=False)
    return y, "".join(letter for letter in letters if letter in kept)


def _product(
    e: Builder, given: list[tuple[int, str]], wanted: str, extents: Mapping[str, int]
) -> tuple[int, str]:
    """Returns the product of two tensors, as a batched matrix product [batch, rows, inner] x
    [batch, inner, columns], and its letters. Each of these axes may stand for several letters."""
    (a, left), (b, right) = given
    batch = "".join(letter for letter in left if letter in right and letter in wanted)
    inner = "".join(letter for letter in left if letter in right and letter not in wanted)
    rows = "".join(letter for letter in left if letter not in right)
    columns = "".join(letter for letter in right if letter not in left)

    def matrices(x: int, letters: str, first: str, second: str) -> int:
        ordered = e.transpose(x, [letters.index(letter) for letter in batch + first + second])
        sizes = (prod(extents[letter] for letter in part) for part in (batch, first, second))
        return e.reshape(ordered, tuple(sizes))

    y = e.add("matmul", matrices(a, left, rows, inner), matrices(b, right, inner, columns))
    letters = batch + rows + columns
    return e.reshape(y, tuple(extents[letter] for letter in letters)), letters


@asks("attribute.unsupported")
def readable(e: Builder) -> bool:
    """Requires an equation of one or two operands, without ellipsis, and no letter twice in one
    operand."""
    terms, wanted = _equation(e)
    if not TERMS.fullmatch(e.text("equation", "").replace(" ", "")) or len(terms) != len(e.inputs):
        return False
    once = all(len({*term}) == len(term) == e.rank(e.x(k)) for k, term in enumerate(terms))
    known = {*wanted} <= {*"".join(terms)} and len({*wanted}) == len(wanted)
    pairs = {
        pair for k, term in enumerate(terms) for pair in zip(term, e.shape(e.x(k)), strict=False)
    }
    return once and known and len({letter for letter, _ in pairs}) == len(pairs)
