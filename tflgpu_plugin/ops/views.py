"""Views: which element of an input each element of a result is, or that it is padding.

All ops that only move data say so by a `View`; views of views are composed here, and axes that lie
in a row become one here. `movement` reads through a view, on the device."""

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
from tflgpu_plugin.ops.axes import Axis, aligned, halved, merged


@dataclass(frozen=True, eq=False)
class View:
    """A tensor of `shape`, its elements in row-major order being those over `axes`, counted from
    element `offset` of the input, in row-major order as well; `value` is that of padding.

    The methods give the view of what is done to the result; they return None where no axes can
    say it. Shapes are expected to fit."""

    shape: Shape
    axes: tuple[Axis, ...]
    offset: int = 0
    value: float = 0.0

    @property
    def padded(self) -> bool:
        return any(axis.padded for axis in self.axes)

    @cached_property
    def whole(self) -> bool:
        """All elements from the first on, in order."""
        axes = self.simple.axes
        return self.offset == 0 and len(axes) == 1 and axes[0].straight and axes[0].stride == 1

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The same for views that are the same."""
        axes = [(a.extent, a.stride, a.low, a.stop, a.listed) for a in self.simple.axes]
        return (self.shape, self.offset, self.value, *axes)

    def by_axis(self, shape: Shape) -> bool:
        """Whether each axis goes along the same one of an input of this shape, or nowhere."""
        axes = self.one_each
        if axes is None or len(shape) != len(axes):
            return False
        return all(
            axis.reach == 0
            or (axis.stride % stride == 0 and abs(axis.stride) * axis.reach < extent * stride)
            for axis, extent, stride in zip(axes, shape, row_strides(shape), strict=True)
        )

    @property
    def one_each(self) -> list[Axis] | None:
        """One axis for each of the result; None where it takes more."""
        groups = aligned(self.axes, self.shape) if self.shape else []
        if groups is None or any(len(group) > 1 for group in groups):
            return None
        return [group[0] if group else Axis(1) for group in groups]

    def margins(self, shape: Shape) -> list[tuple[int, int]] | None:
        """Returns the padding around each axis of an input of this shape, if all of it is there
        in its order."""
        axes = self.one_each
        if axes is None or len(axes) != len(shape):
            return None
        found = [(axis.low, axis.extent - axis.stop) for axis in axes]
        return found if self.key == padded(shape, found, self.value).key else None

    def reshapes(self, shape: Shape) -> bool:
        """Whether it is all of an input of this shape, in its order."""
        return self.whole and prod(self.shape) == prod(shape)

    @cached_property
    def simple(self) -> View:
        """The same view over as few axes as will do."""
        rows = merged([(axis,) for axis in self.axes])
        axes = tuple(row[0] for row in rows) or (Axis(1, 1),)
        return View(self.shape, axes, self.offset, self.value)

    def then(self, view: View) -> View | None:
        """The view of this result through another one; None where no axes can say it."""
        given = self.simple.axes
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
            elif own.lookup is None:
                offset += start * own.stride
            else:
                offset += int(own.lookup[start]) * own.stride
        value = view.value if view.padded else self.value
        return View(view.shape, tuple(axes), offset, value)

    def of(self, data: Array) -> Array:
        """The result for this input."""
        result = np.full([axis.extent for axis in self.axes], self.value, data.dtype)
        if result.size == 0 or any(axis.low >= axis.stop for axis in self.axes):
            return result.reshape(self.shape)
        first = self.offset + sum(axis.stride * axis.ends[0] for axis in self.axes)
        spans = [axis.ends[1] - axis.ends[0] + 1 for axis in self.axes]
        flat = np.ascontiguousarray(data).reshape(-1)
        steps = [axis.stride * data.itemsize for axis in self.axes]
        found = np.lib.stride_tricks.as_strided(flat[first:], spans, steps, writeable=False)
        for k, axis in enumerate(self.axes):
            if axis.lookup is not None:
                found = found.take(axis.lookup[axis.low : axis.stop] - axis.ends[0], axis=k)
        result[tuple(slice(axis.low, axis.stop) for axis in self.axes)] = found
        return result.reshape(self.shape)


@lru_cache(256)  # passes ask for the same ones again, round by round
def through(*views: View | None) -> View | None:
    """The view through all of them; None where one is missing, or no axes can say it."""
    return reduce(lambda a, b: None if a is None or b is None else a.then(b), views)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from 0; a negative one counts from the end. Raises ValueError where there is
    none."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return int(axis) % rank


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements between neighbours on each axis, row-major."""
    return tuple(accumulate((1, *shape[:0:-1]), mul))[::-1] if shape else ()


def _same(a: float, b: float) -> bool:
    return a == b or (isnan(a) and isnan(b))


def _limited(axis: Axis, own: Axis, start: int, step: int, alone: bool) -> Axis | None:
    """`axis`, which goes along `own` from `start` in these steps, with the padding and the lookup
    of `own`; `alone`: it goes along no other axis."""
    reached = np.arange(axis.extent) if axis.lookup is None else axis.lookup
    reached = start + step * reached
    here = np.arange(axis.extent)
    inside = (reached >= own.low) & (reached < own.stop) & (here >= axis.low) & (here < axis.stop)
    there = np.flatnonzero(inside)
    if len(there) == 0:
        return replace(axis, low=0, high=0)
    low, high = int(there[0]), int(there[-1]) + 1
    if high - low != len(there) or (own.lookup is not None and not alone):
        return None
    if own.lookup is None:
        return replace(axis, low=low, high=high)
    entries = own.lookup[np.where(inside, reached, reached[low])]
    return replace(axis, stride=own.stride, low=low, high=high, lookup=entries)


class Coordinates(NamedTuple):
    """A view by coordinates: element x of axis j is `steps[j][k] * x` further along axis k of the
    input than `starts[k]`."""

    axes: tuple[Axis, ...]
    steps: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]


def coordinates(view: View, extents: Sequence[int]) -> Coordinates | None:
    """The view with coordinates on axes of these extents, that of the input, in place of element
    numbers; axes are split where they must be. None where the same step would go to another axis
    from some elements on."""
    strides = row_strides(extents)
    axes = tuple(part for axis in view.axes for part in _split(axis, extents, strides))
    if any(axis.low >= axis.stop for axis in axes):
        return Coordinates(axes, ((0,) * len(extents),) * len(axes), (0,) * len(extents))
    steps = tuple(_digits(axis.stride if axis.reach else 0, extents, strides) for axis in axes)
    corner = view.offset + sum(axis.stride * axis.ends[0] for axis in axes)
    if not 0 <= corner < prod(extents):
        return None
    starts = list(_digits(corner, extents, strides))
    for k, extent in enumerate(extents):
        reach = [row[k] * axis.reach for row, axis in zip(steps, axes, strict=True)]
        if starts[k] + sum(n for n in reach if n < 0) < 0:
            return None
        if starts[k] + sum(n for n in reach if n > 0) >= extent:
            return None
        starts[k] -= sum(row[k] * axis.ends[0] for row, axis in zip(steps, axes, strict=True))
    return Coordinates(axes, steps, tuple(starts))


def _digits(number: int, extents: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """A distance in elements as steps on each axis; none on those of extent 1."""
    found, left = [], abs(number)
    for extent, stride in zip(extents, strides, strict=True):
        steps = left // stride if extent > 1 else 0
        left -= steps * stride
        found.append(steps if number > 0 else -steps)
    return tuple(found)


def _split(axis: Axis, extents: Sequence[int], strides: Sequence[int]) -> list[Axis]:
    """An axis that goes on from one axis of the input to the one before it, as two or more."""
    if axis.lookup is not None or axis.stride == 0:
        return [axis]
    for extent, stride in zip(extents, strides, strict=True):
        step, rest = divmod(abs(axis.stride), stride)
        if extent == 1 or step == 0:
            continue
        if rest or extent % step or step * (axis.stop - 1 - axis.low) < extent:
            return [axis]
        halves = halved(axis, extent // step)
        return [axis] if halves is None else [*_split(halves[0], extents, strides), halves[1]]
    return [axis]


def whole(shape: Shape) -> View:
    """All elements, in order."""
    return View(shape, (Axis(prod(shape), 1),))


@lru_cache(256)  # networks turn few shapes, many times
def transposed(shape: Shape, perm: tuple[int, ...]) -> View:
    """Axis k of the result is axis perm[k]."""
    strides = row_strides(shape)
    axes = tuple(Axis(shape[axis], strides[axis]) for axis in perm)
    return View(tuple(shape[axis] for axis in perm), axes)


def region(
    shape: Shape, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int] | None = None
) -> View:
    """Returns a view of so many elements of each axis from a start on, with steps (default: 1,
    may be negative)."""
    strides = row_strides(shape)
    steps = steps or (1,) * len(shape)
    axes = tuple(Axis(e, n * s) for e, n, s in zip(extents, steps, strides, strict=True))
    offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return View(tuple(extents), axes, offset)


def part(shape: Shape, axis: int, start: int, extent: int) -> View:
    """Returns a view of so many elements of one axis, and all of the others."""
    starts = [start if k == axis else 0 for k in range(len(shape))]
    return region(shape, starts, [extent if k == axis else e for k, e in enumerate(shape)])


def padded(shape: Shape, margins: Sequence[tuple[int, int]], value: float = 0.0) -> View:
    """With so many elements before and after each axis."""
    strides = [n if e > 1 else 0 for e, n in zip(shape, row_strides(shape), strict=True)]
    axes = tuple(
        Axis(before + extent + after, stride, before, before + extent)
        for extent, stride, (before, after) in zip(shape, strides, margins, strict=True)
    )
    offset = -sum(before * stride for (before, _), stride in zip(margins, strides, strict=True))
    return View(tuple(axis.extent for axis in axes), axes, offset, value)


def repeated(shape: Shape, repeats: Sequence[int]) -> View:
    """Each axis so many times over, as a whole; further repeats in front are of new axes."""
    lead = len(repeats) - len(shape)
    shape = (1,) * lead + shape
    axes: list[Axis] = []
    for extent, count, stride in zip(shape, repeats, row_strides(shape), strict=True):
        axes += [Axis(count), Axis(extent, stride)]
    return View(tuple(e * n for e, n in zip(shape, repeats, strict=True)), tuple(axes))


def taken(shape: Shape, rows: Mapping[int, Array]) -> View:
    """The elements at these indices of some axes."""
    axes, offset = [], 0
    for k, (extent, stride) in enumerate(zip(shape, row_strides(shape), strict=True)):
        row = rows.get(k, np.arange(extent))
        steps = set(np.diff(row).tolist())
        if len(steps) > 1:
            axes.append(Axis(len(row), stride, lookup=row))
            continue
        offset += int(row[0]) * stride if len(row) else 0
        axes.append(Axis(len(row), stride * (steps.pop() if steps else 1)))
    return View(tuple(axis.extent for axis in axes), tuple(axes), offset)
