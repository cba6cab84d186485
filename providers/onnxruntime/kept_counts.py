"""The functions that rows name as `keeps_count`. Each returns the axis of a node's result whose
elements are computed one by one from those along the counted axis of an input; None where a result
depends on the number of elements, or on elements at other positions (see `importer.counts`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tflgpu_plugin.ir import always_equal
from tflgpu_plugin.providers import Builder, counts

from . import rearranging


def elementwise(e: Builder) -> int | None:
    """Inputs that are not counted have no other extent than 1 along the axis."""
    given = [k for k in range(len(e.inputs)) if e.has(k)]
    rank, found = max(e.rank(e.x(k)) for k in given), set[int]()
    for k in given:
        if (axis := e.counted_axis(k)) is not None:
            found.add(rank - e.rank(e.x(k)) + axis)
    if len(found) != 1:
        return None
    (axis,) = found
    for k in given:
        here = axis - rank + e.rank(e.x(k))
        if e.counted_axis(k) is None and here >= 0 and e.shape(e.x(k))[here] != 1:
            return None
    return axis


def same(e: Builder) -> int | None:
    return e.counted_axis()


def transposed(e: Builder) -> int | None:
    axis = e.counted_axis()
    return None if axis is None else rearranging.order(e).index(axis)


def unsqueezed(e: Builder) -> int | None:
    axis, axes = e.counted_axis(), e.listed("axes", 1)
    if axis is None or axes is None:
        return None
    rank = e.rank() + len(axes)
    new = {e.axis(one, rank) for one in axes}
    return [k for k in range(rank) if k not in new][axis]


def squeezed(e: Builder) -> int | None:
    """The axes are named, since an axis of one element would go, too."""
    axis, axes = e.counted_axis(), e.listed("axes", 1)
    if axis is None or axes is None:
        return None
    gone = {e.axis(one, e.rank()) for one in axes}
    return None if axis in gone else axis - sum(one < axis for one in gone)


def sliced(e: Builder) -> int | None:
    """The slice is of other axes, or has all elements up to the count."""
    axis, at = e.counted_axis(), counts.indices_of_count(e, 2) if e.has(2) else []
    if axis is None or at is None:
        return None
    for k, (start, end, one, step) in enumerate(zip(*rearranging.edges(e), strict=False)):
        here = e.axis(one, e.rank()) == axis
        last = k in at or any(always_equal(end, most) for most in rearranging.TO_THE_END)
        whole = last and always_equal(start, 0) and always_equal(step, 1)
        if (here or k in at) and not (here and whole):
            return None
    return axis


def joined(e: Builder) -> int | None:
    """All inputs are counted, and joined along another axis."""
    found = {e.counted_axis(k) for k in range(len(e.inputs))}
    axis = found.pop()
    return None if found or axis is None or axis == e.axis(e.integer("axis"), e.rank()) else axis


def gathered(e: Builder) -> int | None:
    """Either the indices are counted, or another axis of the data."""
    axis, data, index = e.axis(e.integer("axis"), e.rank()), e.counted_axis(), e.counted_axis(1)
    if data is None or index is not None:
        return None if data is not None or index is None else axis + index
    if data == axis:
        return None
    return data if data < axis else data - 1 + e.rank(e.x(1))


def gathered_nd(e: Builder) -> int | None:
    """Only the indices are counted, by their positions."""
    data, index = e.counted_axis(), e.counted_axis(1)
    single = data is None and not e.integer("batch_dims")
    return index if single and index is not None and index < e.rank(e.x(1)) - 1 else None


def gathered_elements(e: Builder) -> int | None:
    """The indices are counted, and the data either not or along the same axis, on which elements
    keep their positions."""
    axis, data, index = e.axis(e.integer("axis"), e.rank()), e.counted_axis(), e.counted_axis(1)
    return index if data is None or data == index != axis else None


def scattered_nd(e: Builder) -> int | None:
    """The indices are counted by their positions, with the updates, so that those that are there
    come first. If the data is counted, too, it is along an axis that indices address."""
    data, index, updates = (e.counted_axis(k) for k in range(3))
    *places, depth = e.shape(e.x(1))
    if index is None or index != updates or index >= len(places):
        return None
    if not always_equal(prod(places[:index]), 1):
        return None
    if data is None:
        return counts.OWN_COUNT
    return data if data < depth else None


def along(e: Builder) -> int | None:
    """Another axis is normalized; before opset 13, with all axes after it."""
    axis, newest = e.counted_axis(), e.version >= 13
    if axis is None:
        return None
    first = e.axis(e.integer("axis", -1 if newest else 1), e.rank())
    return axis if axis < first or (newest and axis != first) else None


def summed_up(e: Builder) -> int | None:
    """Sums run along another axis."""
    axis = e.counted_axis()
    if axis is None or not e.known(e.x(1)):
        return None
    return None if axis == e.axis(int(e.value(1).reshape(-1)[0]), e.rank()) else axis


def reduced(e: Builder) -> int | None:
    """The axes are named, and others."""
    axis, axes = e.counted_axis(), e.listed("axes", 1)
    return None if axis is None or not axes else _without(e, axis, axes)


def argument(e: Builder) -> int | None:
    axis = e.counted_axis()
    return None if axis is None else _without(e, axis, [e.integer("axis")])


def _without(e: Builder, axis: int, axes: Sequence[int]) -> int | None:
    """Returns the axis of a result in which `axes` are reduced."""
    gone = {e.axis(one, e.rank()) for one in axes}
    if axis in gone:
        return None
    return axis if e.integer("keepdims", 1) else axis - sum(one < axis for one in gone)


def multiplied(e: Builder) -> int | None:
    """Rows of the first matrix are counted, or columns of the second one."""
    rows, columns = e.counted_axis(), e.counted_axis(1)
    ranks = [e.rank(e.x(k)) for k in range(2)]
    if min(ranks) < 2 or (rows is None) == (columns is None):
        return None
    if rows is not None:
        return max(ranks) - 2 if rows == ranks[0] - 2 else None
    return max(ranks) - 1 if columns == ranks[1] - 1 else None


def padded(e: Builder) -> int | None:
    """Other axes are padded."""
    axis = e.counted_axis()
    if axis is None:
        return None
    return axis if all(always_equal(n, 0) for n in rearranging.pads(e)[axis]) else None


def split(e: Builder) -> int | None:
    """Another axis is split."""
    axis = e.counted_axis()
    return None if axis == e.axis(e.integer("axis"), e.rank()) else axis


def counting(e: Builder) -> int | None:
    """The numbers from 0 to the count."""
    first, delta = e.value(0).reshape(-1)[0], e.value(2).reshape(-1)[0]
    single = always_equal(first, 0) and always_equal(delta, 1)
    return 0 if single and counts.indices_of_count(e, 1) == [0] else None


def filled(e: Builder) -> int | None:
    """The shape has the count itself once, and does not depend on it otherwise."""
    at = counts.indices_of_count(e, 0)
    return at[0] if at is not None and len(at) == 1 else None


def expanded(e: Builder) -> int | None:
    """The shape has the count itself for the axis, or 1, and does not depend on it otherwise; it
    has the count for one axis of data that is not counted, of extent 1."""
    axis, at = e.counted_axis(), counts.indices_of_count(e, 1)
    wanted = e.value(1).reshape(-1)
    rank = max(e.rank(), len(wanted))
    if axis is None:
        if at is None or len(at) != 1:
            return None
        before = at[0] - len(wanted) + e.rank()  # in the data
        single = before < 0 or always_equal(e.shape()[before], 1)
        return at[0] + rank - len(wanted) if single else None
    found = axis + rank - e.rank()
    here = found - rank + len(wanted)  # in the wanted shape
    if at is None or not {*at} <= {here}:
        return None
    return found if here < 0 or at or always_equal(wanted[here], 1) else None


def reshaped(e: Builder) -> int | None:
    """The shape has the count itself, -1 or 0 for the axis, and the elements before and after it
    are as many as in the input."""
    axis, shape = e.counted_axis(), e.shape()
    if axis is None or e.integer("allowzero"):
        return None
    stated, at = e.value(1).reshape(-1), counts.indices_of_count(e, 1)
    wanted = rearranging.wanted(e)
    free = [k for k, n in enumerate(stated)
            if always_equal(n, -1) or (k == axis and always_equal(n, 0))]  # fmt: skip
    if at is None or len(found := [*at, *free]) != 1:
        return None
    k = found[0]
    around = ((shape[:axis], wanted[:k]), (shape[axis + 1 :], wanted[k + 1 :]))
    return k if all(always_equal(prod(a), prod(b)) for a, b in around) else None
