"""Axes of views: steps through the elements of an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflgpu_plugin.ir import Array


@dataclass(frozen=True, eq=False)
class Axis:
    """`extent` elements of the result: number x is `stride * x` elements further in the input.

    Outside `low <= x < high` (default: the extent) there is padding. With `lookup`, an int array of
    one entry per element, it is `stride * lookup[x]` elements further.
    """

    extent: int
    stride: int = 0
    low: int = 0
    high: int | None = None
    lookup: Array | None = None

    def by(self, stride: int) -> Axis:
        """This axis with another stride."""
        return Axis(self.extent, stride, self.low, self.high, self.lookup)

    @property
    def stop(self) -> int:
        return self.extent if self.high is None else self.high

    @property
    def padded(self) -> bool:
        return self.low > 0 or self.stop < self.extent

    @property
    def straight(self) -> bool:
        """Every element is there, at even distances."""
        return not self.padded and self.lookup is None

    @property
    def listed(self) -> bytes:
        return b"" if self.lookup is None else self.lookup.tobytes()

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest multiple of `stride`, of what is no padding."""
        if self.lookup is None:
            return self.low, self.stop - 1
        there = self.lookup[self.low : self.stop]
        return int(there.min()), int(there.max())

    @property
    def reach(self) -> int:
        return self.ends[1] - self.ends[0]


def merged(rows: Sequence[tuple[Axis, ...]]) -> list[tuple[Axis, ...]]:
    """The same elements over as few axes as will do: each costs every element a division. A row
    holds an axis as several operands are read along it."""
    kept: list[tuple[Axis, ...]] = []
    for row in rows:
        straight = all(axis.straight for axis in row)
        if straight and row[0].extent == 1:
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
    return outer.straight and outer.stride == inner.extent * inner.stride


def aligned(axes: Sequence[Axis], extents: Sequence[int]) -> list[list[Axis]] | None:
    """The axes in groups of these numbers of elements, split where a group begins within one. None
    where one cannot be split there."""
    waiting = [axis for axis in axes if axis.extent > 1 or not axis.straight]
    groups: list[list[Axis]] = []
    for extent in reversed(extents):
        group: list[Axis] = []
        left = extent
        while left > 1:
            axis = waiting.pop()
            if left % axis.extent:
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


def halved(axis: Axis, inner: int) -> tuple[Axis, Axis] | None:
    """An axis as two, the inner one of this extent; None where it does not divide so."""
    bounds = (axis.extent, axis.low, axis.stop)
    if axis.lookup is not None or any(n % inner for n in bounds):
        return None
    extent, low, high = (n // inner for n in bounds)
    return Axis(extent, axis.stride * inner, low, high), Axis(inner, axis.stride)
