"""Builders of host operators without an op: their results are computed before a run, from shapes or
constants. Other rows may use them, too."""

from __future__ import annotations

from itertools import zip_longest
from math import ceil, prod

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.ir import Array
from tflgpu_plugin.ir.extent import Extent
from tflgpu_plugin.ir.symbolic import always_equal, integer, integers, is_symbolic, symbolic
from tflgpu_plugin.ops import evaluation


def shape(e: Builder) -> int:
    """Returns the extents of the axes from `start` to `end`, as int64."""
    end = e.host.attributes.get("end")
    listed = e.shape()[e.integer("start") : None if end is None else int(end)]
    return e.const(integers(listed), np.int64)


def size(e: Builder) -> int:
    """Returns the number of elements, as int64."""
    return e.const(integers(prod(e.shape())), np.int64)


def rank(e: Builder) -> int:
    """Returns the number of axes, as int64."""
    return e.const(np.array(e.rank(), np.int64), np.int64)


def fill(e: Builder) -> int:
    """Returns a tensor of the given shape, filled with one value: input 1, or an attribute
    (default: float32 zero). One that is not evaluated is written by a kernel."""
    given = e.value(1) if e.has(1) else e.host.attributes.get("value", np.zeros(1, np.float32))
    extents = _ints(e.value(0))
    if not e.known_limit:
        return e.add("expand", e.const(given.reshape(-1)[:1], given.dtype), e.index(extents))
    if is_symbolic(extents):
        raise _unknown(e)
    _check_size(e, prod(extents))
    return e.const(np.full(extents, given.reshape(-1)[0]), given.dtype)


def steps(e: Builder) -> int:
    """Returns the numbers from input 0 to input 1 (exclusive) in steps of input 2. Hosts add floats
    one after the other, and so does this: the last of many differs from a product of steps."""
    given = [e.value(k) for k in range(3)]
    if any(map(symbolic, given)):
        return _symbolic_steps(e, *(integer(value.reshape(())[()]) for value in given))
    try:
        first, last, by = (value.reshape(())[()] for value in given)
        count = (float(last) - float(first)) / float(by)
        _check_size(e, count)
        dtype = given[0].dtype
        if dtype.kind == "f":
            added = np.full(max(ceil(count), 0), by, dtype)
            added[:1] = first
            return e.const(np.add.accumulate(added, dtype=dtype), dtype)
        return e.const(np.arange(first, last, by, dtype=dtype), dtype)
    except evaluation.FAILURES as error:
        raise _unknown(e) from error


def _symbolic_steps(e: Builder, first: int, last: int, by: int) -> int:
    """Returns the integers from `first` to `last` (exclusive) in steps of `by`. Where their number
    is symbolic, they follow from a slice of a longer constant."""
    count = -(-(last - first) // by)
    if count < 0:
        count = 0
    if not isinstance(count, Extent):
        return e.const(integers([first + k * by for k in range(count)]), np.int64)
    if e.known_limit:
        raise _unknown(e)
    if by == 1 and first >= 0:
        return e.counting(count, first)
    found = e.counting(count) if by == 1 else e.add("mul", e.counting(count), e.index([by]))
    return e.add("add", found, e.index([first]))


def common_shape(e: Builder) -> int:
    """Returns the shape that two shapes broadcast to."""
    a, b = (e.value(k) for k in range(2))
    try:
        pairs = zip_longest(reversed(_ints(a)), reversed(_ints(b)), fillvalue=1)
        found = integers([common_extent(*pair) for pair in pairs][::-1])
        return e.const(found, a.dtype)
    except ValueError as error:
        raise _unknown(e) from error


def common_extent(a: int, b: int) -> int:
    """Returns the extent to which two extents broadcast. Raises ValueError."""
    if always_equal(a, b) or b == 1:
        return a
    if a != 1 and a != b:
        raise ValueError(f"{a} and {b} do not broadcast")
    return b


def coordinates(e: Builder) -> int:
    """Returns the indices of the nonzero elements as int64 of shape [count, rank]."""
    found = np.argwhere(e.value(0)).astype(np.int64)
    _check_size(e, found.size)
    return e.const(found, np.int64)


def dense(e: Builder) -> int:
    """Returns the input, a sparse constant, as it was read."""
    return e.x()


def _check_size(e: Builder, elements: float) -> None:
    if elements > e.known_limit:
        limit = f"more than the {e.known_limit:,} that are computed before a run"
        raise Unsupported.of(
            "shape.too_large", f"{e.host.title} has {elements:,.0f} results, {limit}."
        )


def _unknown(e: Builder) -> Unsupported:
    return Unsupported.of(
        "dynamic.value", f"The result of {e.host.title} is not known before a run."
    )


def _ints(values: Array) -> tuple[int, ...]:
    return tuple(map(integer, np.asarray(values).reshape(-1)))
