"""Meanings in numpy of the ops that write elements at indices. Where hosts may differ from numpy
(reductions, and two updates of one element along an axis), the functions raise ValueError."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir.graph import Array
from tflgpu_plugin.ir.symbolic import integer


def assigned(
    data: Array, indices: Array, updates: Array, count: Array | None = None, *,
    reduction: str, wraps: bool = False,
) -> Array:  # fmt: skip
    """Returns a copy of the tensor with the updates written to their indices."""
    if count is not None or reduction != "none" or (not wraps and np.any(indices < 0)):
        raise ValueError("hosts take this otherwise")
    found = data.copy()
    found[tuple(np.moveaxis(indices, -1, 0))] = updates
    return found


def assigned_along(
    data: Array, indices: Array, updates: Array, *, axis: int, reduction: str, wraps: bool = False
) -> Array:
    """Returns a copy of the tensor with the updates written to their indices along the axis. Raises
    ValueError or IndexError if an index repeats or lies outside, or the shapes do not fit."""
    if reduction != "none" or indices.dtype == object:
        raise ValueError("hosts take this otherwise")
    if indices.ndim != data.ndim or indices.shape != updates.shape:
        raise ValueError("the shapes do not fit")
    if np.any(indices < (-data.shape[axis] if wraps else 0)):
        raise IndexError("an index is negative, or before the first element")
    places = [*np.indices(indices.shape)]
    places[axis] = np.where(indices < 0, indices + data.shape[axis], indices)
    listed = np.stack(places).reshape(data.ndim, -1)
    if len(np.unique(listed, axis=1).T) < listed.shape[1]:
        raise ValueError("an index repeats")
    found = data.copy()
    found[tuple(places)] = updates
    return found


def added(indices: Array, updates: Array, shape: Array, reduction: str) -> Array:
    """Returns the updates added to zeros. Raises ValueError if an index repeats, because hosts may
    round sums of several updates differently."""
    extents = tuple(integer(extent) for extent in shape.reshape(-1))
    places = indices.reshape(-1, indices.shape[-1])
    inside = np.all((places >= 0) & (places < extents[: places.shape[1]]))
    if reduction != "add" or not inside or len(np.unique(places, axis=0)) < len(places):
        raise ValueError("hosts take this otherwise")
    found = np.zeros(extents, updates.dtype)
    found[tuple(np.moveaxis(indices, -1, 0))] += updates
    return found
