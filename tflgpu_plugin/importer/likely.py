"""Guesses likely values of inputs that decide shapes but are known only in a run: axes, shapes,
sizes. The first plan is made for these; a run with other values gets a new plan, as one with other
shapes does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import isqrt, prod
from typing import Any

import numpy as np

from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.model import Value
from tflgpu_plugin.importer.state import MAX_NUMBERS
from tflgpu_plugin.ir import Array, Shape

TYPES = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "bool": np.bool_}
INT32 = np.iinfo(np.int32)
MAX_PIXELS = 1 << 20  # of an image that is guessed, since a plan takes memory for it
REGION = "roi_or_factors"  # a region in newer definitions
Likely = Callable[[Builder, int, Shape | None], Any]  # gives this many numbers for a node


def guess(e: Builder, position: int, value: Value, made: Value) -> Array | None:
    """Returns a likely value of an input of this node, whose first result is `made`; None if values
    from a run are not supported there."""
    result = known_shape(made)
    role, extents = e.row.operands[position].role, known_shape(value)
    likely = LIKELY.get(role)
    if likely is None or value.dtype not in TYPES or extents is None or prod(extents) > MAX_NUMBERS:
        return None
    return np.array(likely(e, prod(extents), result), TYPES[value.dtype]).reshape(extents)


def known_shape(value: Value) -> Shape | None:
    """Returns the shape of a value, None if an extent is open."""
    extents = tuple(n for n in value.shape or () if isinstance(n, int))
    return extents if value.shape is not None and len(extents) == len(value.shape) else None


def _axes(e: Builder, count: int, result: Shape | None) -> Sequence[int]:
    """Returns axes that give the result. If none do, returns axes with one element first, which
    some operators require."""
    shape = e.shape()
    rank = max(len(shape), len(result or ()), count)
    ordered = sorted(range(rank), key=lambda axis: shape[axis : axis + 1] != (1,))
    chosen = [sorted(axes) for axes in combinations(ordered, count)]
    fitting = (axes for axes in chosen if result == _along(shape, axes, len(result or ())))
    return next(fitting, chosen[0])


def _along(shape: Shape, axes: Sequence[int], rank: int) -> Shape:
    """Returns the shape with these axes added, removed, or reduced to one element."""
    if rank > len(shape):
        rest = iter(shape)
        return tuple(1 if axis in axes else next(rest, 0) for axis in range(rank))
    if rank < len(shape):
        return tuple(n for axis, n in enumerate(shape) if axis not in axes)
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def _axis(e: Builder, count: int, result: Shape | None) -> list[int]:
    """Returns an axis with several elements if there is one."""
    return [next((k for k, extent in enumerate(e.shape()) if extent > 1), 0)] * count


def _shape(e: Builder, count: int, result: Shape | None) -> Shape:
    """Returns a shape of `count` axes: the result's if it is known and has as many, else the
    input's, with leading axes of 1 added or its last axes merged into one."""
    if result is not None and len(result) == count:
        return result
    shape = e.shape()
    if count >= len(shape):
        return (*[1] * (count - len(shape)), *shape)
    return (*shape[: count - 1], prod(shape[count - 1 :]))[:count]


def _image(e: Builder, count: int, result: Shape | None) -> Shape:
    """Returns the extents of the first value behind its batch."""
    return (*e.of("value")[1 : 1 + count], *[1] * count)[:count]


def _split(e: Builder, count: int, result: Shape | None) -> list[int]:
    held = next(
        (e.constant(e.x(k)) for k, o in enumerate(e.row.operands) if o.role == "axis"), None
    )
    axis = e.integer("axis") if held is None else int(held.reshape(-1)[0])
    shape = e.of("value")
    extent = shape[e.axis(axis, len(shape))]
    return [extent // count] * (count - 1) + [extent - extent // count * (count - 1)]


def _largest(e: Builder, count: int, result: Shape | None) -> list[int]:
    return [result[e.integer("axis", -1)] if result else 1] * count


def _keys(e: Builder, count: int, result: Shape | None) -> list[int]:
    """Returns the number of keys that fill a past with room for the new ones, else that of both."""
    at, new = e.row.taken.index("past"), (*e.shape()[1:2], 1)[0]
    room = (*e.shape(e.x(at))[2:3], 0)[0] if e.has(at) else 0
    return [room if room >= new else room + new] * count


def _ratio(e: Builder, count: int, result: Shape | None) -> list[float]:
    """Returns the ratios of the result's extents to those of the input's last axes."""
    if result is None or count != e.rank() or 0 in e.shape():
        return [1] * count
    return [made / given for made, given in zip(result, e.shape(), strict=True)]


def _region(e: Builder, count: int, result: Shape | None) -> Sequence[float]:
    """Returns the region that is the whole input; in older definitions the factors."""
    if e.version <= 10:
        return _ratio(e, count, result)
    return [0] * (count // 2) + [1] * (count - count // 2)


def _extents(e: Builder, count: int, result: Shape | None) -> Sequence[int]:
    """Returns the extents of the result behind its channels; of an unknown one those that blocks of
    one element fill."""
    if result is not None:
        return (*result[2 : 2 + count], *[1] * count)[:count]
    windows = _windows(e, count)
    for places in _factors(e.shape()[-1], count) if windows else ():
        pairs = zip(places, windows, strict=True)
        found = [(n - 1) * step + 1 - padded for n, (padded, step, _) in pairs]
        if min(found) > 0 and prod(found) <= MAX_PIXELS:
            return found
    return [1] * count


def _block(e: Builder, count: int, result: Shape | None) -> Sequence[int]:
    """Returns the first block with as many elements as each channel of the result has rows, and as
    many positions in it as there are columns."""
    windows = _windows(e, count)
    if not windows or result is None or len(result) < 2 or not result[1]:
        return [1] * count
    image = _extents(e, count, result)
    for block in _factors(e.shape()[1] // result[1], count):
        each = zip(image, block, windows, strict=True)
        places = ((n + padded - apart * (k - 1) - 1) // step + 1
                  for n, k, (padded, step, apart) in each)  # fmt: skip
        if prod(places) == e.shape()[-1]:
            return block
    return [1] * count


def _windows(e: Builder, count: int) -> list[tuple[int, int, int]]:
    """Returns the padding, stride and dilation of each axis; nothing if the node is malformed."""
    pads, steps, apart = (
        e.integers(name) or (usual,) * many
        for name, usual, many in (
            ("pads", 0, 2 * count),
            ("strides", 1, count),
            ("dilations", 1, count),
        )
    )
    padded = [a + b for a, b in zip(pads[:count], pads[count:], strict=False)]
    found = [*zip(padded, steps, apart, strict=False)]
    return found if len(found) == count and e.rank() == 3 and min(steps) > 0 else []


def _factors(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yields the ways to write a number as a product of `count` factors."""
    if count == 1:
        yield (number,)
        return
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    for first in sorted({*small, *(number // n for n in small)}):
        yield from ((first, *rest) for rest in _factors(number // first, count - 1))


def _first(e: Builder, count: int, result: Shape | None) -> list[int]:
    """Returns the first number of a range that has one, or as many as the result."""
    return [_known(e, 1, _distance(e, result)) - _distance(e, result)] * count


def _limit(e: Builder, count: int, result: Shape | None) -> list[int]:
    return [_known(e, 0, 0) + _distance(e, result)] * count


def _distance(e: Builder, result: Shape | None) -> int:
    return _known(e, 2, 1) * (result[0] if result else 1)


def _known(e: Builder, position: int, otherwise: int) -> int:
    value = e.constant(e.x(position))
    return otherwise if value is None else int(value.reshape(-1)[0])


def _same(number: float) -> Likely:
    return lambda e, count, result: [number] * count


LIKELY: Mapping[str, Likely] = {
    "axes": _axes,
    "axis": _axis,
    "begin": _same(0),
    "block": _same(1),
    "count": _largest,
    "crops": _same(0),
    "delta": _same(1),
    "end": _same(INT32.max),
    "ends": _same(INT32.max),
    "extents": _extents,
    "factors": _ratio,
    "first": _first,
    "kernel": _block,
    "keys": _keys,
    "length": _same(-1),
    "limit": _limit,
    "paddings": _same(0),
    "pads": _same(0),
    "ratio": _same(0),
    "repeats": _ratio,
    REGION: _region,
    "shape": _shape,
    "size": _image,
    "sizes": _shape,
    "split": _split,
    "start": _same(0),
    "starts": _same(0),
    "steps": _same(1),
    "strides": _same(1),
    "training_mode": _same(0),
}
