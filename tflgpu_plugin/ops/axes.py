"""Axes of views: strides through the elements of an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array
from tflgpu_plugin.ir.extent import Extent
from tflgpu_plugin.ir.polynomial import exact_quotient
from tflgpu_plugin.ir.symbolic import always_divides, always_equal, may_exceed, may_exceed_one


@dataclass(frozen=True, slots=True)
class Fold:
    """The indices of an axis of `extent` elements, `before` of which are repeated before it and
    others after it: position x has index x - before, which a `mode` of `pad` maps to 0 ... extent
    - 1. In contrast to a list of them, a fold may have symbols."""

    mode: str
    before: int
    extent: int

    def indices(self, count: int) -> Array:
        """Returns the indices of this many positions."""
        after = count - self.before - self.extent
        mode: Any = self.mode
        return np.asarray(np.pad(np.arange(self.extent), (self.before, after), mode))


@dataclass(eq=False, slots=True)  # frozen ones take three times as long to make
class Axis:
    """An axis of `extent` elements of a result. Its element x is read from the input at the offset
    `stride * x` or, if there is a `lookup` (an integer array of that extent, or a fold),
    at `stride * lookup[x]`.

    Elements outside `low <= x < high` (default: the extent) are padding."""

    extent: int
    stride: int = 0
    low: int = 0
    high: int | None = None
    lookup: Array | Fold | None = None

    def by(self, stride: int) -> Axis:
        """Returns this axis with another stride."""
        return Axis(self.extent, stride, self.low, self.high, self.lookup)

    @property
    def stop(self) -> int:
        return self.extent if self.high is None else self.high

    @property
    def padded(self) -> bool:
        """Whether there is padding, for some values of symbols at least."""
        ends = self.high is not None and may_exceed(self.extent, self.high)
        return ends or may_exceed(self.low, 0)

    @property
    def straight(self) -> bool:
        """Whether the axis has neither padding nor a lookup: all elements are at equal
        distances."""
        return not self.padded and self.lookup is None

    @property
    def listed(self) -> object:
        """Returns what is equal for equal lookups."""
        if isinstance(self.lookup, Fold):
            return self.lookup.mode, self.lookup.before, self.lookup.extent
        return b"" if self.lookup is None else self.lookup.tobytes()

    @property
    def indices(self) -> Array | None:
        """Returns the lookup as an array, None without one."""
        given = self.lookup
        return given.indices(self.extent) if isinstance(given, Fold) else given

    @property
    def ends(self) -> tuple[int, int]:
        """Returns the least and greatest multiple of `stride` among elements that are not
        padding."""
        if self.lookup is None:
            return self.low, self.stop - 1
        if isinstance(self.lookup, Fold):
            return 0, self.lookup.extent - 1
        there = self.lookup[self.low : self.stop]
        return int(there.min()), int(there.max())

    @property
    def reach(self) -> int:
        return self.ends[1] - self.ends[0]


_straight = attrgetter("straight")


def merged(rows: Sequence[tuple[Axis, ...]]) -> list[tuple[Axis, ...]]:
    """Returns the same elements over as few axes as possible, since each axis costs a division per
    element. A row holds one axis, once for each operand that is read along it."""
    kept: list[tuple[Axis, ...]] = []
    for row in rows:
        straight = all(map(_straight, row))
        if straight and always_equal(row[0].extent, 1):
            continue
        if kept and straight and all(map(_continues, kept[-1], row)):
            kept[-1] = tuple(
                Axis(outer.extent * inner.extent, inner.stride)
                for outer, inner in zip(kept[-1], row, strict=True)
            )
        else:
            kept.append(row)
    return kept


def _continues(outer: Axis, inner: Axis) -> bool:
    return outer.straight and always_equal(outer.stride, inner.extent * inner.stride)


def aligned(axes: Sequence[Axis], extents: Sequence[int]) -> list[list[Axis]] | None:
    """Returns the axes in groups with these numbers of elements, splitting an axis at a group's
    border; None if one cannot be split there."""
    waiting = [axis for axis in axes if may_exceed_one(axis.extent) or not axis.straight]
    groups: list[list[Axis]] = []
    for extent in reversed(extents):
        group: list[Axis] = []
        left = extent
        while not always_equal(left, 1) and (_fills(waiting, left) or left > 1):
            axis = waiting.pop()
            if _is_multiple(axis.extent, left) or left % axis.extent:
                halves = halved(axis, left)
                if halves is None:
                    return None
                waiting.append(halves[0])
                axis = halves[1]
            group.insert(0, axis)
            left //= axis.extent
        groups.insert(0, group)
    groups[0] = waiting + groups[0]
    return groups


def _fills(waiting: Sequence[Axis], left: int) -> bool:
    """Whether the last of these axes, or a part of it, has this many elements for all values of
    symbols. It completes the group then, also if it has one element."""
    if not waiting:
        return False
    extent = waiting[-1].extent
    return always_equal(extent, left) or _is_multiple(extent, left)


def _is_multiple(extent: int, left: int) -> bool:
    """Whether a symbolic extent is a multiple of another number for all values of its symbols."""
    if not isinstance(extent, Extent) or always_equal(extent, left):
        return False
    if isinstance(left, Extent):
        return exact_quotient(extent.terms, left.terms) is not None
    return always_divides(left, extent)


def halved(axis: Axis, inner: int) -> tuple[Axis, Axis] | None:
    """Returns the axis split in two, the inner one of this extent; None if that is impossible."""
    bounds = (axis.extent, axis.low, axis.stop)
    if axis.lookup is not None or any(n % inner for n in bounds):
        return None
    extent, low, high = (n // inner for n in bounds)
    return Axis(extent, axis.stride * inner, low, high), Axis(inner, axis.stride)
