"""Views: for each element of a result, its element in the input, or that it is padding. Ops that
only move data return a `View`; this module composes views and merges axes, `movement` reads through
them on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import accumulate
from math import isnan, prod
from operator import mul
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Array, Shape
from tflgpu_plugin.ir.extent import Extent
from tflgpu_plugin.ir.symbolic import (
    always_equal,
    hashed,
    integer,
    is_symbolic,
    larger,
    may_exceed_one,
    smaller,
)  # fmt: skip
from tflgpu_plugin.ops.axes import Axis, Fold, aligned, halved, merged


@dataclass(frozen=True, eq=False)
class View:
    """A tensor of `shape` whose elements, in row-major order, are those over `axes`, from element
    `offset` of the row-major input on; `value` is that of padding.

    Methods return the view of a further operation on the result, or None if axes cannot express it.
    Shapes are expected to fit."""

    shape: Shape
    axes: tuple[Axis, ...]
    offset: int = 0
    value: float = 0.0

    @property
    def padded(self) -> bool:
        return any(axis.padded for axis in self.axes)

    @cached_property
    def contiguous(self) -> bool:
        """Whether the view has the first elements of the input, in order and without gaps."""
        axes = self.simple.axes
        return self.offset == 0 and len(axes) == 1 and axes[0].straight and axes[0].stride == 1

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Returns a key that is equal for equal views."""
        axes = [(a.extent, a.stride, a.low, a.stop, a.listed) for a in self.simple.axes]
        return tuple(map(hashed, (self.shape, self.offset, self.value, *axes)))

    def by_axis(self, shape: Shape) -> bool:
        """Whether each axis reads along the same axis of an input of this shape, or is
        broadcast."""
        axes = self.one_each
        if axes is None or len(shape) != len(axes):
            return False
        return all(
            always_equal(axis.reach, 0)
            or (axis.stride % stride == 0 and abs(axis.stride) * axis.reach < extent * stride)
            or axis.reach == 0
            for axis, extent, stride in zip(axes, shape, row_strides(shape), strict=True)
        )

    @property
    def one_each(self) -> list[Axis] | None:
        """Returns the view's axes as one per axis of the result; None if some axis of the result
        needs more."""
        groups = aligned(self.axes, self.shape) if self.shape else []
        if groups is None or any(len(group) > 1 for group in groups):
            return None
        return [group[0] if group else Axis(1) for group in groups]

    def margins(self, shape: Shape) -> list[tuple[int, int]] | None:
        """Returns the padding around each axis, if the view is an input of this shape in order,
        surrounded by padding; else None."""
        axes = self.one_each
        if axes is None or len(axes) != len(shape):
            return None
        found = [(axis.low, axis.extent - axis.stop) for axis in axes]
        return found if self.key == padded(shape, found, self.value).key else None

    def reshapes(self, shape: Shape) -> bool:
        """Whether the view has all elements of an input of this shape, in order."""
        return self.contiguous and prod(self.shape) == prod(shape)

    @cached_property
    def simple(self) -> View:
        """Returns the same view over as few axes as possible."""
        rows = merged([(axis,) for axis in self.axes])
        axes = tuple(row[0] for row in rows) or (Axis(1, 1),)
        return View(self.shape, axes, self.offset, self.value)

    def then(self, view: View) -> View | None:
        """Returns the composition of this view with `view`, which is applied to its result; None if
        axes cannot express it."""
        given = self.simple.axes
        if view.reshapes(self.shape):
            return View(view.shape, given, self.offset, self.value)
        if self.contiguous and all(axis.straight for axis in view.axes):
            return View(view.shape, view.axes, view.offset, self.value)
        found = coordinates(view, [axis.extent for axis in given])
        if found is None or (self.padded and view.padded and not _same(self.value, view.value)):
            return None
        axes, offset = list(found.axes), self.offset
        for k, axis in enumerate(axes):
            stride = sum(
                step * own.stride
                for step, own in zip(found.steps[k], given, strict=True)
                if own.lookup is None
            )
            axes[k] = axis.by(stride)
        for k, (own, start) in enumerate(zip(given, found.starts, strict=True)):
            users = [j for j, steps in enumerate(found.steps) if steps[k]]
            if own.straight or len(users) > 1:
                if not own.straight:
                    return None
                offset += start * own.stride
                continue
            if users:
                (j,) = users
                alone = sum(map(bool, found.steps[j])) == 1
                limited = _limited(axes[j], own, start, found.steps[j][k], alone)
                if limited is None:
                    return None
                axes[j] = limited
                offset += start * own.stride if own.lookup is None else 0
                continue
            if not own.low <= start < own.stop:
                axes.append(Axis(1, high=0))
            elif (indices := own.indices) is None:
                offset += start * own.stride
            else:
                offset += int(indices[start]) * own.stride
        value = view.value if view.padded else self.value
        return View(view.shape, tuple(axes), offset, value)

    @cached_property
    def symbolic(self) -> bool:
        """Whether it depends on symbolic extents."""
        numbers = [n for a in self.axes for n in (a.extent, a.stride, a.low, a.stop)]
        folds = (a.lookup for a in self.axes if isinstance(a.lookup, Fold))
        numbers += (n for fold in folds for n in (fold.before, fold.extent))
        return is_symbolic((*self.shape, self.offset, *numbers))

    def of(self, data: Array) -> Array:
        """Returns the result for this input. Raises ValueError for a symbolic view."""
        if self.symbolic:
            raise ValueError("a symbolic view has no elements before a run")
        result = np.full([axis.extent for axis in self.axes], self.value, data.dtype)
        if result.size == 0 or any(axis.low >= axis.stop for axis in self.axes):
            return result.reshape(self.shape)
        first = self.offset + sum(axis.stride * axis.ends[0] for axis in self.axes)
        spans = [axis.ends[1] - axis.ends[0] + 1 for axis in self.axes]
        flat = np.ascontiguousarray(data).reshape(-1)
        steps = [axis.stride * data.itemsize for axis in self.axes]
        found = np.lib.stride_tricks.as_strided(flat[first:], spans, steps, writeable=False)
        for k, axis in enumerate(self.axes):
            if (indices := axis.indices) is not None:
                found = found.take(indices[axis.low : axis.stop] - axis.ends[0], axis=k)
        result[tuple(slice(axis.low, axis.stop) for axis in self.axes)] = found
        return result.reshape(self.shape)


def through(*views: View | None) -> View | None:
    """Returns the composition of all these views; None if one is missing, or axes cannot express
    it."""
    if any(view is not None and view.symbolic for view in views):
        return _through.__wrapped__(*views)  # the cache would keep their trace
    return _through(*views)


@lru_cache(256)  # passes request the same ones in every round
def _through(*views: View | None) -> View | None:
    return reduce(lambda a, b: None if a is None or b is None else a.then(b), views)


def axis_of(axis: int, rank: int) -> int:
    """Returns an axis from 0; a negative one counts from the end. Raises ValueError if out of
    range."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return int(axis) % rank


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the row-major strides of the axes, in elements."""
    return tuple(accumulate((1, *shape[:0:-1]), mul))[::-1] if shape else ()


def _same(a: float, b: float) -> bool:
    return a == b or (isnan(a) and isnan(b))


def _limited(axis: Axis, own: Axis, start: int, step: int, alone: bool) -> Axis | None:
    """Returns `axis` of a view that is applied to another view's result, with the padding and
    lookup of `own`, the axis of the other view that it steps along: its element x is element
    `start + step * x` of `own` (with a lookup, `lookup[x]` in place of x). Returns None if one axis
    cannot express this. `alone`: `axis` steps along no axis but `own`."""
    same = alone and always_equal(start, 0) and step == 1 and axis.straight
    if isinstance(own.lookup, Fold) and same and always_equal(axis.extent, own.extent):
        return replace(own, stride=own.stride)
    if axis.lookup is None and own.lookup is None:
        return _between(axis, own, start, step)
    numbers = (n for a in (axis, own) for n in (a.extent, a.low, a.stop))
    if is_symbolic((*numbers, start, step)):
        return None  # each element would be compared with a symbol
    reached = np.arange(axis.extent) if (indices := axis.indices) is None else indices
    reached = start + step * reached
    here = np.arange(axis.extent)
    inside = (reached >= own.low) & (reached < own.stop) & (here >= axis.low) & (here < axis.stop)
    there = np.flatnonzero(inside)
    if len(there) == 0:
        return replace(axis, low=0, high=0)
    low, high = int(there[0]), int(there[-1]) + 1
    own_indices = own.indices
    if high - low != len(there) or (own_indices is not None and not alone):
        return None
    if own_indices is None:
        return replace(axis, low=low, high=high)
    entries = own_indices[np.where(inside, reached, reached[low])]
    return replace(axis, stride=own.stride, low=low, high=high, lookup=entries)


def _between(axis: Axis, own: Axis, start: int, step: int) -> Axis:
    """Returns `axis`, whose element x is element `start + step * x` of `own`, with the padding of
    both."""
    first, last = own.low - start, own.stop - 1 - start
    if step < 0:
        first, last = -last, -first
    low = larger(axis.low, -(-first // abs(step)))
    high = smaller(axis.stop, last // abs(step) + 1)
    if low >= high:
        low = high = 0
    return replace(axis, low=low, high=high)


class Coordinates(NamedTuple):
    """A view in coordinates: element x of axis j is `steps[j][k] * x` from `starts[k]` along axis k
    of the input."""

    axes: tuple[Axis, ...]
    steps: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]


def coordinates(view: View, extents: Sequence[int]) -> Coordinates | None:
    """Returns the view with coordinates on the input's axes, of these extents, instead of element
    numbers; axes are split if necessary. None if equal steps would not stay on one axis."""
    strides = row_strides(extents)
    axes = tuple(part for axis in view.axes for part in _split(axis, extents, strides))
    if any(axis.low >= axis.stop for axis in axes):
        return Coordinates(axes, ((0,) * len(extents),) * len(axes), (0,) * len(extents))
    firsts, reaches = [axis.ends[0] for axis in axes], [axis.reach for axis in axes]
    pairs = zip(axes, reaches, strict=True)
    steps = tuple(
        _digits(0 if always_equal(reach, 0) else axis.stride, extents, strides)
        for axis, reach in pairs
    )
    corner = view.offset + sum(axis.stride * n for axis, n in zip(axes, firsts, strict=True))
    if not 0 <= corner < prod(extents):
        return None
    starts = list(_digits(corner, extents, strides))
    for k, extent in enumerate(extents):
        reach = [row[k] * n for row, n in zip(steps, reaches, strict=True)]
        if starts[k] + sum(smaller(n, 0) for n in reach) < 0:
            return None
        if starts[k] + sum(larger(n, 0) for n in reach) >= extent:
            return None
        starts[k] -= sum(row[k] * n for row, n in zip(steps, firsts, strict=True))
    return Coordinates(axes, steps, tuple(starts))


def _digits(number: int, extents: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Returns a distance in elements as a number of steps along each axis; 0 along axes of extent
    1."""
    found, left = [], abs(number)
    for extent, stride in zip(extents, strides, strict=True):
        steps = left // stride if may_exceed_one(extent) else 0
        left -= steps * stride
        found.append(steps if number > 0 else -steps)
    return tuple(found)


def _split(axis: Axis, extents: Sequence[int], strides: Sequence[int]) -> list[Axis]:
    """Returns an axis split in two or more, if it crosses from one axis of the input to the one
    before."""
    if axis.lookup is not None or axis.stride == 0:
        return [axis]
    for extent, stride in zip(extents, strides, strict=True):
        step, rest = divmod(abs(axis.stride), stride)
        if always_equal(extent, 1) or step == 0:
            continue
        if rest or extent % step or step * (axis.stop - 1 - axis.low) < extent:
            return [axis]
        halves = halved(axis, extent // step)
        return [axis] if halves is None else [*_split(halves[0], extents, strides), halves[1]]
    return [axis]


def identity(shape: Shape) -> View:
    """Returns the view of all elements of an input of this shape, in order."""
    return View(shape, (Axis(prod(shape), 1),))


def transposed(shape: Shape, perm: tuple[int, ...]) -> View:
    """Returns the view whose axis k is axis perm[k]."""
    if any(isinstance(extent, Extent) for extent in shape):
        return _transposed.__wrapped__(shape, perm)
    return _transposed(shape, perm)


@lru_cache(256)  # networks transpose few shapes, many times
def _transposed(shape: Shape, perm: tuple[int, ...]) -> View:
    strides = row_strides(shape)
    axes = tuple(Axis(shape[axis], strides[axis]) for axis in perm)
    return View(tuple(shape[axis] for axis in perm), axes)


def region(
    shape: Shape, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int] | None = None
) -> View:
    """Returns the view of `sizes` elements of each axis from a start on, with steps (default 1, may
    be negative)."""
    strides = row_strides(shape)
    steps = steps or (1,) * len(shape)
    axes = tuple(Axis(e, n * s) for e, n, s in zip(extents, steps, strides, strict=True))
    offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return View(tuple(extents), axes, offset)


def part(shape: Shape, axis: int, start: int, extent: int) -> View:
    """Returns the view of a range of one axis, and all of the others."""
    starts = [start if k == axis else 0 for k in range(len(shape))]
    return region(shape, starts, [extent if k == axis else e for k, e in enumerate(shape)])


def padded(shape: Shape, margins: Sequence[tuple[int, int]], value: float = 0.0) -> View:
    """Returns the view with these numbers of elements added before and after each axis."""
    strides = [
        n if may_exceed_one(e) else 0 for e, n in zip(shape, row_strides(shape), strict=True)
    ]
    axes = tuple(
        Axis(before + extent + after, stride, before, before + extent)
        for extent, stride, (before, after) in zip(shape, strides, margins, strict=True)
    )
    offset = -sum(before * stride for (before, _), stride in zip(margins, strides, strict=True))
    return View(tuple(axis.extent for axis in axes), axes, offset, value)


def repeated(shape: Shape, repeats: Sequence[int]) -> View:
    """Returns the view that repeats each axis this many times; additional leading repeats are of
    new axes."""
    lead = len(repeats) - len(shape)
    shape = (1,) * lead + shape
    axes: list[Axis] = []
    for extent, count, stride in zip(shape, repeats, row_strides(shape), strict=True):
        axes += [Axis(count), Axis(extent, stride)]
    return View(tuple(e * n for e, n in zip(shape, repeats, strict=True)), tuple(axes))


def folded(shape: Shape, margins: Sequence[tuple[int, int]], mode: str) -> View:
    """Returns the view with these numbers of elements added before and after each axis, which are
    others of that axis."""
    axes = []
    for extent, stride, (before, after) in zip(shape, row_strides(shape), margins, strict=True):
        axis = Axis(before + extent + after, stride)
        if always_equal(extent, 1):
            axis.stride = 0
        elif not (always_equal(before, 0) and always_equal(after, 0)):
            axis.lookup = Fold(mode, before, extent)
        axes.append(axis)
    return View(tuple(axis.extent for axis in axes), tuple(axes))


def taken(shape: Shape, rows: Mapping[int, Array]) -> View:
    """Returns the view of the elements at these indices of some axes."""
    axes, offset = [], 0
    for k, (extent, stride) in enumerate(zip(shape, row_strides(shape), strict=True)):
        if k not in rows:
            axes.append(Axis(extent, stride))
            continue
        row = rows[k]
        step = row[1] - row[0] if len(row) > 1 else 1
        if np.any(row[1:] - row[:-1] != step):
            axes.append(Axis(len(row), stride, lookup=row.astype(np.int64)))
            continue
        offset += integer(row[0]) * stride if len(row) else 0
        axes.append(Axis(len(row), stride * int(step)))
    return View(tuple(axis.extent for axis in axes), tuple(axes), offset)
