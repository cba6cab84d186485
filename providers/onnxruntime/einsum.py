"""Builds Einsum from diagonals, reductions, matrix products in the order of the operands, and a
transpose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from string import ascii_uppercase

import numpy as np

from tflgpu_plugin.ir import ShapeRefusal, asks, is_symbolic
from tflgpu_plugin.providers import Builder

DOTS = "..."
TERM = r"[a-zA-Z]*(\.\.\.)?[a-zA-Z]*"
EQUATION = re.compile(rf"{TERM}(,{TERM})*(->{TERM})?")
UNNAMED = 0x100  # the character that stands for the last axis of an ellipsis

Given = tuple[int, str]  # a tensor, and the letters of its axes


def einsum(e: Builder) -> int:
    """Builds Einsum. Axes that neither the result nor another operand has are summed first."""
    terms, wanted = _equation(e)
    extents = _extents(e, terms)
    given = [_diagonal(e, *_spread(e, e.x(k), term, extents)) for k, term in enumerate(terms)]
    found = [letters for _, letters in given]
    given = [
        _summed(e, *one, {*"".join(found[:k] + found[k + 1 :]), *wanted})
        for k, one in enumerate(given)
    ]
    y, letters = given[0]
    for k, one in enumerate(given[1:], 1):
        later = {*wanted, *"".join(found[k + 1 :])}
        y, letters = _product(e, [(y, letters), one], later, extents)
    return e.transpose(y, [letters.index(letter) for letter in wanted])


def _equation(e: Builder) -> tuple[list[str], str]:
    """Returns (letters of each operand, letters of the result), with characters of their own for
    the axes of an ellipsis. Without "->", the result has these axes and then all letters that
    occur once, in alphabetical order."""
    left, arrow, right = e.text("equation", "").replace(" ", "").partition("->")
    terms, counts = left.split(","), Counter(re.sub(r"[.,]", "", left))
    implied = "".join(sorted(letter for letter, count in counts.items() if count == 1))
    shapes = zip(terms, map(e.rank, map(e.x, range(len(e.inputs)))), strict=False)
    ranks = [rank - len(term.replace(DOTS, "")) if DOTS in term else 0 for term, rank in shapes]
    made = [term.replace(DOTS, _unnamed(rank)) for term, rank in zip(terms, ranks, strict=False)]
    return made, (right if arrow else DOTS + implied).replace(DOTS, _unnamed(max(ranks, default=0)))


def _unnamed(rank: int) -> str:
    """Returns the characters for this many axes of an ellipsis, which are counted from the last."""
    return "".join(chr(UNNAMED + k) for k in reversed(range(rank)))


def _extents(e: Builder, terms: Sequence[str]) -> dict[str, int]:
    """Returns the extent of each letter; axes of an ellipsis may be 1 in some operands."""
    found: dict[str, int] = {}
    for k, term in enumerate(terms):
        for letter, extent in zip(term, e.shape(e.x(k)), strict=True):
            if found.get(letter, 1) == 1:
                found[letter] = extent
    return found


def _spread(e: Builder, x: int, letters: str, extents: Mapping[str, int]) -> Given:
    """Returns `x` without axes of 1 that are longer in another operand."""
    pairs = [*zip(letters, e.shape(x), strict=True)]
    kept = [(letter, n) for letter, n in pairs if n != 1 or extents[letter] == 1]
    if len(kept) == len(pairs):
        return x, letters
    return e.reshape(x, tuple(n for _, n in kept)), "".join(letter for letter, _ in kept)


def _diagonal(e: Builder, x: int, letters: str) -> Given:
    """Returns the diagonal of axes that have the same letter."""
    for letter in [one for one, count in Counter(letters).items() if count > 1]:
        others = [k for k, one in enumerate(letters) if one != letter]
        own = [k for k, one in enumerate(letters) if one == letter]
        shape = e.shape(x)
        extent, rest = shape[own[0]], tuple(shape[k] for k in others)
        rows = e.reshape(e.transpose(x, others + own), (*rest, prod(shape[k] for k in own)))
        step = sum(extent**k for k in range(len(own)))
        places = e.index(np.arange(extent) * step)
        x = e.add("gather", rows, places, axis=len(others))
        letters = "".join(letters[k] for k in others) + letter
    return x, letters


def _summed(e: Builder, x: int, letters: str, kept: Collection[str]) -> Given:
    """Sums `x` over the axes whose letters are not in `kept`. Returns the result and its
    letters."""
    axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
    if not axes:
        return x, letters
    y = e.add("reduce_sum", x, e.index(axes), keep_dims=False)
    return y, "".join(letter for letter in letters if letter in kept)


def _product(
    e: Builder, given: Sequence[Given], wanted: Collection[str], extents: Mapping[str, int]
) -> Given:
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
    """Requires an equation whose result has each letter once, no capital ones where it is not
    written, and the ellipsis if an operand has it."""
    equation = e.text("equation", "").replace(" ", "")
    terms, wanted = _equation(e)
    if not EQUATION.fullmatch(equation) or len(terms) != len(e.inputs):
        return False
    shapes = [e.shape(e.x(k)) for k in range(len(terms))]
    if any(len(term) != len(shape) for term, shape in zip(terms, shapes, strict=True)):
        return False
    letters = {*"".join(terms)}
    whole = {letter for letter in letters if ord(letter) >= UNNAMED} <= {*wanted} <= letters
    if not whole or len({*wanted}) != len(wanted):
        return False
    written = "->" in equation or {*wanted}.isdisjoint(ascii_uppercase)  # else the host raises
    twice = {n for term, shape in zip(terms, shapes, strict=True)
             for letter, n in zip(term, shape, strict=True) if term.count(letter) > 1}  # fmt: skip
    return written and not is_symbolic(tuple(twice))


@asks("shape.mismatch", kind=ShapeRefusal)
def agreeing(e: Builder) -> bool:
    """Requires letters of one extent each, a known one where a letter is twice in one operand."""
    terms, _ = _equation(e)
    shapes = [e.shape(e.x(k)) for k in range(len(terms))]
    pairs = {pair for term, shape in zip(terms, shapes, strict=True)
             for pair in zip(term, shape, strict=True)}  # fmt: skip
    counts = Counter(letter for letter, n in pairs if ord(letter) < UNNAMED or n != 1)
    return max(counts.values(), default=1) == 1
