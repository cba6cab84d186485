"""Tests the loops and multiply-adds of a SPIR-V shader that is written here word by word."""

from __future__ import annotations

import struct

import pytest

from benchmarks.compiled.spirv import Module, Ran, ran
from benchmarks.compiled.spirv_values import computed

VOID, UINT, FLOAT, VEC4, BOOL, BLOCK, PUSHED, LOCAL, VEC3, INPUT = range(1, 11)
MAIN, INNER, COUNT, UNUSED, PUSH, GROUP, SPEC, ZERO, ONE, SIZE = range(11, 21)
GLSL = 21
BODY = 100  # first of the names in functions


def words(*instructions: tuple[int, ...]) -> bytes:
    found = [0x07230203, 0x10600, 0, 500, 0]
    for code, *given in instructions:
        found += [(len(given) + 1) << 16 | code, *given]
    return struct.pack(f"<{len(found)}I", *found)


def counting(first: int, bound: int, *inside: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns SPIR-V from a block on for: for (k = 0; k < bound; k++) { inside }, which ends in
    block `first` + 4. It uses ids from `first` on."""
    head, body, more, test, after, k, held, moved = range(first, first + 8)
    return [
        (62, k, ZERO), (249, head), (248, head), (61, UINT, held, k),
        (176, BOOL, test, held, bound), (246, after, more, 0), (250, test, body, after),
        (248, body), *inside, (249, more),
        (248, more), (128, UINT, moved, held, ONE), (62, k, moved), (249, head), (248, after),
    ]  # fmt: skip


def shader() -> bytes:
    """Returns a shader with `pushed.count - 1` iterations of: `SPEC` iterations of a fused product
    of four numbers, and a call of a function with two iterations of a product and a sum; none where
    the workgroup's id is 0."""
    count, counter, inner_counter, counter2 = 90, 155, 165, 305
    call = (57, VOID, 91, INNER)
    fused = (12, VEC4, 92, GLSL, 50, 93, 93, 93)
    return words(
        (11, GLSL, 0), (15, 5, MAIN, 0), (16, MAIN, 17, 8, 4, 1),
        (71, SPEC, 1, 7), (71, GROUP, 11, 26), (72, BLOCK, 0, 35, 0), (72, BLOCK, 1, 35, 4),
        (19, VOID), (20, BOOL), (21, UINT, 32, 0), (22, FLOAT, 32), (23, VEC4, FLOAT, 4),
        (23, VEC3, UINT, 3), (30, BLOCK, UINT, UINT), (32, PUSHED, 9, BLOCK), (32, INPUT, 1, VEC3),
        (59, PUSHED, PUSH, 9), (59, INPUT, GROUP, 1), (43, UINT, ZERO, 0), (43, UINT, ONE, 1),
        (50, UINT, SPEC, 3), (52, UINT, SIZE, 128, ONE, ONE),
        (54, VOID, MAIN, 0, 0), (248, BODY), (59, LOCAL, counter, 7), (59, LOCAL, inner_counter, 7),
        (65, PUSHED, 80, PUSH, ONE), (61, UINT, 81, 80), (130, UINT, count, 81, ONE),
        (61, VEC3, 82, GROUP), (81, UINT, 83, 82, 0), (171, BOOL, 84, 83, ZERO),
        (247, 85, 0), (250, 84, 86, 85), (248, 86),
        *counting(150, count, *counting(160, SPEC, fused), call),
        (249, 85), (248, 85), (253,), (56,),
        (54, VOID, INNER, 0, 0), (248, 299), (59, LOCAL, counter2, 7),
        *counting(300, SIZE, (133, FLOAT, 94, 95, 95), (129, FLOAT, 96, 94, 94)),
        (253,), (56,),
    )  # fmt: skip


def told(found: Ran) -> list[tuple[int, int, int]]:
    return [(loop.depth, loop.entries, loop.rounds) for loop in found.loops]


@pytest.mark.parametrize(("constants", "rounds"), [({}, 3), ({7: 5}, 5), ({8: 5}, 3)])
def test_loops_run_as_constants_and_push_constants_say(
    constants: dict[int, int], rounds: int
) -> None:
    found = ran(Module(shader(), constants), (4, 1, 1), struct.pack("<2I", 99, 5), 32)
    assert told(found) == [(1, 1, 4), (2, 4, 4 * rounds), (2, 4, 8)]
    assert found.products == 4 * rounds * 4 + 8
    assert found.threads == 32


def test_the_group_in_the_middle_is_followed() -> None:
    found = ran(Module(shader(), {}), (2, 1, 1), struct.pack("<2I", 99, 5), 32)
    assert told(found) == [(1, 0, 0), (2, 0, 0), (2, 0, 0)] and found.products == 0


def uniform_shader() -> bytes:
    """Returns a shader with `uniforms.second[1].y` iterations of products; its uniform block, in
    set 1 at binding 2, has a number and, from byte 16 on, two vectors 16 bytes apart."""
    counter, pair, array, two, second = 155, 60, 61, 62, 63
    return words(
        (11, GLSL, 0), (15, 5, MAIN, 0), (16, MAIN, 17, 8, 4, 1),
        (71, PUSH, 34, 1), (71, PUSH, 33, 2), (71, array, 6, 16),
        (72, BLOCK, 0, 35, 0), (72, BLOCK, 1, 35, 16),
        (19, VOID), (20, BOOL), (21, UINT, 32, 0), (22, FLOAT, 32), (23, VEC4, FLOAT, 4),
        (23, pair, UINT, 2), (43, UINT, two, 2), (28, array, pair, two),
        (30, BLOCK, FLOAT, array), (32, PUSHED, 2, BLOCK), (59, PUSHED, PUSH, 2),
        (43, UINT, ZERO, 0), (43, UINT, ONE, 1),
        (54, VOID, MAIN, 0, 0), (248, BODY), (59, LOCAL, counter, 7),
        (65, PUSHED, second, PUSH, ONE, ONE, ONE), (61, UINT, 81, second),
        *counting(150, 81, (12, VEC4, 92, GLSL, 50, 93, 93, 93)),
        (253,), (56,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "content", "rounds"),
    [
        ((1, 2), struct.pack("<f3I4I2I", 1.5, 9, 9, 9, 9, 9, 9, 9, 9, 7), 7),
        ((1, 2), struct.pack("<f3I4I1I", 1.5, 9, 9, 9, 9, 9, 9, 9, 9), 1),  # ends before it
        ((2, 1), struct.pack("<f3I4I2I", 1.5, 9, 9, 9, 9, 9, 9, 9, 9, 7), 1),  # another's
    ],
)
def test_loops_run_as_uniform_buffers_say(
    place: tuple[int, int], content: bytes, rounds: int
) -> None:
    found = ran(Module(uniform_shader(), {}), (1, 1, 1), b"", 32, {place: content})
    assert told(found) == [(1, 1, rounds)]


def test_what_is_not_known_goes_round_once() -> None:
    found = ran(Module(shader(), {}), (4, 1, 1), b"", 32)
    assert told(found) == [(1, 1, 1), (2, 1, 3), (2, 1, 2)]


@pytest.mark.parametrize(
    ("code", "given", "made"),
    [
        (128, (2**32 - 1, 3), 2), (130, (1, 2), 2**32 - 1), (134, (7, 0), None), (134, (7, 2), 3),
        (135, (2**32 - 7, 2), 2**32 - 3), (138, (2**32 - 7, 2), 2**32 - 1), (137, (7, 4), 3),
        (173, (2**32 - 1, 0), False), (172, (2**32 - 1, 0), True), (195, (2**32 - 8, 1), 2**32 - 4),
        (194, (2**32 - 8, 1), 2**31 - 4), (196, (1, 33), 2), (126, (1,), 2**32 - 1),
        (128, ({0: 1, 1: None}, {0: 2, 1: 3}), {0: 3, 1: None}), (128, (1, None), None),
        (169, (True, 5, 6), 5), (169, (None, 5, 6), None), (133, (1, 2), None),
        (169, ({0: False, 1: None}, {0: 5, 1: 5}, {0: 6, 1: 6}), {0: 6, 1: None}),
    ],
)  # fmt: skip
def test_whole_numbers_have_32_bits(code: int, given: tuple[object, ...], made: object) -> None:
    assert computed(code, range(len(given)), dict(enumerate(given)).get) == made


def test_parts_of_composites() -> None:
    known = {0: {0: 5, 1: {2: 7}}, 1: 9}
    assert computed(81, (0, 1, 2), known.get) == 7
    assert computed(81, (0, 3), known.get) is None
    assert computed(82, (1, 0, 1, 2), known.get) == {0: 5, 1: {2: 9}}
    assert computed(80, (1, 1), known.get) == {0: 9, 1: 9}
