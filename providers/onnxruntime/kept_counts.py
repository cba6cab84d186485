"""Which axis of a result is as long as an input whose elements a run counts: functions that rows
name (`keeps_count`). Each returns None where a result depends on the number of elements, or on
those at other positions."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import surely_equal
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
    """The slice is of other axes."""
    axis, (*_, axes, _) = e.counted_axis(), rearranging.edges(e)
    return None if axis in {e.axis(one, e.rank()) for one in axes} else axis


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


def expanded(e: Builder) -> int | None:
    """The shape has the count itself for the axis, or 1, and does not depend on it otherwise."""
    axis = e.counted_axis()
    if axis is None:
        return None
    at, wanted = counts.places(e, 1, e.shape()[axis]), e.value(1).reshape(-1)
    rank = max(e.rank(), len(wanted))
    found = axis + rank - e.rank()
    here = found - rank + len(wanted)  # in the wanted shape
    if at is None or not {*at} <= {here}:
        return None
    return found if here < 0 or at or surely_equal(wanted[here], 1) else None


def reshaped(e: Builder) -> int | None:
    """The shape has the count itself, -1 or 0 for the axis, and the elements before and after it
    are as many as in the input."""
    axis, shape = e.counted_axis(), e.shape()
    if axis is None or e.integer("allowzero"):
        return None
    stated, at = e.value(1).reshape(-1), counts.places(e, 1, shape[axis])
    wanted = rearranging.wanted(e)
    free = [k for k, n in enumerate(stated)
            if surely_equal(n, -1) or (k == axis and surely_equal(n, 0))]  # fmt: skip
    if at is None or len(found := [*at, *free]) != 1:
        return None
    k = found[0]
    around = ((shape[:axis], wanted[:k]), (shape[axis + 1 :], wanted[k + 1 :]))
    return k if all(surely_equal(prod(a), prod(b)) for a, b in around) else None
