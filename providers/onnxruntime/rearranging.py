"""Builders for operators that only move elements: reshapes, slices, concatenation, padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import prod

import numpy as np

from tflgpu_plugin.ir import (
    NUMPY_DTYPES,
    WHOLE,
    ImpossibleShapeRefusal,
    Refusal,
    ShapeRefusal,
    always_equal,
    asks,
    from_front,
    integer,
    is_symbolic,
    larger,
    needs,
    sliced,
    smaller,
)
from tflgpu_plugin.providers import COUNTED, Builder

TO_THE_END = (2**31 - 1, 2**63 - 1)  # ends of a Slice that mean the rest of the axis


def same(e: Builder) -> int:
    """Builds Identity."""
    return e.reshape(e.x(), e.shape()) if e.elements(e.x()) is None else e.x()


def dropout(e: Builder) -> list[int | None]:
    """Builds Dropout in inference: the input, and a mask of what is kept. Before opset 12, all of
    onnxruntime's mask is 0."""
    mask = e.host.outputs[1] if e.wants(1) else None
    if mask is None:
        return [same(e), None]
    kept = e.const(e.version >= 12, NUMPY_DTYPES[e.values[mask].dtype])
    return [same(e), e.add("expand", kept, e.index(e.shape()))]


def reshape(e: Builder) -> int:
    return e.reshape(e.x(), wanted(e))


def wanted(e: Builder) -> list[int]:
    """Returns the shape of a Reshape: 0 keeps an extent unless allowzero is set."""
    shape, stated = e.shape(), [integer(n) for n in e.value(1).reshape(-1)]
    if e.integer("allowzero"):
        return stated
    return [shape[k] if n == 0 and k < len(shape) else n for k, n in enumerate(stated)]


def flatten(e: Builder) -> int:
    shape, axis = e.shape(), e.integer("axis", 1)
    return e.reshape(e.x(), (prod(shape[:axis]), prod(shape[axis:])))


def _squeezed(e: Builder) -> set[int]:
    """Returns the axes that Squeeze removes: by default all of extent 1."""
    shape, axes = e.shape(), e.listed("axes", 1)
    if axes is None:
        axes = tuple(k for k, extent in enumerate(shape) if extent == 1)
    return {e.axis(axis, len(shape)) for axis in axes}


def squeeze(e: Builder) -> int:
    gone = _squeezed(e)
    return e.reshape(e.x(), [n for k, n in enumerate(e.shape()) if k not in gone])


def unsqueeze(e: Builder) -> int:
    shape, axes = e.shape(), e.listed("axes", 1)
    assert axes is not None
    rank = len(shape) + len(axes)
    new = {e.axis(axis, rank) for axis in axes}
    old = iter(shape)
    return e.reshape(e.x(), [1 if k in new else next(old) for k in range(rank)])


def transpose(e: Builder) -> int:
    return e.add("transpose", e.x(), perm=order(e))


def order(e: Builder) -> tuple[int, ...]:
    """Returns the permutation of a Transpose, by default all axes reversed."""
    return e.integers("perm") or tuple(range(e.rank()))[::-1]


def cut(e: Builder, x: int, ranges: Sequence[slice]) -> int:
    """Returns `x[ranges]`, one Python slice per axis."""
    bounds = [sliced(wanted, n) for wanted, n in zip(ranges, e.shape(x), strict=True)]
    begin, end, step = zip(*bounds, strict=True) if bounds else ((), (), ())
    # A negative end before the first element would count from the end of the axis.
    mask = sum(1 << axis for axis, stop in enumerate(end) if stop < 0)
    return e.add("strided_slice", x, *map(e.index, (begin, end, step)), end_mask=mask)


def part(e: Builder, x: int, start: int, stop: int, axis: int = -1) -> int:
    """Returns the elements from `start` to `stop` (exclusive) of one axis of `x`."""
    ranges = [slice(None)] * e.rank(x)
    ranges[axis] = slice(start, stop)
    return cut(e, x, ranges)


def parts(e: Builder, x: int, sizes: Iterable[int], axis: int = -1) -> Iterator[int]:
    """Yields adjacent slices of `axis` with these extents. Each is added to the graph only when it
    is taken from the iterator."""
    start = 0
    for size in sizes:
        yield part(e, x, start, start + size, axis)
        start += size


def edges(e: Builder) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
    """Returns (starts, ends, axes, steps) of a Slice."""
    starts, ends = (e.listed(name, 1 + k) or () for k, name in enumerate(("starts", "ends")))
    axes, steps = e.listed("axes", 3), e.listed("steps", 4)
    axes = tuple(range(len(starts))) if axes is None else axes
    return starts, ends, axes, (1,) * len(starts) if steps is None else steps


def bounded(start: int, end: int, step: int, extent: int) -> slice:
    """Returns the Python slice that equals a Slice-13 of one axis. Negative bounds count from the
    end. Bounds are then clamped, with a negative step to existing elements, where Python would
    begin before the first one. An end in TO_THE_END means the rest of the axis also with a negative
    step, as in onnxruntime's kernel."""
    if step > 0 and any(always_equal(end, most) for most in TO_THE_END):
        end = extent  # for extents of which no bound is known
    elif step < 0 and end in TO_THE_END:
        end = -extent - 1
    lowest, highest = (0, extent) if step > 0 else (-1, extent - 1)
    start = smaller(larger(from_front(start, extent), 0), highest)
    end = smaller(larger(from_front(end, extent), lowest), highest)
    return slice(start, None if end < 0 else end, step)


def slices(e: Builder) -> int:
    x = e.x()
    rank = e.rank(x)
    ranges = [slice(None)] * rank
    for start, end, axis, step in zip(*edges(e), strict=True):
        at = e.axis(axis, rank)
        ranges[at] = bounded(start, end, step, e.shape(x)[at])
    return cut(e, x, ranges)


def joined(e: Builder, given: Sequence[int], axis: int = 0) -> int:
    """Returns the tensors `given` concatenated along `axis`; a single one unchanged."""
    return given[0] if len(given) == 1 else e.add("concat", *given, axis=axis)


def _split(e: Builder) -> tuple[int, Sequence[int]]:
    """Returns (axis, extents of the parts) of a Split. Without a split input the parts are equal;
    from opset 18 on the last one may be smaller."""
    axis, sizes = e.axis(e.integer("axis"), e.rank()), e.listed("split", 1)
    count = len(e.host.outputs)
    if sizes is not None:
        return axis, sizes
    extent = e.shape()[axis]
    if e.version < 18:
        return axis, [extent // count] * count
    each = -(-extent // count)
    return axis, [*[each] * (count - 1), extent - (count - 1) * each]


def split(e: Builder) -> list[int]:
    """Builds Split: one slice per output."""
    axis, sizes = _split(e)
    return [*parts(e, e.x(), sizes, axis)]


def _padded(e: Builder) -> tuple[Sequence[int], Sequence[int]]:
    """Returns (axes, pads) of a Pad; pads are the amounts before each axis, then after each."""
    axes = e.listed("axes", 3)
    return range(e.rank()) if axes is None else axes, e.listed("pads", 1) or ()


def pads(e: Builder) -> list[tuple[int, int]]:
    """Returns the pads before and after each axis; negative ones crop it."""
    axes, amounts = _padded(e)
    pairs = [(0, 0)] * e.rank()
    for axis, *pair in zip(axes, amounts, amounts[len(axes) :], strict=False):
        pairs[e.axis(axis, e.rank())] = pair[0], pair[1]
    return pairs


def pad(e: Builder) -> int:
    """Builds Pad; negative pads crop first. A tensor without elements becomes padding alone."""
    mode, x, pairs = e.text("mode", "constant"), e.x(), pads(e)
    if any(amount < 0 for pair in pairs for amount in pair):
        sides = zip(pairs, e.shape(x), strict=True)
        x = cut(e, x, [slice(larger(0, -b), n - larger(0, -a)) for (b, a), n in sides])
        pairs = [(larger(before, 0), larger(after, 0)) for before, after in pairs]
    table = e.index(np.array(pairs, object if is_symbolic(chain(*pairs)) else np.int64))
    if mode == "constant" and e.has(2) and not e.known(e.x(2)):
        return _padded_in_a_run(e, x, table)
    filling = e.const(e.scalar(2, "value", 0.0))
    if e.dtype(x) in WHOLE:
        filling = e.x(2) if e.has(2) else e.const(0, np.int32)
    if mode == "constant" and 0 in e.shape(x) and e.dtype(x) in (*WHOLE, "f32"):
        shape = [b + n + a for (b, a), n in zip(pairs, e.shape(x), strict=True)]
        return e.add("expand", filling, e.index(shape))
    return e.add("pad", x, table, filling, mode=mode)


def _padded_in_a_run(e: Builder, x: int, table: int) -> int:
    """Returns `x` padded with a value that is known only in a run: it replaces padding with
    zeros."""
    ones = e.add("expand", e.const(np.ones((1,) * e.rank(x))), e.index(e.shape(x)))
    within = e.add("equal", e.add("pad", ones, table, 0.0, mode="constant"), 1.0, dtype="bool")
    zero = e.const(0, np.int32 if e.dtype(x) in WHOLE else np.float32)
    y = e.add("pad", x, table, zero, mode="constant")
    return e.add("where", within, y, e.x(2), dtype=e.dtype(x))


def crop(e: Builder) -> int:
    """Builds the deprecated operator Crop: border (left, top, right, bottom), or a scale (height,
    width)."""
    x = e.x()
    shape = e.shape(x)
    left, top, right, bottom = e.integers("border") or (0, 0, 0, 0)
    scale = e.integers("scale")
    height, width = scale or (shape[2] - top - bottom, shape[3] - left - right)
    ranges = [slice(None), slice(None), slice(top, top + height), slice(left, left + width)]
    return cut(e, x, ranges)


# ---- conditions ----------------------------------------------------------------------------------


@asks("attribute.invalid")
def named(e: Builder) -> bool:
    """Requires axes, each named once."""
    axes = e.listed("axes", 1)
    return axes is not None and len({n % (e.rank() + len(axes)) for n in axes}) == len(axes)


KEPT = needs(
    "shape.mismatch",
    "No 0 in the shape for an axis beyond the input's rank.",
    lambda e: bool(e.integer("allowzero")) or 0 not in e.value(1).reshape(-1)[e.rank() :],
    kind=ImpossibleShapeRefusal,
)


@asks("shape.mismatch", kind=ImpossibleShapeRefusal)
def left_open(e: Builder) -> bool:
    """Requires no shape with both -1 and 0."""
    return not (-1 in wanted(e) and 0 in wanted(e))


ORDERED = needs(
    "attribute.invalid",
    "A perm that is a permutation of all axes.",
    lambda e: sorted(order(e)) == [*range(e.rank())],
)


FLAT = needs(
    "shape.mismatch",
    "Shapes, axes, starts, ends and steps in vectors.",
    lambda e: all(len(e.shape(e.x(k))) == 1 for k in e.row.deciding if e.has(k)),
)


@asks("attribute.invalid")
def edged(e: Builder) -> bool:
    """Requires starts, ends, axes and steps of equal length, each axis once, and no step of 0."""
    *_, axes, steps = edges(e)
    once = len({axis % max(e.rank(), 1) for axis in axes}) == len(axes)
    return once and len({*map(len, edges(e))}) == 1 and 0 not in steps


PADS = needs(
    "attribute.invalid",
    "Two pads for each of its axes.",
    lambda e: len(_padded(e)[1]) == 2 * len(_padded(e)[0]),
)


@asks("shape.too_large", kind=ShapeRefusal)
def cropped(e: Builder) -> bool:
    """Requires negative pads that crop at most the extent of an axis, less unless the mode is
    constant."""
    least = int(e.text("mode", "constant") != "constant")
    pairs = zip(e.shape(), pads(e), strict=True)
    return all(n + smaller(b, 0) + smaller(a, 0) >= least for n, (b, a) in pairs)


STORED = needs(
    "constant.required",
    "A constant padding value, in opset 11 or later, if the input is of 8 or 16 bits.",
    lambda e: (
        e.dtype() not in COUNTED
        or (e.version >= 11 and (not e.has(2) or e.constant(e.x(2)) is not None))
    ),
)
AXIS = needs("rank.unsupported", "An input of rank 1 or more.", lambda e: e.rank() >= 1)


def single(e: Builder) -> Refusal | None:
    """Requires squeezed axes of extent 1."""
    shape, gone = e.shape(), _squeezed(e)
    if all(shape[axis] == 1 for axis in gone):
        return None
    return ImpossibleShapeRefusal(
        "shape.mismatch", f"Axes {sorted(gone)} of shape {list(shape)} are not all of extent 1."
    )


def divided(e: Builder) -> Refusal | None:
    """Requires parts whose extents add up to that of the axis; equal parts without a split input,
    of which the last may be smaller from opset 18 on, but not empty."""
    axis, sizes = _split(e)
    equal = e.listed("split", 1) is None
    extent, count = e.shape()[axis], len(e.host.outputs)
    least = 1 if equal and e.version >= 18 else 0
    if len(sizes) == count and sum(sizes) == extent and min(sizes) >= least:
        return None
    if equal:
        return ShapeRefusal(
            "shape.mismatch", f"An extent of {extent} cannot be split into {count} equal parts."
        )
    return ImpossibleShapeRefusal(
        "shape.mismatch", f"Parts of extents {list(sizes)} do not add up to an extent of {extent}."
    )
