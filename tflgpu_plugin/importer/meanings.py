"""Host operators of shape arithmetic that become no op, evaluated in numpy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir.graph import Array

MAX_SHAPE_ELEMENTS = 4096  # elements; what is larger is no shape arithmetic


def ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in np.asarray(values).reshape(-1))


def fill(shape: Array, value: Array | None = None, limit: int = MAX_SHAPE_ELEMENTS) -> Array:
    """Returns a tensor of this shape filled with `value` (default: float32 zero). Raises ValueError
    for more than `limit` elements."""
    filling = np.zeros(1, np.float32) if value is None else value
    if prod(ints(shape)) > limit:
        raise ValueError("too many elements")
    return np.full(ints(shape), filling.reshape(-1)[0], filling.dtype)


def steps(start: Array, end: Array, step: Array, limit: int = MAX_SHAPE_ELEMENTS) -> Array:
    """Returns the numbers from start to end, by step. Raises ValueError for more than `limit`."""
    first, last, by = (value.reshape(())[()] for value in (start, end, step))
    if (float(last) - float(first)) / float(by) > limit:
        raise ValueError("too many elements")
    return np.arange(first, last, by, dtype=start.dtype)


def common_shape(a: Array, b: Array, limit: int) -> Array:
    """Returns the shape that the shapes a and b broadcast to."""
    return np.array(np.broadcast_shapes(ints(a), ints(b)), a.dtype)


def coordinates(data: Array, limit: int) -> Array:
    """Returns the indices of nonzero elements, [count, rank], as int64. Raises ValueError for more
    than `limit` numbers."""
    found = np.argwhere(data).astype(np.int64)
    if found.size > limit:
        raise ValueError("too many elements")
    return found


DENSE = "dense"  # its operand is sparse, and is read as what it stands for
# By the names that CPU operators of a host's table give.
OF_SHAPES: dict[str, Callable[..., Array]] = {  # of the shape of the operand, not of its value
    "rank": lambda shape, limit: np.array(shape.size),
    "shape": lambda shape, limit: shape,
}
MEANINGS: dict[str, Callable[..., Array]] = OF_SHAPES | {
    "broadcast_shapes": common_shape,
    "coordinates": coordinates,
    "fill": fill,
    DENSE: lambda data, limit: data,
    "range": steps,
}
