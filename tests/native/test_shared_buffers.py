"""Weights of equal bytes are on the device once, in whichever plans; the last one frees them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.harness import device_of
from tests.support.net import Net
from tflgpu_plugin import native
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Graph, Plan
from tflgpu_plugin.native import ffi, lib
from tflgpu_plugin.runtime.device import create
from tflgpu_plugin.runtime.program import Instance, Program

pytestmark = pytest.mark.adapter

FILLED = 1 | 8 | 64  # TG_BUFFER_STORAGE | COPY_DST | FILL_FIRST
SIDE = 160
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    """A new device, which nothing else uses."""
    opened = device_of()
    yield create(opened.info, sorted(opened.target.features))


def held(kind: str = "WEIGHTS") -> int:
    """Returns the bytes of this kind in the process."""
    found = ffi.new("tg_memory *")
    lib.tg_memory_get(found)
    return int(found.bytes[getattr(lib, f"TG_{kind}")])


def filled(device: Any, key: bytes | None = KEY, size: int = 64) -> Any:
    made = native.call(lib.tg_buffer_create, device, size, FILLED, lib.TG_WEIGHTS)
    native.call(lib.tg_buffer_filled, made, key or ffi.NULL)
    return made


def found(device: Any, key: bytes = KEY) -> Any:
    return lib.tg_buffer_find(device, key)


def test_a_buffer_is_found_by_its_key_until_its_last_reference_is_released(device: Any) -> None:
    assert found(device) == ffi.NULL
    before, made = held(), filled(device)
    other, none = filled(device, KEY[::-1], 30), filled(device, None)
    assert held() == before + 64 + 32 + 64
    assert found(device) == made and found(device, KEY[::-1]) == other
    assert found(device, bytes(32)) == ffi.NULL and found(device_of().handle) == ffi.NULL
    for buffer in (made, other, other, none):
        lib.tg_buffer_release(buffer)
    assert held() == before + 64 and found(device, KEY[::-1]) == ffi.NULL
    assert found(device) == made
    lib.tg_buffer_release(made)
    lib.tg_buffer_release(made)
    assert held() == before and found(device) == ffi.NULL


def test_any_of_several_may_be_released_first(device: Any) -> None:
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        keys = [bytes([n] * 32) for n in range(3)]
        made = [filled(device, key) for key in keys]
        for place, n in enumerate(order):
            lib.tg_buffer_release(made[n])
            for k in range(3):
                left = found(device, keys[k])
                assert left == (ffi.NULL if k in order[: place + 1] else made[k])
                lib.tg_buffer_release(left)


def test_threads_find_make_and_release_one_buffer(device: Any) -> None:
    before = held()

    def turns(number: int) -> None:
        for _ in range(300):
            taken = found(device)
            lib.tg_buffer_release(taken if taken else filled(device))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(turns, range(4)))
    assert held() == before and found(device) == ffi.NULL


def layers(rows: int, last: float = 1.0) -> Graph:
    """Two dense layers; `last` is a number of the second one's weights."""
    net = Net()
    x = net.input((rows, SIDE))
    for k in range(2):
        weights = np.random.default_rng(k).standard_normal((SIDE, SIDE)).astype(np.float32)
        weights[-1, -1] = last if k else 1
        bias = net.constant(np.full(SIDE, k, np.float32))
        x = net.op("fully_connected", x, net.constant(weights), bias, activation="none")
    return net.graph(x)


def plan(graph: Graph) -> Plan:
    return compiler.compile(graph, device_of().target)


def run(program: Program, rows: int) -> Any:
    values = np.random.default_rng(9).standard_normal((rows, SIDE)).astype(np.float32)
    return Instance(program).run([values])[0]


def test_plans_for_other_shapes_share_weights_and_differ_where_weights_do(device: Any) -> None:
    before = held()
    first = Program(plan(layers(4)), device)
    alone = held() - before
    assert alone >= 2 * 4 * SIDE * SIDE
    more = [Program(plan(layers(rows)), device) for rows in (4, 6)]
    assert held() - before == alone
    other = Program(plan(layers(4, 2.0)), device)
    assert 4 * SIDE * SIDE <= held() - before - alone < 5 * SIDE * SIDE
    answers = [run(program, 4) for program in (first, more[0], other)]
    np.testing.assert_array_equal(answers[0], answers[1])
    assert np.abs(answers[0] - answers[2]).max() > 0
    np.testing.assert_array_equal(run(more[1], 6).shape, (6, SIDE))
    del first, more
    gc.collect()
    assert held() - before == alone
    np.testing.assert_array_equal(run(other, 4), answers[2])
    del other
    gc.collect()
    assert held() == before


def test_weights_are_not_packed_where_the_device_has_them(device: Any) -> None:
    first = Program(plan(layers(4)), device)
    again = Program(first.plan, device)  # whose values are no longer in memory
    np.testing.assert_array_equal(run(first, 4), run(again, 4))
    left = first.plan
    del first, again
    gc.collect()
    with pytest.raises(ValueError, match="no longer in memory"):
        Program(left, device)


def test_programs_of_other_origins_do_not_share(device: Any) -> None:
    """Their digests are claims of a file."""
    before, made = held(), plan(layers(4))
    weights = tuple(replace(w, digest=w.values[::-1]) for w in made.weights)
    programs = [Program(made, device)]
    each = held() - before
    for origin, count in ((b"file", 2), (b"file", 2), (b"other file", 3), (b"", 4)):
        programs.append(Program(replace(made, weights=weights), device, origin=origin))
        assert held() - before == count * each, origin


def test_weights_that_are_found_damaged_are_never_found_again(device: Any) -> None:
    before, made = held(), plan(layers(4))

    def damaged() -> None:
        raise RuntimeError("damaged")

    with pytest.raises(RuntimeError, match="damaged"):
        Program(made, device, checking=damaged)
    gc.collect()
    assert held() == before
    weights = tuple(replace(w, digest=w.values) for w in made.weights)
    with pytest.raises(ValueError, match="no longer in memory"):
        Program(replace(made, weights=weights).without_constants(), device)


def test_threads_that_make_equal_programs_make_their_weights_once(device: Any) -> None:
    before, packed = held(), list[object]()

    def counted(weight: Any) -> Any:
        def pack() -> Any:
            packed.append(weight.key)
            return weight.pack()

        return replace(weight, pack=pack)

    made = plan(layers(4))
    each = replace(made, weights=tuple(map(counted, made.weights)))
    with ThreadPoolExecutor(6) as pool:
        programs = list(pool.map(lambda _: Program(each, device), range(12)))
    assert sorted(map(repr, packed)) == sorted(repr(weight.key) for weight in made.weights)
    del programs
    gc.collect()
    assert held() == before
