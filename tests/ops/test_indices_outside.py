"""Indices of a run that lie outside: a gather takes the nearest element, a scatter leaves out the
update, on every axis and on either side; nothing else is read or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.harness import device_of
from tests.support.net import Net
from tflgpu_plugin import native
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array
from tflgpu_plugin.runtime.program import Instance, Program

pytestmark = pytest.mark.adapter
SHAPE = (3, 4, 5)
FAR = [-99, -6, -1, 0, 1, 2, 3, 4, 7, 10**6]  # outside of each axis on both sides, and inside


def run(op: str, given: list[Array], result: tuple[int, ...], **attributes: Any) -> Array:
    b, device = Net(), device_of()
    types = ["i32" if array.dtype.kind == "i" else "f32" for array in given]
    reads = [b.input(a.shape, kind) for a, kind in zip(given, types, strict=True)]
    y = b.op(op, *reads, **attributes)
    plan = compiler.compile(b.graph(y), device.target)
    return Instance(Program(plan, device.handle, device.pipelines)).run(given, [])[0]


def held() -> Array:
    return np.arange(1, 61, dtype=np.float32).reshape(SHAPE)


def rows(width: int) -> Array:
    """Returns coordinates on the first axes: each far value on each axis, with all others
    inside."""
    inside = np.ones((len(FAR) * width, width), np.int32)
    for axis in range(width):
        inside[axis * len(FAR) : (axis + 1) * len(FAR), axis] = FAR
    return inside


def wrapped(index: Array, extents: Any, wraps: bool) -> Array:
    return np.where(index < 0, index + extents, index) if wraps else index


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_gather_nd_takes_the_nearest(width: int, wraps: bool) -> None:
    x, index = held(), rows(width)
    extents = np.array(SHAPE[:width])
    near = np.clip(wrapped(index, extents, wraps), 0, extents - 1)
    wanted = x[tuple(near.T)]
    got = run("gather_nd", [x, index], wanted.shape, batch=0, wraps=wraps)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_elements_takes_the_nearest(axis: int, wraps: bool) -> None:
    x = held()
    shape = (*SHAPE[:axis], len(FAR), *SHAPE[axis + 1 :])
    index = np.empty(shape, np.int32)
    np.moveaxis(index, axis, -1)[:] = FAR
    near = np.clip(wrapped(index, SHAPE[axis], wraps), 0, SHAPE[axis] - 1)
    got = run("gather_elements", [x, index], shape, axis=axis, wraps=wraps)
    np.testing.assert_array_equal(got, np.take_along_axis(x, near, axis))


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_scatter_nd_leaves_out_what_is_outside(width: int, wraps: bool) -> None:
    x, index = held(), rows(width)
    updates = -np.arange(1, len(index) * held()[0].size + 1, dtype=np.float32)
    updates = updates[: len(index) * int(np.prod(SHAPE[width:]))]
    updates = updates.reshape(len(index), *SHAPE[width:])
    wanted, extents = x.copy(), np.array(SHAPE[:width])
    for at, update in zip(wrapped(index, extents, wraps), updates, strict=True):
        if ((at >= 0) & (at < extents)).all():
            wanted[tuple(at)] = update
    given = [x, index, updates]
    got = run("scatter_nd", given, SHAPE, reduction="none", wraps=wraps)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_elements_leaves_out_what_is_outside(axis: int, wraps: bool) -> None:
    x = held()
    shape = (*SHAPE[:axis], len(FAR), *SHAPE[axis + 1 :])
    index = np.empty(shape, np.int32)
    np.moveaxis(index, axis, -1)[:] = FAR
    updates = -np.arange(1, index.size + 1, dtype=np.float32).reshape(shape)
    wanted = x.copy()
    for place in np.ndindex(shape):
        at = int(wrapped(index[place], SHAPE[axis], wraps))
        if 0 <= at < SHAPE[axis]:
            wanted[(*place[:axis], at, *place[axis + 1 :])] = updates[place]
    given = [x, index, updates]
    got = run("scatter_elements", given, SHAPE, axis=axis, reduction="none", wraps=wraps)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize(("index", "outside"), [(0, False), (3, False), (4, True), (-1, None),
                                                (-4, None), (-5, True)])  # fmt: skip
def test_a_gather_that_raises_flags_what_is_outside(
    index: int, outside: bool | None, wraps: bool
) -> None:
    """The last element of each axis and the one behind it; None: where nothing wraps."""
    x, rows = held(), np.array([[1, 1], [2, index], [0, 2]], np.int32)
    fails = not wraps if outside is None else outside
    more: dict[str, Any] = {"batch": 0, "wraps": wraps, "raises": True}
    if fails:
        with pytest.raises(native.NativeError):
            run("gather_nd", [x, rows], (3, 5), **more)
        return
    wanted = x[tuple(wrapped(rows, np.array(SHAPE[:2]), wraps).T)]
    np.testing.assert_array_equal(run("gather_nd", [x, rows], (3, 5), **more), wanted)
