"""Tests symbolic extents: what code computes with them holds for all values that satisfy the
guards."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin import kernels
from tflgpu_plugin.compile.template import Values
from tflgpu_plugin.ir.extent import EXTENTS, INTEGERS, Extent, Trace
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.polynomial import ONE, Guard, is_short
from tflgpu_plugin.ir.symbolic import (
    Word,
    always_divides,
    example,
    f32,
    from_front,
    hashed,
    i32,
    in_range,
    integer,
    integers,
    is_integer,
    is_symbolic,
    larger,
    sliced,
    smaller,
    symbolic,
    within_factor,
)

Numbers = Sequence[Any]
LIMITS = (2, 2), (63, 1000), (64, 2), (1, 9), (9, 0)  # a < 64, and both at least 2
BINARY: Sequence[Callable[[Any, Any], Any]] = (
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, max, min,
    lambda a, b: -(-a // b), lambda a, b: a if a == b else b, lambda a, b: divmod(a, b)[1],
    lambda a, b: a << 1 if a > b else a >> 1, lambda a, b: abs(a - b),
    lambda a, b: a if a != b else 2, larger, smaller, lambda a, b: from_front(a - 40, b),
)  # fmt: skip


def computed(seed: int, given: Numbers) -> list[Any]:
    """Returns the numbers that a random program of a few steps computes from these inputs."""
    chance, found = random.Random(seed), [*given, 1, 3, 4, 64]
    for _ in range(chance.randint(1, 8)):
        function, a, b = chance.choice(BINARY), chance.choice(found), chance.choice(found)
        found.append(function(a, b) if b > 0 else a)
    return found


def traced(*values: int, limits: tuple[int, int] = EXTENTS) -> tuple[Trace, list[int]]:
    trace = Trace()
    return trace, [trace.symbol(k, value, *limits) for k, value in enumerate(values)]


@pytest.mark.parametrize(
    ("part", "least", "limits"),
    [*((k, 2, EXTENTS) for k in range(4)), *((k, -20, INTEGERS) for k in range(2))],
)
def test_programs_hold_where_their_guards_hold(
    part: int, least: int, limits: tuple[int, int]
) -> None:
    chance, held = random.Random(part), 0
    for seed in range(1500 * part, 1500 * part + 1500):
        first, other = ([chance.randint(least, 40) for _ in range(3)] for _ in range(2))
        trace, symbols = traced(*first, limits=limits)
        found = computed(seed, symbols)
        assert [example(number) for number in found] == computed(seed, first)
        values = Values(trace, dict(enumerate(other)))
        if values.hold([*trace.guards]):
            held += 1
            assert [values.of(number) for number in found] == computed(seed, other)
            for index, atom in enumerate(trace.atoms):
                assert atom.least <= values.atom(index) <= atom.most
    assert held > 300


def test_polynomials_are_equal_without_a_guard() -> None:
    trace, (a, b) = traced(30, 7)
    assert a * 4 + 4 * b == 4 * (a + b) and (a + b) * (a - b) == a * a - b * b
    assert a * 12 // 4 == 3 * a and a * b // b == a and (8 * a + 5) // 4 == 2 * a + 1
    assert a > 0 and a + b >= 4 and -(-a // 4) >= 1 and a // (2 * a) == 0 and a * a >= 2 * a
    assert not trace.guards


def test_symbols_are_not_below_their_limit() -> None:
    """A comparison with the limit adds no guard."""
    trace, (a, _) = traced(30, 40)
    assert a != 1 and a > 0 and not trace.guards and a < 64
    held = [Values(trace, {0: n, 1: m}).hold(trace.conditions) for n, m in LIMITS]
    assert held == [True, True, False, False, False]
    offset = Trace()
    offset.symbol("offset", 3, 0)
    assert Values(offset, {"offset": 0}).hold(offset.conditions)


def test_extremes_leave_no_guard() -> None:
    trace, (a, b) = traced(30, -7, limits=INTEGERS)
    low, high = larger(a, b), smaller(b, a)
    cut = smaller(larger(from_front(b, 12), 0), 12)
    assert (low, high, cut) == (30, -7, 5)
    trace.guards.clear()
    assert low is larger(b, a) or larger(b, a) == low
    assert 0 <= cut <= 12 and larger(cut, -1) is cut and smaller(cut, 13) is cut
    assert larger(cut, 13) == 13 and smaller(-2, cut) == -2 and not trace.guards
    for first, second in ((3, 9), (-9, -9), (0, -1), (-1, -13), (-40, 20), (5, 12)):
        values = Values(trace, {0: first, 1: second})
        assert values.hold(trace.conditions)
        assert values.of(low) == max(first, second) and values.of(high) == min(first, second)
        wanted = second + 12 if second < 0 else second
        assert values.of(cut) == min(max(wanted, 0), 12)


def test_extremes_of_plain_numbers() -> None:
    assert (larger(3, 5), smaller(3, 5), from_front(-2, 9), from_front(2, 9)) == (5, 3, 7, 2)


def test_pinned_symbols_have_a_single_value() -> None:
    trace = Trace()
    a, b, c, d, e = (trace.symbol(k, n) for k, n in zip("abcde", (30, 40, 50, 60, 7), strict=True))
    assert int(a) and c == d - 10 and b > 3 and c != 4 and 3 * e == 21 and a // 7 == 4
    assert trace.pinned == {"a", "e"}


def test_a_comparison_leaves_one_guard() -> None:
    trace, (a,) = traced(30)
    assert a < 64 and not a >= 64 and a != 5 and not a == 5
    assert {guard.kind for guard in trace.guards} == {"ge", "ne"} and len(trace.guards) == 2
    assert Values(trace, {0: 63}).hold([*trace.guards])
    assert not Values(trace, {0: 64}).hold([*trace.guards])
    assert not Values(trace, {0: 5}).hold([*trace.guards])


@pytest.mark.parametrize(
    "use",
    [int, float, str, hash, range, lambda n: f"{n:d}", lambda n: [0] * 50 and [0, 1][n - 29],
     lambda n: np.zeros(n), lambda n: n / 2, lambda n: 2 / n, lambda n: n + 0.5, lambda n: n < 31.5,
     lambda n: np.asarray(n, np.int64), lambda n: {30: 1}[n], lambda n: 2**n, lambda n: 0.5 // n,
     lambda n: 1 << n, lambda n: n & 3, lambda n: 1 | n, lambda n: n**-1],
)  # fmt: skip
def test_a_use_as_a_plain_number_fixes_it(use: Callable[[Any], object]) -> None:
    trace, (a,) = traced(30)
    use(a)
    values = [Values(trace, {0: value}) for value in (30, 31)]
    assert [each.hold([*trace.guards]) for each in values] == [True, False]
    assert trace.fixed == 1


def test_a_choice_leaves_no_guard() -> None:
    trace, (a,) = traced(30)

    @heuristic
    def choice(n: int) -> str:
        return "many" if n >= 16 and n / 2 > 3 else "few"

    assert choice(a) == "many" and not trace.guards and not trace.fixed
    with pytest.raises(ZeroDivisionError):
        heuristic(lambda: 1 // 0)()
    assert a >= 16 and len(trace.guards) == 1


def test_bit_length_holds_between_powers_of_two() -> None:
    trace, (a,) = traced(30)
    assert a.bit_length() == 5
    held = [v for v in range(2, 70) if Values(trace, {0: v}).hold([*trace.guards])]
    assert held == [*range(16, 32)]


def test_a_number_near_its_value_holds_within_a_factor() -> None:
    trace, (a,) = traced(30)
    assert within_factor(a, 3) == 30 and within_factor(7, 3) == 7 and not trace.fixed
    held = [v for v in range(2, 200) if Values(trace, {0: v}).hold([*trace.guards])]
    assert held == [*range(10, 91)]


def test_numbers_of_numpy_keep_the_symbol() -> None:
    trace, (a,) = traced(30)
    assert np.int64(3) * a == 3 * a and np.int32(3) + a == a + 3 and np.int64(90) // a == 90 // a
    listed = integers([1, a])
    assert symbolic(listed) and (listed * 2)[1] == 2 * a and np.prod([2, a]) == 2 * a
    assert not symbolic(integers([1, 2])) and integers([1, 2]).dtype == np.int64
    assert not trace.fixed


def test_limits_of_polynomials() -> None:
    trace, (a, b) = traced(30, 7)
    assert isinstance(a, Extent) and isinstance(b, Extent)
    least, most = trace.bounds.least, trace.bounds.most
    assert least((a + b).terms) == 4 and most((5 - a).terms) == 3
    assert (least((a - b).terms) or 0) < 0 and least((a * a - b).terms)
    assert least((a * b - a).terms) == 2


def test_guards_narrow_the_bounds() -> None:
    trace, (a, b) = traced(30, 7)
    assert a > 9 and b != 2 and a * b > 3 * a + 5
    count = len(trace.guards)
    assert a > 5 and b > 2 and a * b > 3 * a and (a - 8) * (b - 2) >= 1 and a != 9
    assert len(trace.guards) == count
    assert a // 40 == 0 and a < 36 and b == 7 and a // 36 == 0 and b * a == 7 * a
    assert len(trace.guards) == count + 4


def test_a_remainder_below_the_divisor_is_dropped() -> None:
    """Positions on axes follow from element numbers without quotients."""
    trace, (a, b, c) = traced(5, 7, 9)
    plane, row = (b + 2) * (c + 1), c + 1
    corner = 2 * plane + 3 * row + c
    rows, rest = divmod(corner, plane)
    assert rows is not None and b >= 2 and (rows, rest // row, rest % row) == (2, 3, c)
    assert -(-corner // plane) == 3 and (a * plane - row) // plane == a - 1
    assert -((row - a * plane) // plane) == a and not trace.known.keys() - {
        ("in", k, ()) for k in range(3)
    }


def test_extremes_of_extremes() -> None:
    trace, (a, b) = traced(30, 40)
    least = smaller(a, b)
    assert smaller(least, a) is least and smaller(b, least) is least
    most = larger(a, b)
    assert larger(most, b) is most and larger(a, most) is most and larger(least, most) is not least
    assert not trace.guards


def test_work_does_not_grow_with_the_steps() -> None:
    """Numbers of many factors and terms stay short, and right for other values."""
    chance = random.Random(4)
    trace, symbols = traced(5, 6, 7, 8, 9, 10)
    found, there = list(symbols), [11, 2, 3, 5, 4, 6]
    values = Values(trace, dict(enumerate(there)))
    for _ in range(300):
        k, j, i = (chance.randrange(max(0, len(found) - 12), len(found)) for _ in range(3))
        made, wanted = (
            (n[k] + 1) * (n[j] - 3) // (n[i] * n[i] + 2) - 2 * n[j] for n in (found, there)
        )
        if max(abs(example(made)), abs(wanted)) < 1 << 20:
            found.append(made)
            there.append(wanted)
    numbers = [number for number in found if isinstance(number, Extent)]
    assert len(numbers) > 80 and all(is_short(number.terms) for number in numbers)
    assert any(atom.op == "quotient" and atom.b == ONE for atom in trace.atoms)
    assert values.hold(trace.conditions) and [*map(values.of, found)] == there


def test_a_quotient_by_zero_does_not_hold() -> None:
    trace, (a, b) = traced(30, 7)
    assert 60 // (a - b) == 60 // (a - b)
    guard = Guard("ge", (60 // (a - b)).terms)  # type: ignore[attr-defined]
    assert Values(trace, {0: 9, 1: 8}).hold([guard])
    assert not Values(trace, {0: 8, 1: 8}).hold([guard])


def test_an_exact_quotient_does_not_hold_for_a_divisor_of_zero() -> None:
    trace, (a, b) = traced(5, 7, limits=INTEGERS)
    heuristic(lambda: a * b // b)()
    assert not trace.guards
    assert (a * b // b).terms == a.terms  # type: ignore[attr-defined]
    assert Values(trace, {0: 5, 1: -3}).hold(trace.conditions)
    assert not Values(trace, {0: 5, 1: 0}).hold(trace.conditions)
    trace, (a, b) = traced(5, 7)
    assert (a * b // b).terms == a.terms  # type: ignore[attr-defined]
    assert not trace.guards


def test_slices_are_those_of_python() -> None:
    chance = random.Random(1)
    for _ in range(3000):
        ends = [chance.choice([None, *range(-9, 10)]) for _ in range(2)]
        given, extent = (
            slice(*ends, chance.choice([None, -3, -2, -1, 1, 2, 3])),
            chance.randint(0, 7),
        )
        assert sliced(given, extent) == given.indices(extent)


def test_what_numbers_are() -> None:
    _, (a,) = traced(30)
    assert integer(a) is a and integer(np.int8(3)) == 3
    assert integer(np.float32(-1.5)) == -1
    assert is_integer(a) and is_integer(np.int8(1)) and is_integer(3)
    assert not is_integer(True) and not is_integer(1.0)
    assert is_symbolic((1, a)) and not is_symbolic((1, 2))
    assert always_divides(4, 8 * a + 4) and not always_divides(4, 2 * a)
    assert always_divides(4, 8) and not always_divides(4, 6)
    assert i32(a) == Word(a, "i32") and i32(3) == np.int32(3) and f32(a) == Word(a, "f32")
    assert f32(3) == 3.0 and example(i32(a + 1)) == 31 and example(5) == 5


def test_keys_of_equal_numbers_are_equal() -> None:
    trace, (a, b) = traced(30, 30)
    assert hashed((a, (1, a))) == hashed((a + 0, (1, a * 1))) and hashed(a) != hashed(b)
    assert hashed((1, 2)) == (1, 2) and not trace.fixed and not trace.guards


def test_numbers_are_within_limits() -> None:
    trace, (a,) = traced(30)
    assert in_range(np.array([1, 5]), 1, 5) and in_range(np.array([], np.int64), 3)
    assert not in_range(np.array([1, 5]), 2) and not in_range(np.array([1, 5]), None, 4)
    assert in_range(integers([a, 2]), 2) and not trace.guards
    assert in_range(integers([a, 2]), 2, 31) and not in_range(integers([a, 2]), None, 29)
    assert len(trace.guards) == 2


def test_the_cache_of_kernels_keeps_no_trace() -> None:
    """It compares variants with those of other plans, to whose traces a guard would be added."""
    trace, (n,) = traced(5)
    number, (one, (other, name)) = kernels.frozen([n, [1, (n, "x")]])  # type: ignore[misc]
    assert [type(part) for part in (number, one, other, name)] == [int, int, int, str]
    assert (number, other) == (5, 5)
    assert trace.guards.keys() == {Guard("eq", (n - 5).terms)}  # type: ignore[attr-defined]
