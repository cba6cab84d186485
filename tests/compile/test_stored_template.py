"""Stored templates with inconsistent numbers are refused, whoever wrote them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.compile.test_templates_run import PLACES, traced
from tflgpu_plugin.compile.stored_template import BYTES, MAX_FACTORS, Numbers, numbers, restored
from tflgpu_plugin.compile.template import Template, Values
from tflgpu_plugin.ir import Plan
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.ir.polynomial import ZERO, Guard

HERE = {0: 20, 1: 30}
ROOMS = [HERE, {0: 40, 1: 50}]


def made() -> tuple[Template, Plan, Numbers]:
    template = traced(20, 30)
    return template, replace(template.settled(HERE, ROOMS, PLACES), symbols=None), numbers(template)


def first(name: str, **changes: Any) -> Callable[[Numbers], Numbers]:
    """Changes some columns of the first row of a table, named by their positions."""

    def change(found: Numbers) -> Numbers:
        row, *rest = getattr(found, name)
        row = list(row)
        for column, value in changes.items():
            row[int(column[1:])] = value
        return replace(found, **{name: (tuple(row), *rest)})

    return change


def number(terms: Any) -> Callable[[Numbers], Numbers]:
    """Another polynomial in the first guard."""
    return first("guards", c1=terms)


def function(**changes: Any) -> Callable[[Numbers], Numbers]:
    """Changes some columns of the first atom that is a function."""

    def change(found: Numbers) -> Numbers:
        atoms = list(found.atoms)
        place = next(k for k, atom in enumerate(atoms) if atom[0] != "in")
        atom = list(atoms[place])
        for column, value in changes.items():
            atom[int(column[1:])] = value(place) if callable(value) else value
        atoms[place] = tuple(atom)  # type: ignore[assignment]
        return replace(found, atoms=tuple(atoms))

    return change


def pool(found: Numbers) -> Numbers:
    """The first pool is a buffer that is none."""
    return replace(found, pools=(0, *found.pools[1:]))


ONE = (((0,), 1),)
MISFITS: dict[str, tuple[str, Callable[[Numbers], Numbers]]] = {
    "no function": ("a function", function(c0="power")),
    "a symbol without a name": ("a symbol", first("atoms", c1="name")),
    "a symbol with another name": ("a symbol", first("atoms", c1=("offsets", 1))),
    "a symbol with a long name": ("a symbol", first("atoms", c1=("offset", 1, 2))),
    "an atom of itself": ("a polynomial", function(c1=lambda k: (((k,), 1),))),
    "a divisor of itself": ("a polynomial", function(c2=lambda k: (((k,), 1),))),
    "an atom of no polynomial": ("a polynomial", function(c1=3)),
    "no guard": ("a guard", first("guards", c0="le")),
    "a number for a product": ("a polynomial", number((3,))),
    "a product of three parts": ("a polynomial", number((((0,), 1, 2),))),
    "a factor that is no number": ("a polynomial", number((((0,), "1"),))),
    "atoms that are no list": ("a polynomial", number(((0, 1),))),
    "an atom below zero": ("a polynomial", number((((-1,), 1),))),
    "an atom that is no number": ("a polynomial", number(((("0",), 1),))),
    "an atom after the last": ("a polynomial", number((((1 << 20,), 1),))),
    "a long product": ("a polynomial", number((((0,) * (MAX_FACTORS + 1), 1),))),
    "a word of no type": ("a word", first("words", c1="u64")),
    "a word at an odd place": ("a word", first("words", c0=2)),
    "a word before the uniforms": ("a word", first("words", c0=-4)),
    "a word after the uniforms": ("a word", first("words", c0=1 << 20)),
    "a group of no dispatch": ("a dispatch", first("groups", c0=1 << 20)),
    "a group of the dispatch before": ("a dispatch", first("groups", c0=-1)),
    "a group of no axis": ("an axis", first("groups", c1=3)),
    "a group of the axis before": ("an axis", first("groups", c1=-1)),
    "no port": ("a port", first("ports", c0=9)),
    "the port before": ("a port", first("ports", c0=-1)),
    "a port of no axis": ("an axis", first("ports", c1=4)),
    "a port of the axis before": ("an axis", first("ports", c1=BYTES - 1)),
    "no buffer": ("a buffer", first("buffers", c0=1 << 20)),
    "the buffer before": ("a buffer", first("buffers", c0=-1)),
    "a tensor in no pool": ("a pool", first("alive", c3=9)),
    "a tensor in the pool before": ("a pool", first("alive", c3=-1)),
    "a pool that is none": ("a pool", pool),
    "a pool after the last buffer": ("a pool", lambda found: replace(found, pools=(1 << 20,) * 9)),
    "a pool before the first": ("a pool", lambda found: replace(found, pools=(-1,) * 9)),
}


@pytest.mark.parametrize("name", MISFITS)
def test_numbers_that_do_not_fit(name: str) -> None:
    what, change = MISFITS[name]
    _, plan, found = made()
    with pytest.raises(ValueError, match=rf"^{what} does not fit$"):
        restored(change(found), plan)


def test_a_restored_template_grows_as_the_first_one_does() -> None:
    template, plan, found = made()
    again = restored(found, plan)
    for rooms in (ROOMS, [HERE, {0: 90, 1: 80}]):
        assert again.settled(HERE, rooms, PLACES) == template.settled(HERE, rooms, PLACES)
    for values in (HERE, {0: 21, 1: 31}, {0: 1, 1: 31}, {0: 2, 1: 2}, {0: 1 << 40, 1: 5}):
        assert again.fits(values) == template.fits(values)
    assert numbers(again) == found


def test_the_longest_product_is_allowed() -> None:
    _, plan, found = made()
    again = restored(number((((0,) * MAX_FACTORS, 1),))(found), plan)
    assert again.fits({0: 1, 1: 30}) is restored(found, plan).fits({0: 1, 1: 30})


def test_what_is_no_number_cannot_be_stored() -> None:
    template, *_ = made()
    template.words.append((0, 1.5j))
    with pytest.raises(TypeError):
        numbers(template)


def test_numbers_beyond_int64_are_refused_before_they_grow() -> None:
    trace = Trace()
    number: Any = trace.symbol(0, 1)
    for _ in range(200):
        number = trace.atom("quotient", (number * number).terms, (((), 1),), 1, 0, 1)
    assert Values(trace, {0: 1}).of(number) == 1
    with pytest.raises(OverflowError):
        Values(trace, {0: 2}).of(number)
    assert Values(trace, {0: 2}).size(number) == 0
    assert not Values(trace, {0: 2}).hold([Guard("ge", number.terms)])


def test_constants_stay_plain_numbers() -> None:
    _, plan, found = made()
    some = replace(found, words=((0, "u32", (((), 7),)), (4, "i32", ZERO)))
    words = dict(restored(some, plan).words)
    assert (words[0].number, words[4].number) == (7, 0)
