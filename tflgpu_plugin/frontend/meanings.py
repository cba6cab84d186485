"""What operators mean in numpy: one table for all hosts, under the names of our ops where these
have operands and attributes alike. Of ops that are views of an input `fold` needs no entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import bfloat16
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array

MAX_SHAPE_ELEMENTS = 4096  # elements; what is larger is no shape arithmetic
TO_THE_END = (2**31 - 1, 2**63 - 1)  # as an end: all that is left
WRAPS = 2.0**62  # sums and products below it are those of whole numbers


# ---- how many elements a result has, where that may be more than its operands have ---------------


def _alike(*values: Array, **named: Any) -> float:
    every = (*values, *(value for value in named.values() if isinstance(value, np.ndarray)))
    most = prod(value.size for value in every)  # told soon, and nearly always few
    if most > MAX_SHAPE_ELEMENTS:
        most = prod(np.broadcast_shapes(*(value.shape for value in every)))
    return float(most)


def _range_size(start: Array, limit: Array, delta: Array) -> float:
    return (float(limit.reshape(())) - float(start.reshape(()))) / float(delta.reshape(()))


def size(meaning: str) -> Callable[..., float] | None:
    """What tells how many elements a result of these operands has; None where it has no more than
    they have."""
    return SIZES.get(meaning) or (_alike if meaning in ELEMENTWISE or meaning in PAIRS else None)


SIZES: dict[str, Callable[..., float]] = {
    "fill": lambda shape, value=None: float(prod(ints(shape))),
    "gather": lambda data, indices, axis=0, **more: float(
        data.size // max(data.shape[axis], 1) * indices.size
    ),
    "pad": lambda data, *given, **more: float(
        prod(
            n + before + after
            for n, (before, after) in zip(data.shape, _pads(data.ndim, *given, **more), strict=True)
        )
    ),
    "coordinates": lambda data: float(data.ndim * np.count_nonzero(data)),
    "range": _range_size,
    "scatter_new": lambda indices, updates, shape, **more: float(prod(ints(shape))),
}


# ---- elements that change places -----------------------------------------------------------------


def ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in np.asarray(values).reshape(-1))


def _one(value: Any) -> int:
    return ints(value)[0]


def _reshape_or_keep(data: Array, shape: Any, allow_zero: bool = True) -> Array:
    """Unless `allow_zero`, an extent of 0 is that of the input."""
    wanted = enumerate(ints(shape))
    return data.reshape([n if n or allow_zero else data.shape[k] for k, n in wanted])


def _flatten(data: Array, axis: int = 1) -> Array:
    return data.reshape(prod(data.shape[: axis if axis >= 0 else axis + data.ndim]), -1)


def _squeeze(data: Array, axes: Any = None) -> Array:
    return np.squeeze(data, None if axes is None else ints(axes))


def _split_by(data: Array, axis: Any = 0, sizes: Any = None, count: Any = None) -> list[Array]:
    """In parts of these sizes, one of which may be -1, or in so many alike, the last the rest."""
    at = _one(axis)
    extent = data.shape[at]
    parts = [-(-extent // count)] * count if sizes is None else list(ints(sizes))
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = extent - sum(parts) - 1
    if sizes is None:
        parts[-1] = extent - sum(parts[:-1])
    if min(parts, default=0) < 0 or sum(parts) != extent:
        raise ValueError("such parts are none of the whole")
    return list(np.split(data, np.cumsum(parts)[:-1], axis=at))


def _cut(data: Array, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Array:
    """Bounds of some axes, as `bounded` takes them."""
    first, last = ints(starts), ints(ends)
    places = range(len(first)) if axes is None else ints(axes)
    strides = [1] * len(first) if steps is None else ints(steps)
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(first, last, places, strides, strict=True):
        index[axis] = bounded(start, end, step, data.shape[axis])
    return data[tuple(index)]


def bounded(start: int, end: int, step: int, extent: int) -> slice:
    """Python's slice for one axis of ONNX's Slice: bounds count from the end where they are
    negative, and are then clamped, with a negative step to elements that are there (Slice-13;
    Python would begin before the first one). The largest numbers stand for all that is left,
    backwards, too, as in onnxruntime's kernel."""
    if step < 0 and end in TO_THE_END:
        end = -extent - 1
    start += extent if start < 0 else 0
    end += extent if end < 0 else 0
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    return slice(start, None if end < 0 else end, step)


def _gather(
    data: Array, indices: Array, axis: int = 0, batch_dims: int = 0, from_end: bool = False
) -> Array:
    _check_gather(indices, batch_dims, from_end)
    return np.take(data, indices.astype(np.int64), axis=axis)


def _check_gather(indices: Array, batch_dims: int, from_end: bool) -> None:
    """`from_end`: negative indices count from there."""
    if batch_dims or (not from_end and np.any(indices < 0)):
        raise ValueError("such a gather is not worked out")


def _gather_nd(data: Array, indices: Array, batch_dims: int = 0, from_end: bool = False) -> Array:
    _check_gather(indices, batch_dims, from_end)
    return np.asarray(data[tuple(np.moveaxis(indices, -1, 0))])


def _scatter_nd(data: Array, indices: Array, updates: Array) -> Array:
    """What an assignment to a part of a tensor becomes."""
    found = data.copy()
    found[tuple(np.moveaxis(indices, -1, 0))] = updates
    return found


def _scatter_new(indices: Array, updates: Array, shape: Array, reduction: str) -> Array:
    """Into zeros. Sums of several updates round more than once."""
    extents = ints(shape)
    places = indices.reshape(-1, indices.shape[-1])
    inside = np.all((places >= 0) & (places < extents[: places.shape[1]]))
    if reduction != "add" or not inside or len(np.unique(places, axis=0)) < len(places):
        raise ValueError("hosts take this otherwise")
    found = np.zeros(extents, updates.dtype)
    found[tuple(np.moveaxis(indices, -1, 0))] += updates
    return found


def _pads(rank: int, widths: Any, value: Any = None, axes: Any = None) -> Sequence[tuple[int, int]]:
    """(before, after) of every axis; `widths` has these pairs, or all before and then all after."""
    listed = np.asarray(widths, np.int64)
    pairs = listed if listed.ndim == 2 else listed.reshape(2, -1).T
    found = [(0, 0)] * rank
    for axis, (before, after) in zip(
        range(rank) if axes is None else ints(axes), pairs, strict=True
    ):
        found[axis] = int(before), int(after)
    return found


def _pad(data: Array, widths: Any, value: Any = 0, axes: Any = None) -> Array:
    pairs = _pads(data.ndim, widths, None, axes)
    if min(map(min, pairs), default=0) < 0:
        raise ValueError("a padding takes nothing away")
    return np.pad(data, pairs, constant_values=np.asarray(value).reshape(-1)[0])


MOVEMENT: dict[str, Callable[..., Array | list[Array]]] = {
    "concat": lambda *values, axis: np.concatenate(values, axis=axis),
    "cut": _cut,
    "expand_dims": lambda data, axes: np.expand_dims(data, ints(axes)),
    "flatten": _flatten,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "identity": np.asarray,
    "pad": _pad,
    "reshape_or_keep": _reshape_or_keep,
    "reverse": lambda data, axes: np.flip(data, ints(axes)),
    "scatter_nd": _scatter_nd,
    "split_by": _split_by,
    "squeeze": _squeeze,
    "stack": lambda *values, axis: np.stack(values, axis=axis),
    "transpose": lambda data, perm=None: np.transpose(data, None if perm is None else ints(perm)),
}


# ---- elements of their own -----------------------------------------------------------------------


def _divisor(b: Array) -> Array:
    if b.dtype.kind != "f" and np.any(b == 0):
        raise ValueError("hosts do not divide by 0")
    return b


def _div(a: Array, b: Array) -> Array:
    """Whole numbers are divided towards zero, as hosts do."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    found = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(_divisor(b)))
    return np.asarray(found, a.dtype)


def _mod(a: Array, b: Array, fmod: bool = False) -> Array:
    """With the sign of the divisor, or with `fmod` that of the dividend."""
    return np.asarray((np.fmod if fmod else np.mod)(a, _divisor(b)))


def _all(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Of any number of operands."""
    return lambda *values: reduce(function, values)


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "abs": np.abs,
    "add": _all(np.add),
    "ceil": np.ceil,
    "div": _div,
    "equal": np.equal,
    "floor": np.floor,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": _all(np.maximum),
    "minimum": _all(np.minimum),
    "mul": np.multiply,
    "neg": np.negative,
    "not_equal": np.not_equal,
    "round": np.rint,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "square": np.square,
    "sub": np.subtract,
    "where": np.where,
}
PAIRS: dict[str, Callable[..., Array]] = {
    "floor_div": lambda a, b: a // _divisor(b),
    "floor_mod": _mod,
    "pow": lambda a, b: np.power(a, b).astype(a.dtype),
}


def _cast(data: Array, dtype: str) -> Array:
    if dtype == BFLOAT16:
        return bfloat16.bits(data.astype(np.float32))
    kind = np.dtype(NUMPY_DTYPES[dtype])
    if kind.kind in "iu" and data.dtype.kind == "f":
        limits, whole = np.iinfo(kind), np.trunc(data.astype(np.float64))
        if not np.all((whole >= limits.min) & (whole <= limits.max)):
            raise ValueError("numbers that the type cannot hold become any")
    return np.asarray(data != 0) if kind.kind == "b" else data.astype(kind)


def _clip(data: Array, low: Array | None = None, high: Array | None = None) -> Array:
    found = data if low is None else np.maximum(data, low)
    return found if high is None else np.minimum(found, high)


def _fill(shape: Array, value: Array | None = None) -> Array:
    filling = np.zeros(1, np.float32) if value is None else value
    return np.full(ints(shape), filling.reshape(-1)[0], filling.dtype)


def _range(start: Array, limit: Array, delta: Array) -> Array:
    values = (value.reshape(())[()] for value in (start, limit, delta))
    return np.arange(*values, dtype=start.dtype)


def _reduced(function: Callable[..., Any], grows: bool = False) -> Callable[..., Array]:
    """`grows`: what 64 bits cannot hold is an error, not another number."""

    def run(
        data: Array, axes: Any = None, keep_dims: bool = True, noop_without_axes: bool = True
    ) -> Array:
        places = () if axes is None else ints(axes)
        if not places and noop_without_axes:
            return data
        options: Any = {"axis": places or None, "keepdims": bool(keep_dims)}
        found = np.asarray(function(data, **options)).astype(data.dtype)
        if grows and np.any(np.abs(function(data.astype(np.float64), **options)) > WRAPS):
            raise OverflowError
        return found

    return run


SHAPED: dict[str, Callable[..., Array]] = {
    "rank": lambda shape: np.array(shape.size),
    "shape": lambda shape, start=0, end=None: shape[start:end],
    "size": lambda shape: np.array(prod(ints(shape))),
}
# Of floats every host takes these in its own order, or rounds them in its own way.
ROUNDED: dict[str, Callable[..., Array]] = PAIRS | {
    "cumsum": lambda data, axis: np.cumsum(data, axis=_one(axis), dtype=data.dtype),
    "mean": _reduced(np.mean),
    "range": _range,
    "reduce_max": _reduced(np.max),
    "reduce_min": _reduced(np.min),
    "reduce_prod": _reduced(np.prod, grows=True),
    "reduce_sum": _reduced(np.sum, grows=True),
}
MEANINGS: dict[str, Callable[..., Any]] = MOVEMENT | ELEMENTWISE | ROUNDED | SHAPED | {
    "broadcast_shapes": lambda a, b: np.array(np.broadcast_shapes(ints(a), ints(b)), a.dtype),
    "cast": _cast,
    "clip": _clip,
    "coordinates": lambda data: np.argwhere(data).astype(np.int64),
    "fill": _fill,
    "scatter_new": _scatter_new,
    "nonzero": lambda data: np.array(np.nonzero(np.atleast_1d(data)), np.int64),
}  # fmt: skip
