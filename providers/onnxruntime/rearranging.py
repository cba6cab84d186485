"""Rows that move elements without computing: shapes, slices, joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.frontend.fold import bounded
from tflgpu_plugin.ir.quantization import COUNTS

from .expansion import Expansion, Impossible, Unfit


def same(e: Expansion) -> int:
    """The input under another name."""
    return e.reshape(e.x(), e.shape(e.x()))


def reshape(e: Expansion) -> int:
    """0 keeps an extent unless allowzero is set."""
    shape, wanted = e.shape(e.x()), [int(n) for n in e.value(1).reshape(-1)]
    if not e.integer("allowzero"):
        if any(n == 0 and k >= len(shape) for k, n in enumerate(wanted)):
            raise Impossible(f"Shape {wanted} keeps an extent that {list(shape)} does not have.")
        wanted = [shape[k] if n == 0 else n for k, n in enumerate(wanted)]
    return e.reshape(e.x(), wanted)


def flatten(e: Expansion) -> int:
    shape = e.shape(e.x())
    axis = e.integer("axis", 1)
    axis += len(shape) if axis < 0 else 0
    rows = int(np.prod(shape[:axis], dtype=np.int64))
    return e.reshape(e.x(), (rows, int(np.prod(shape[axis:], dtype=np.int64))))


def _axes(e: Expansion, since: int) -> tuple[int, ...] | None:
    """Axes as the second input from opset `since` on, before that as an attribute."""
    if e.version < since:
        return e.integers("axes")
    given = e.optional(1)
    return None if given is None else tuple(int(axis) for axis in given.reshape(-1))


def squeeze(e: Expansion) -> int:
    shape, axes = e.shape(e.x()), _axes(e, 13)
    if axes is None:
        axes = tuple(k for k, extent in enumerate(shape) if extent == 1)
    gone = {e.axis(axis, len(shape)) for axis in axes}
    if any(shape[axis] != 1 for axis in gone):
        raise Impossible(f"Axes {sorted(gone)} of shape {list(shape)} are not all of extent 1.")
    return e.reshape(e.x(), [n for k, n in enumerate(shape) if k not in gone])


def unsqueeze(e: Expansion) -> int:
    shape, axes = e.shape(e.x()), _axes(e, 13)
    if axes is None:
        raise Unsupported("axes is missing.")
    rank = len(shape) + len(axes)
    new = {e.axis(axis, rank) for axis in axes}
    old = iter(shape)
    return e.reshape(e.x(), [1 if k in new else next(old) for k in range(rank)])


def transpose(e: Expansion) -> int:
    rank = e.rank(e.x())
    perm = e.integers("perm") or tuple(range(rank))[::-1]
    if sorted(perm) != list(range(rank)):
        raise Unsupported(f"perm {list(perm)} does not order {rank} axes.")
    return e.add("transpose", e.x(), perm=perm)


def concat(e: Expansion) -> int:
    given = [e.x(k) for k in range(len(e.inputs))]
    axis = e.axis(e.integer("axis"), e.rank(given[0]))
    return e.add("concat", *given, axis=axis, activation="none")


def cut(e: Expansion, x: int, ranges: Sequence[slice]) -> int:
    """A slice of every axis, with the meaning of Python's slices."""
    shape = e.shape(x)
    begin, end, step, mask = [], [], [], 0
    for axis, (wanted, extent) in enumerate(zip(ranges, shape, strict=True)):
        start, stop, stride = wanted.indices(extent)
        if stop < 0:  # before the first element: counted from the end it would mean another
            mask |= 1 << axis
        begin.append(start)
        end.append(stop)
        step.append(stride)
    return e.add("strided_slice", x, *map(e.index, (begin, end, step)), end_mask=mask)


def slices(e: Expansion) -> int:
    """Slice, with starts and the like as attributes (before opset 10) or constant inputs."""
    x = e.x()
    rank = e.rank(x)
    if e.version < 10:
        starts, ends = e.integers("starts") or (), e.integers("ends") or ()
        axes, steps = e.integers("axes"), None
    else:
        starts, ends = (_ints(e, position) or () for position in (1, 2))
        axes, steps = _ints(e, 3), _ints(e, 4)
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Unsupported("starts, ends, axes and steps must have one length, and no step is 0.")
    ranges = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = e.axis(axis, rank)
        ranges[at] = bounded(start, end, step, e.shape(x)[at])
    return cut(e, x, ranges)


def _ints(e: Expansion, position: int) -> tuple[int, ...] | None:
    found = e.optional(position)
    return None if found is None else tuple(int(n) for n in found.reshape(-1))


def split(e: Expansion) -> list[int]:
    """Parts of given or of equal extents, each a slice."""
    x, count = e.x(), len(e.host.outputs)
    shape = e.shape(x)
    axis = e.axis(e.integer("axis"), len(shape))
    sizes = e.integers("split") if e.version < 13 else _ints(e, 1)
    if sizes is None:
        sizes = _equal_parts(e, shape[axis], count)
    if len(sizes) != count or sum(sizes) != shape[axis] or min(sizes) < 0:
        raise Impossible(f"Parts of {list(sizes)} do not make up an extent of {shape[axis]}.")
    found, start = [], 0
    for size in sizes:
        ranges = [slice(None)] * len(shape)
        ranges[axis] = slice(start, start + size)
        found.append(cut(e, x, ranges))
        start += size
    return found


def _equal_parts(e: Expansion, extent: int, count: int) -> tuple[int, ...]:
    """From opset 18 on the last part may be smaller, but not empty."""
    part = -(-extent // count)
    sizes = tuple(max(0, min(part, extent - k * part)) for k in range(count))
    if (sizes[-1] < 1) if e.version >= 18 else (sizes[-1] != part):
        raise Unfit(f"An extent of {extent} cannot be split into {count} equal parts.")
    return sizes


def pad(e: Expansion) -> int:
    """Padding; negative amounts cut first."""
    mode = e.text("mode", "constant")
    x = e.x()
    rank = e.rank(x)
    if e.version < 11:
        amounts, value = e.integers("pads") or (), e.number("value", 0.0)
    else:
        amounts = _ints(e, 1) or ()
        given = e.optional(2)
        value = 0.0 if given is None or not given.size else float(given.reshape(-1)[0])
    axes = _ints(e, 3) if e.version >= 18 else None
    axes = tuple(range(rank)) if axes is None else axes
    if len(amounts) != 2 * len(axes):
        raise Unsupported(f"pads must be {2 * len(axes)} numbers.")
    table = np.zeros((rank, 2), np.int64)
    for k, axis in enumerate(axes):
        table[e.axis(axis, rank)] = amounts[k], amounts[k + len(axes)]
    if table.min(initial=0) < 0:
        shape = e.shape(x)
        ranges = [slice(max(0, -b), n - max(0, -a)) for (b, a), n in zip(table, shape, strict=True)]
        x, table = cut(e, x, ranges), np.maximum(table, 0)
    filling = e.const(value)
    if e.tensors.table[x].dtype in COUNTS:
        filling = e.x(2) if e.has(2) else e.const(0, np.int32)
    return e.add("pad", x, e.index(table), filling, mode=mode)


def tile(e: Expansion) -> int:
    """Every axis repeated."""
    return e.add("tile", e.x(), e.index(e.value(1).reshape(-1)))


def expand(e: Expansion) -> int:
    """Broadcast to a shape, both ways."""
    return e.add("expand", e.x(), e.index(e.value(1).reshape(-1)))


def gather(e: Expansion) -> int:
    """Indices along one axis, those below 0 counted from its end."""
    axis = e.axis(e.integer("axis"), e.rank(e.x()))
    return e.add("gather", e.x(), _places(e), axis=axis, wraps=True)


def gather_nd(e: Expansion) -> int:
    """Indices along the first axes, or those behind the batch."""
    return e.add("gather_nd", e.x(), _places(e), batch=e.integer("batch_dims"), wraps=True)


def indexed(op: str, **defaults: int) -> Callable[[Expansion], int]:
    """A row with a tensor of places or lengths; attributes are whole numbers."""

    def row(e: Expansion) -> int:
        given: dict[str, Any] = {name: e.integer(name, n) for name, n in defaults.items()}
        return e.add(op, e.x(), _places(e), **given)

    return row


def _places(e: Expansion) -> int:
    known = e.constant(e.x(1))
    return e.x(1) if known is None else e.index(known)


def blocks(op: str) -> Callable[[Expansion], int]:
    """Between channels and blocks of the image."""

    def row(e: Expansion) -> int:
        x = e.channels_last(e.x())
        mode = e.text("mode", "DCR")
        return e.channels_first(e.add(op, x, block=e.integer("blocksize", 1), mode=mode))

    return row


def crop(e: Expansion) -> int:
    """The old operator Crop: border (left, top, right, bottom), or a scale (height, width)."""
    x = e.x()
    shape = e.shape(x)
    left, top, right, bottom = e.integers("border") or (0, 0, 0, 0)
    scale = e.integers("scale")
    height, width = scale or (shape[2] - top - bottom, shape[3] - left - right)
    ranges = [slice(None), slice(None), slice(top, top + height), slice(left, left + width)]
    return cut(e, x, ranges)
