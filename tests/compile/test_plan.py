"""Tests plans as data: what a weight packs to, and when two plans are equal. No device is
needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.cache import codec
from tflgpu_plugin.ir import Array, Buffer, Forgotten, Pipeline, Plan, Symbols, Weight, contents
from tflgpu_plugin.ir.digests import of_array

DATA = np.arange(6, dtype=np.float64).reshape(2, 3)


def weight(data: Any, size: int, half: bool = False) -> Weight:
    return Weight((3, "rows"), 0, 0, size, lambda: data, half=half)


@pytest.mark.parametrize(
    ("given", "bytes_wanted"),
    [
        (weight(DATA, 24), DATA.astype(np.float32).tobytes()),
        (weight(DATA, 12, half=True), DATA.astype(np.float16).tobytes()),
        (weight(DATA.astype(np.uint8), 6), bytes(range(6))),
        (weight([DATA[:1], DATA[1:]], 24), DATA.astype(np.float32).tobytes()),
        (weight([DATA[:, 0], np.uint8([7, 8])], 10), np.float32([0, 3]).tobytes() + b"\7\10"),
        (weight(DATA.T, 24), DATA.T.astype(np.float32).tobytes()),
    ],
)  # fmt: skip
def test_what_a_weight_packs_to(given: Weight, bytes_wanted: bytes) -> None:
    image = given.image()
    assert image.dtype == np.uint8 and image.tobytes() == bytes_wanted


@pytest.mark.parametrize("size", [20, 28])
def test_a_weight_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=rf"constant .* packs to 24 bytes, not {size}"):
        weight(DATA, size).image()


def test_no_more_than_there_is_room_for_is_given() -> None:
    def parts() -> Iterator[Array]:
        for k in range(4):
            yield np.full(4, k, np.uint8)

    found = Weight((0,), 0, 0, 8, parts).pieces()
    assert [list(next(found)) for _ in range(2)] == [[0] * 4, [1] * 4]
    with pytest.raises(ValueError, match="packs to 12 bytes, not 8"):
        next(found)


def plan(**fields: Any) -> Plan:
    empty = Plan((), (Buffer("pool", 8),), (), b"", (), (), (), ())
    return replace(empty, **fields)


def test_equal_plans_are_those_of_equal_parts_but_for_values() -> None:
    one = Weight((5, "rows"), 0, 0, 24, data=DATA)
    base = plan(weights=(one,))
    assert base.structure == plan(weights=(replace(one, data=DATA + 1),)).structure
    changes = ({"uniforms": b"1"}, {"buffers": (Buffer("pool", 16),)},
               {"pipelines": (Pipeline("a", "b", "u"),)}, {"symbols": symbols()},
               {"symbols": symbols(guards=[(1, 1)])}, {"weights": (one,)})  # fmt: skip
    found = {plan(**change).structure for change in changes}
    assert len(found) == 6 and plan().structure not in found


def symbols(**changed: Any) -> Symbols:
    tables = {"places": [(1, 0)], "constants": [7], "formulas": [(0, 0, 1)], "guards": [(0, 1)],
              "words": [(16, 2, 1)], "groups": [(0, 2, 2, 1)], "sizes": [(1, 2)],
              "extents": [(1, 2)]}  # fmt: skip
    return Symbols(1, **{name: np.array(table) for name, table in {**tables, **changed}.items()})


def test_symbols_are_tables_of_what_they_were_given() -> None:
    made, empty = symbols(), np.zeros(0)
    assert made == symbols() and hash(made) == hash(symbols()) and made != "symbols"
    assert made.places.tolist() == [[1, 0]] and made.constants.tolist() == [7]
    assert (made.formulas.dtype, made.constants.dtype) == (np.uint32, np.int64)
    tables = [part.name for part in fields(Symbols) if part.name != "count"]
    assert len({made, *(symbols(**{name: empty}) for name in tables)}) == 9
    assert replace(made, count=2) != made and symbols(words=empty).words.shape == (0, 3)
    assert symbols(constants=[-(1 << 63)]).constants[0] == -(1 << 63)
    for number in (-1, 1 << 32):
        with pytest.raises(ValueError, match="a number of the sizes is not a uint32"):
            symbols(sizes=[(0, number)])


def test_symbols_are_stored_with_their_plan() -> None:
    made = plan(symbols=symbols())
    again = codec.decode(Plan, json.loads(json.dumps(codec.encode(made))))
    assert again == made and again.symbols == symbols()
    assert codec.decode(Plan, codec.encode(plan())).symbols is None


def test_a_weight_is_known_by_its_values_and_layout_whatever_its_tensor() -> None:
    one = Weight((5, "rows"), 0, 16, 24, data=DATA)
    same = replace(one, key=(6, "rows"), buffer=1, offset=0)
    stored = replace(one, data=None, digest=of_array(DATA))
    assert one.identity == same.identity == stored.identity == one.forgotten().identity
    others = ({"key": (5, "blocks")}, {"key": ("rows",), "half": True}, {"bytes": 12},
              {"half": True}, {"data": DATA + 1}, {"data": DATA.reshape(3, 2)},
              {"data": DATA.astype(np.float32)}, {"key": ("table", 1)})  # fmt: skip
    assert len({one.identity, *(replace(one, **other).identity for other in others)}) == 8
    with pytest.raises(ValueError, match="unknown"):
        print(replace(one, data=None).identity)


def test_contents_of_a_buffer_are_its_weights_their_places_and_origin() -> None:
    one = Weight((5, "rows"), 0, 0, 24, data=DATA)
    two = replace(one, offset=32)
    moved = replace(two, offset=48)
    found = [contents(some) for some in ([], [one], [two], [one, two], [one, moved])]
    assert len({*found, contents([one], b"file"), contents([one], b"other")}) == 7
    assert contents([replace(one, buffer=3)]) == contents([one])
    some = plan(weights=(one, replace(one, buffer=2), two))
    assert some.weights_by_buffer() == {0: [one, two], 2: [replace(one, buffer=2)]}


def test_values_that_are_not_kept_cannot_be_packed() -> None:
    left = plan(weights=(Weight((5, "rows"), 0, 0, 24, lambda: DATA, DATA),)).without_constants()
    assert left.weights[0].data is None
    with pytest.raises(Forgotten, match="no longer in memory"):
        left.weights[0].image()


def test_sizes_are_those_of_the_buffers() -> None:
    made = plan(buffers=tuple(Buffer(*e) for e in (("pool", 8), ("weights", 32), ("pool", 4))))
    assert (made.bytes_of("weights"), made.bytes_of("pool"), made.bytes_of("input")) == (32, 12, 0)


def test_equal_code_has_an_equal_name() -> None:
    one = Pipeline("conv", "text", "urw")
    names = {one.name, replace(one, kinds="uww").name, replace(one, wgsl="").name}
    assert len(names) == 3 and one.name == replace(one).name
    label, _, digest = one.name.rpartition("-")
    assert label == "conv" and len(digest) == 8
