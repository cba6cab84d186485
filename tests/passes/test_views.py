"""Tests views against numpy: single views, chains of them, and their axes in memory. Padding is
NaN."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tflgpu_plugin.ir import Array, Shape, geometry
from tflgpu_plugin.ops import movement, views
from tflgpu_plugin.ops.axes import Axis, aligned
from tflgpu_plugin.ops.packing import pack_stored
from tflgpu_plugin.ops.views import View

Rng = np.random.Generator
EXTENTS = (1, 2, 2, 3, 4, 4, 6, 8)


def numbered(shape: Shape) -> Array:
    return np.arange(prod(shape), dtype=np.float32).reshape(shape)


def random_shape(rng: Rng) -> Shape:
    return tuple(int(e) for e in rng.choice(EXTENTS, int(rng.integers(1, 6))))


def transposed(rng: Rng, x: Array) -> tuple[View, Array]:
    perm = tuple(int(axis) for axis in rng.permutation(x.ndim))
    return views.transposed(x.shape, perm), x.transpose(perm)


def reshaped(rng: Rng, x: Array) -> tuple[View, Array]:
    """Joins and splits of axes, or any other shape."""
    shape = list(x.shape)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(shape)))
        if rng.random() < 0.5 and len(shape) > 1:
            at = min(at, len(shape) - 2)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        else:
            inner = int(rng.choice([n for n in range(1, shape[at] + 1) if shape[at] % n == 0]))
            shape[at : at + 1] = [shape[at] // inner, inner]
    return views.identity(tuple(shape)), x.reshape(shape)


def cut(rng: Rng, x: Array) -> tuple[View, Array]:
    parts = []
    for extent in x.shape:
        step = int(rng.choice([1, 1, 1, 2, -1, -2]))
        first, last = sorted(int(n) for n in rng.integers(0, extent, 2))
        if rng.random() < 0.5:
            first, last = 0, extent - 1
        parts.append((first, last + 1, 1) if step > 0 else (last, first - 1, -1))
        parts[-1] = (*parts[-1][:2], step)
    starts = [p[0] for p in parts]
    lengths = [len(range(*p)) for p in parts]
    taken = x
    for axis, part in enumerate(parts):
        taken = taken.take(range(*part), axis=axis)
    return views.region(x.shape, starts, lengths, [p[2] for p in parts]), taken


def padded(rng: Rng, x: Array) -> tuple[View, Array]:
    sides = rng.integers(0, 3, (x.ndim, 2)) * (rng.random((x.ndim, 1)) < 0.4)
    margins = [(int(a), int(b)) for a, b in sides]
    value = float(rng.choice([0.0, 0.0, np.nan]))
    return views.padded(x.shape, margins, value), np.pad(x, sides, constant_values=value)


def repeated(rng: Rng, x: Array) -> tuple[View, Array]:
    repeats = [int(n) for n in rng.choice([1, 1, 2, 3], x.ndim)]
    return views.repeated(x.shape, repeats), np.tile(x, repeats)


def taken(rng: Rng, x: Array) -> tuple[View, Array]:
    rows = {
        axis: rng.integers(0, extent, int(rng.integers(1, 5)))
        for axis, extent in enumerate(x.shape)
        if rng.random() < 0.4
    }
    wanted = x
    for axis, row in rows.items():
        wanted = wanted.take(row, axis=axis)
    return views.taken(x.shape, rows), wanted


MOVES = (transposed, reshaped, cut, padded, repeated, taken)


def same(view: View, x: Array, wanted: Array) -> None:
    assert view.shape == wanted.shape
    assert prod(axis.extent for axis in view.axes) == wanted.size
    np.testing.assert_array_equal(view.of(x), wanted)
    np.testing.assert_array_equal(view.simple.of(x), wanted)


@pytest.mark.parametrize("seed", range(10))
def test_each_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for move in MOVES * 20:
        x = numbered(random_shape(rng))
        view, wanted = move(rng, x)
        same(view, x, wanted)


@pytest.mark.parametrize("seed", range(10))
def test_chains(seed: int) -> None:
    """A view of a view has the values of both in sequence, and most chains are a single view."""
    rng, joined, tried = np.random.default_rng(100 + seed), 0, 0
    for _ in range(150):
        x = numbered(random_shape(rng))
        whole, values = views.identity(x.shape), x
        for _ in range(int(rng.integers(2, 6))):
            step, wanted = MOVES[rng.integers(len(MOVES))](rng, values)
            if wanted.size > 4000:
                break
            found, tried = whole.then(step), tried + 1
            same(step, values, wanted)
            if found is None:
                break
            joined += 1
            same(found, x, wanted)
            whole, values = found, wanted
    assert joined > 0.7 * tried


@pytest.mark.parametrize("seed", range(10))
def test_coordinates(seed: int) -> None:
    """Coordinates on the axes of the input address the same elements."""
    rng = np.random.default_rng(200 + seed)
    for _ in range(100):
        x = numbered(random_shape(rng))
        view, wanted = MOVES[rng.integers(len(MOVES))](rng, x)
        found = views.coordinates(view, x.shape)
        if found is None:
            continue
        strides = views.row_strides(x.shape)
        offset = int(np.dot(found.starts, strides))
        axes = tuple(
            Axis(a.extent, int(np.dot(steps, strides)), a.low, a.high, a.lookup)
            for a, steps in zip(found.axes, found.steps, strict=True)
        )
        same(View(view.shape, axes, offset, view.value), x, wanted)


def test_moves_of_blocks_are_one_view() -> None:
    """Pixel shuffle, its inverse and channel shuffle use no more axes than they need."""
    x = numbered((2, 4, 6, 8))
    parts = views.transposed((2, 4, 6, 2, 2, 2), (0, 1, 3, 2, 4, 5))
    wanted = x.reshape(2, 4, 6, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(2, 8, 12, 2)
    joined = views.identity(x.shape).then(parts)
    assert joined is not None and len(joined.simple.axes) == 4
    np.testing.assert_array_equal(joined.of(x).reshape(wanted.shape), wanted)
    back = joined.then(views.transposed((2, 4, 2, 6, 2, 2), (0, 1, 3, 2, 4, 5)))
    assert back is not None and back.simple.contiguous


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        (views.transposed((2, 3, 4), (2, 0, 1)), views.transposed((4, 2, 3), (1, 2, 0)), True),
        (views.padded((3, 4), [(1, 2), (0, 3)]), views.region((6, 7), (1, 0), (3, 4)), True),
        (views.padded((3, 4), [(1, 2), (0, 3)]), views.region((6, 7), (1, 0), (3, 5)), False),
        (views.region((5,), (4,), (5,), (-1,)), views.region((5,), (4,), (5,), (-1,)), True),
        (views.identity((1, 6)), views.identity((6, 1)), True),
        (views.identity((6,)), views.region((6,), (1,), (5,)), False),
    ],
)
def test_what_goes_back_is_whole(first: View, second: View, whole: bool) -> None:
    joined = first.then(second)
    assert joined is not None and joined.contiguous == whole


def test_other_pad_values_stay_apart() -> None:
    first, second = views.padded((2,), [(1, 1)], 1.0), views.padded((4,), [(1, 0)], 2.0)
    assert first.then(second) is None
    assert first.then(views.padded((4,), [(1, 0)], 1.0)) is not None
    nan = views.padded((2,), [(1, 1)], np.nan)
    joined = nan.then(views.padded((4,), [(0, 1)], np.nan))
    assert joined is not None
    np.testing.assert_array_equal(joined.of(np.ones(2)), [np.nan, 1, 1, np.nan, np.nan])


def stored(data: Array) -> Array:
    """Returns the array in device storage, as a list of vec4."""
    return pack_stored(data, geometry(data.shape)).reshape(-1, 4)


def made(reading: movement.Reading, x: Array, shape: Shape, value: float) -> Array:
    """Returns what gather.wgsl stores, before it clears the lanes past the channels."""
    target, inside = geometry(shape), geometry(x.shape)
    vectors, scalars = stored(x), stored(x).reshape(-1)
    extents = [row[0].extent for row in reading.rows]
    result = np.full((target.vectors, 4), value, np.float32)
    for place in range(4 * target.vectors):
        i, lane = divmod(place, 4)
        if reading.form == "elements":
            q, s = i // target.spatial % target.slices, i % target.spatial
            b = i // (target.spatial * target.slices)
            i = (b * target.spatial + s) * target.channels + 4 * q + lane
            if 4 * q + lane >= target.channels:
                continue
        in_slices = [
            -(-e // 4) if reading.form == "lanes" and k == reading.lane else e
            for k, e in enumerate(extents)
        ]
        at = [int(c) for c in np.unravel_index(i, in_slices)]
        if reading.form == "lanes":
            at[reading.lane] = 4 * at[reading.lane] + lane
        if not all(r[0].low <= c < r[0].stop for r, c in zip(reading.rows, at, strict=True)):
            continue
        looked = [
            c if r[0].lookup is None else int(r[0].lookup[c])
            for r, c in zip(reading.rows, at, strict=True)
        ]
        moved = reading.base + sum(
            r[0].stride * c for r, c in zip(reading.rows, looked, strict=True)
        )
        if reading.form == "vectors":
            result[place // 4, lane] = vectors[moved, lane]
        elif reading.form == "lanes":
            c = reading.channel
            c += sum(r[1].stride * n for r, n in zip(reading.rows, looked, strict=True))
            result[place // 4, lane] = scalars[moved + (c >> 2) * 4 * inside.spatial + (c & 3)]
        else:
            result[place // 4, lane] = x.reshape(-1)[moved]
    return result


@pytest.mark.parametrize("seed", range(10))
def test_readings(seed: int) -> None:
    """The kernel finds every element in device storage in each form."""
    rng, forms = np.random.default_rng(300 + seed), set()
    for _ in range(25):
        x = numbered(random_shape(rng)) + 1
        view, wanted = MOVES[rng.integers(len(MOVES))](rng, x)
        step, values = MOVES[rng.integers(len(MOVES))](rng, wanted)
        joined = view.then(step) if values.ndim <= 5 and values.size < 1500 else None
        if joined is not None:
            view, wanted = joined, values
        if wanted.size > 1500:
            continue
        reading = movement.read(view, geometry(x.shape), geometry(wanted.shape))
        forms.add(reading.form)
        got, there = made(reading, x, wanted.shape, view.value), stored(np.ones_like(wanted)) == 1
        np.testing.assert_array_equal(got[there], stored(wanted)[there])
        if reading.in_place(geometry(x.shape), geometry(wanted.shape)):
            np.testing.assert_array_equal(stored(x), stored(wanted))
    assert forms == {"vectors", "lanes", "elements"}


def test_axes_of_one_element_are_in_no_group() -> None:
    """Axes whose index comes from padding or a list are exempt."""

    def grouped(axes: list[Axis], *extents: int) -> list[list[tuple[int, int]]] | None:
        groups = aligned(axes, extents)
        return groups and [[(axis.extent, axis.stride) for axis in group] for group in groups]

    four, none = Axis(4, 1), Axis(1, 3, 0, 0)
    assert grouped([Axis(1, 9), four, Axis(1)], 4) == [[(4, 1)]]
    assert grouped([none, four], 4) == [[(1, 3), (4, 1)]]
    assert grouped([Axis(2, 4), four], 2, 4) == [[(2, 4)], [(4, 1)]]
    assert grouped([Axis(8, 1)], 2, 4) == [[(2, 4)], [(4, 1)]]
    assert grouped([Axis(6, 1)], 2, 4) is None
