"""Tests which extents of a partition become symbols, and how its templates are found again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tflgpu_plugin.compile.template import Values
from tflgpu_plugin.frontend.reshaping import KEPT, NARROW, Flat, Reshaping, flat, parted
from tflgpu_plugin.ir import extent
from tflgpu_plugin.ir.extent import Trace


def test_lists_that_were_joined_are_parted() -> None:
    lists = ((2, 3), (), (5,), (-1, 0, 7))
    assert parted(flat(lists)) == lists and parted([]) == ()


class Template:
    """A template of which only the guards matter."""

    def __init__(self, numbers: Flat, trace: Trace) -> None:
        self.numbers, self.trace = numbers, trace
        self.plan = SimpleNamespace(least_bytes=0)

    def fits(self, symbols: dict[int, int]) -> bool:
        return Values(self.trace, symbols).hold([*self.trace.guards])


def at(*positions: int) -> dict[int, tuple[int, int]]:
    """Returns the limits of extents at these positions."""
    return dict.fromkeys(positions, extent.EXTENTS)


EXTENTS, FIRST = at(1, 2, 4, 5), at(1, 2)
VALUES = FIRST | dict.fromkeys((4, 5), extent.INTEGERS)
LARGEST = extent.INTEGERS[1]


class Made(list[Flat]):
    """Makes templates that hold below a limit of the first symbol, and lists their shapes."""

    def __init__(self, below: int = 1000) -> None:
        self.below = below

    def __call__(self, numbers: Flat, trace: Trace) -> Any:
        self.append(numbers)
        for number in numbers:
            assert number < self.below
        return Template(numbers, trace)


def given(a: int, b: int, c: int, d: int) -> Flat:
    return tuple(flat([(a, b), (c, d)]))


def test_the_second_shape_makes_symbols_of_what_differs() -> None:
    reshaping, make = Reshaping(), Made()
    assert reshaping.of(given(3, 7, 7, 5), EXTENTS, make) is None
    found = reshaping.of(given(3, 9, 9, 5), EXTENTS, make)
    assert found is not None and found.places == ((2, 0), (4, 0)) and found.symbols == {0: 9}
    assert found.rooms == [{0: 9}, {0: 7}] and len(make) == 1
    again = reshaping.of(given(3, 8, 8, 5), EXTENTS, make)
    assert again is found and len(make) == 1
    assert found.values(given(3, 8, 9, 5)) is None and found.values(given(4, 8, 8, 5)) is None
    assert found.values((2, 3)) is None


def test_extents_that_the_model_leaves_open_become_symbols_with_others() -> None:
    reshaping, make = Reshaping(declared=frozenset({1})), Made()
    first = reshaping.of(given(3, 7, 7, 5), EXTENTS, make)
    assert first is not None and first.places == ((1, 0),)
    assert reshaping.of(given(4, 7, 7, 5), EXTENTS, make) is first
    found = reshaping.of(given(3, 9, 9, 5), EXTENTS, make)
    assert found is not None and found.places == ((1, 0), (2, 1), (4, 1))
    assert reshaping.of(given(6, 8, 8, 5), EXTENTS, make) is found and len(make) == 2


@pytest.mark.parametrize("declared", [(), (2,)])
def test_the_first_shapes_have_no_template_where_no_extent_is_open(declared: tuple[int]) -> None:
    """Nor when they come again: the host asks for them again if their plan could not be built."""
    reshaping, make, limits = Reshaping(declared=frozenset(declared)), Made(), at(1, 4, 5)
    assert reshaping.of(given(3, 7, 7, 5), limits, make) is None
    assert reshaping.of(given(3, 7, 7, 5), limits, make) is None and not make
    found = reshaping.of(given(3, 7, 9, 5), limits, make)
    assert found is not None and found.rooms == [{0: 9}, {0: 7}]


def test_they_do_not_where_a_template_with_them_holds_for_few_shapes() -> None:
    reshaping, make = Reshaping(declared=frozenset({1})), Made()
    reshaping.of(given(3, 7, 7, 5), EXTENTS, make)
    reshaping.of(given(3, 8, 8, 5), EXTENTS, lambda n, trace: int(n[1]) and make(n, trace))
    found = reshaping.of(given(4, 8, 9, 5), EXTENTS, make)
    assert found is not None and found.places == ((1, 0), (2, 1), (4, 2))
    reshaping = Reshaping(declared=frozenset({1}), narrow=1)
    reshaping.of(given(3, 7, 7, 5), EXTENTS, make)
    found = reshaping.of(given(3, 9, 9, 5), EXTENTS, make)
    assert found is not None and found.places == ((2, 0), (4, 0))


def test_equal_extents_of_one_tensor_have_symbols_of_their_own() -> None:
    """Extents of another tensor share symbols with them, in their order."""
    reshaping, make = Reshaping(), Made()
    reshaping.of(given(7, 7, 7, 7), EXTENTS, make)
    found = reshaping.of(given(9, 9, 9, 9), EXTENTS, make)
    assert found is not None and found.places == ((1, 0), (2, 1), (4, 0), (5, 1))
    assert found.rooms == [{0: 9, 1: 9}, {0: 7, 1: 7}]
    assert reshaping.of(given(8, 6, 8, 6), EXTENTS, make) is found


def test_extents_that_become_unequal_get_symbols_of_their_own() -> None:
    reshaping, make = Reshaping(), Made()
    for shapes in (given(3, 7, 7, 5), given(3, 9, 9, 5), given(3, 8, 9, 5)):
        found = reshaping.of(shapes, EXTENTS, make)
    assert found is not None and found.places == ((2, 0), (4, 1)) and len(make) == 2


def test_a_batch_of_1_is_a_symbol_unless_the_template_cannot_hold_for_others() -> None:
    reshaping, make = Reshaping(declared=frozenset((1, 2))), Made()
    found = reshaping.of(given(1, 8, 7, 6), FIRST, make)
    assert found is not None and found.places == ((1, 0), (2, 1))
    assert found.rooms == [{0: 1, 1: 8}, {0: 2, 1: 8}]
    assert reshaping.of(given(9, 8, 7, 6), FIRST, make) is found
    reshaping = Reshaping(declared=frozenset((1, 2)))
    found = reshaping.of(given(1, 8, 7, 6), FIRST, lambda n, t: n[1] != 1 and make(n, t))
    assert found is not None and found.places == ((2, 0),)


def test_numbers_without_limits_and_other_extents_below_2_are_no_symbols() -> None:
    reshaping, make = Reshaping(), Made()
    reshaping.of(given(3, 7, 7, 5), FIRST, make)
    assert reshaping.of(given(3, 7, 7, 6), FIRST, make) is None
    found = reshaping.of(given(2, 1, 7, 6), FIRST, make)
    assert found is not None and found.places == ((1, 0),)
    assert found.values(given(2, 8, 7, 6)) is None
    assert reshaping.of(given(0, 0, 7, 6), FIRST, make) is None


@pytest.mark.parametrize("value", [-9, -1, 0, 1, LARGEST, -LARGEST])
def test_a_value_of_any_size_is_a_symbol(value: int) -> None:
    reshaping, make = Reshaping(), Made(1 << 40)
    reshaping.of(given(3, 7, 7, 5), VALUES, make)
    found = reshaping.of(given(3, 7, value, 5), VALUES, make)
    assert found is not None and found.places == ((4, 0),)
    trace = found.template.trace
    for other in (LARGEST + 1, -LARGEST - 1):
        assert not Values(trace, {0: other}).hold(trace.conditions)
    assert Values(trace, {0: 1 - value if abs(value) < LARGEST else 0}).hold(trace.conditions)


@pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1])
def test_a_value_that_may_have_been_clamped_is_no_symbol(value: int) -> None:
    reshaping, make = Reshaping(), Made(1 << 40)
    reshaping.of(given(3, 7, 7, 5), VALUES, make)
    assert reshaping.of(given(3, 7, value, 5), VALUES, make) is None
    found = reshaping.of(given(3, 8, value, 6), VALUES, make)
    assert found is not None and found.places == ((2, 0), (5, 1))


def test_a_value_that_is_needed_as_a_number_is_given_up() -> None:
    """It may be an axis. Extents and other values still become symbols."""
    reshaping, make = Reshaping(), Made(1 << 20)

    def fixing(numbers: Flat, trace: Trace) -> Any:
        assert int(numbers[4]) > 0
        return make(numbers, trace)

    reshaping.of(given(3, 7, 7, 5), VALUES, fixing)
    for k in range(NARROW):
        found = reshaping.of(given(3, 7, 8 + k, 6 + k), VALUES, fixing)
        assert found is not None and found.places == ((4, 0), (5, 1))
    assert reshaping.narrow == 0
    assert reshaping.of(given(3, 7, 20, 5), VALUES, fixing) is None
    found = reshaping.of(given(3, 8, 20, 6), VALUES, fixing)
    assert found is not None and found.places == ((2, 0), (5, 1))
    for k in range(9, 12):
        assert reshaping.of(given(3, k, 20, k + 9), VALUES, fixing) is found


def test_a_value_is_given_up_only_where_no_template_in_between_was_wide() -> None:
    reshaping, make = Reshaping(), Made(1 << 20)
    reshaping.of(given(3, 7, 7, 5), VALUES, make)
    for k in range(2 * NARROW):
        make.below = 100 + k

        def fixing(numbers: Flat, trace: Trace, k: int = k) -> Any:
            return make(numbers, trace) if k % 2 else int(numbers[4]) and make(numbers, trace)

        found = reshaping.of(given(3, 7, 99 + k, 5), VALUES, fixing)
        assert found is not None and found.places == ((4, 0),)


def test_values_for_which_nothing_can_be_made_are_given_up() -> None:
    reshaping, make = Reshaping(), Made()

    def failing(numbers: Flat, trace: Trace) -> Any:
        if isinstance(numbers[4], extent.Extent):
            raise ZeroDivisionError
        return make(numbers, trace)

    reshaping.of(given(3, 7, 7, 5), VALUES, failing)
    for k in range(NARROW):
        with pytest.raises(ZeroDivisionError):
            reshaping.of(given(3, 7, 8 + k, 5), VALUES, failing)
    assert reshaping.of(given(3, 7, 20, 5), VALUES, failing) is None
    found = reshaping.of(given(3, 9, 20, 5), VALUES, failing)
    assert found is not None and found.places == ((2, 0),)


def test_a_guard_that_fails_makes_another_template() -> None:
    reshaping, make = Reshaping(), Made(10)
    reshaping.of(given(3, 7, 7, 5), EXTENTS, make)
    first = reshaping.of(given(3, 8, 8, 5), EXTENTS, make)
    make.below = 100
    second = reshaping.of(given(3, 20, 20, 5), EXTENTS, make)
    assert second is not first and len(make) == 2
    assert reshaping.of(given(3, 30, 30, 5), EXTENTS, make) is second


def test_buffers_grow_by_more_where_they_grow_in_small_steps() -> None:
    reshaping, make = Reshaping(), Made()
    reshaping.of(given(3, 100, 7, 5), EXTENTS, make)
    found = reshaping.of(given(3, 101, 7, 5), EXTENTS, make)
    assert found is not None and found.rooms[0] == {0: 101}
    reshaping.of(given(3, 102, 7, 5), EXTENTS, make)
    assert found.rooms[0] == {0: 134}
    reshaping.of(given(3, 120, 7, 5), EXTENTS, make)
    assert found.rooms[0] == {0: 120} and {0: 134} in found.rooms
    reshaping.of(given(3, 400, 7, 5), EXTENTS, make)
    assert found.rooms[0] == {0: 400}
    reshaping.of(given(3, 450, 7, 5), EXTENTS, make)
    assert found.rooms[:2] == [{0: 562}, {0: 450}]
    reshaping.of(given(3, 643, 7, 5), EXTENTS, make)
    assert found.rooms[0] == {0: 643}
    reshaping.of(given(3, 734, 7, 5), EXTENTS, make)
    assert found.rooms[:2] == [{0: 917}, {0: 734}]


def test_an_error_reaches_the_caller_and_nothing_is_kept() -> None:
    reshaping = Reshaping()

    def make(numbers: Flat, trace: Trace) -> Any:
        raise ZeroDivisionError

    reshaping.of(given(3, 7, 7, 5), EXTENTS, make)
    with pytest.raises(ZeroDivisionError):
        reshaping.of(given(3, 8, 8, 5), EXTENTS, make)
    assert not reshaping.found


def test_few_shapes_and_templates_are_kept() -> None:
    reshaping, make = Reshaping(), Made()
    for k in range(3 * KEPT):
        make.below = 100 + 50 * k
        reshaping.of(given(3, 90 + 50 * k, 7, 5), EXTENTS, make)
    assert len(make) > KEPT
    assert len(reshaping.seen) <= KEPT and len(reshaping.found) <= KEPT


def test_room_is_for_shapes_that_were_seen_and_not_for_their_product() -> None:
    reshaping, make = Reshaping(), Made(9000)
    for shapes in (given(1000, 4, 7, 5), given(3, 2000, 7, 5), given(4, 2000, 7, 5)):
        found = reshaping.of(shapes, EXTENTS, make)
    assert found is not None
    assert {0: 1000, 1: 2000} not in found.rooms and {0: 1000, 1: 4} in found.rooms
    found.shrink()
    assert found.rooms == [{0: 4, 1: 2000}]


def test_a_shape_without_memory_does_not_end_templates() -> None:
    """It is the shape that has no plan, not the template."""
    reshaping, make = Reshaping(), Made()
    reshaping.of(given(3, 7, 7, 5), EXTENTS, make)
    for k in range(2 * NARROW):
        found = reshaping.of(given(3, 8 + k, 7, 5), EXTENTS, make)
        assert found is not None and len(make) == k + 1
        found.built = True
        assert reshaping.of(given(3, 90 + k, 7, 5), EXTENTS, make) is found
        reshaping.drop(found)


def test_a_rank_is_no_symbol() -> None:
    reshaping, make = Reshaping(), Made()
    reshaping.of((2, 5, 6, 1, 7), at(1, 2, 4), make)
    reshaping.of((2, 5, 6, 1, 8), at(1, 2, 4), make)
    reshaping.of((1, 5, 2, 6, 8), at(1, 3, 4), make)
    found = reshaping.of((1, 5, 2, 7, 9), at(1, 3, 4), make)
    assert found is not None and found.places == ((3, 0), (4, 1))


def test_few_narrow_templates_are_made() -> None:
    reshaping, make = Reshaping(), Made()
    for k in range(10):
        make.below = 100 + k
        shapes = given(3, 99 + k, 7, 5)
        reshaping.of(shapes, EXTENTS, lambda n, trace: int(n[2]) and make(n, trace))
    assert len(make) == NARROW and len(reshaping.found) == NARROW
    assert reshaping.of(given(3, 99 + NARROW, 7, 5), EXTENTS, make) is reshaping.found[0]


def test_wide_templates_are_made_again() -> None:
    reshaping, make = Reshaping(), Made()
    for k in range(6):
        make.below = 100 + 50 * k
        reshaping.of(given(3, 90 + 50 * k, 7, 5), EXTENTS, make)
    assert len(make) == 5 and reshaping.narrow == 0


def test_templates_that_fail_are_dropped_and_not_made_for_ever() -> None:
    reshaping, make = Reshaping(), Made()
    reshaping.of(given(3, 7, 7, 5), EXTENTS, make)
    for k in range(10):
        found = reshaping.of(given(3, 8 + k, 7, 5), EXTENTS, make)
        if found is not None:
            reshaping.drop(found)
    assert len(make) == NARROW and not reshaping.found
