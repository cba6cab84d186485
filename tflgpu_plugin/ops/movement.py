"""Data movement by one kernel: every output element is picked from the input, or is a pad value.

Serves reshape, strided slice, pad, transpose, tile, expand and gather by constant indices. Three
forms of gather.wgsl, the first that fits: `vectors` (whole vec4), `lanes` (the output in storage
order, four single floats each), `elements` (both sides as flat row-major lists).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tflgpu_plugin.ir.graph import Array, Node, Shape, geometry
from tflgpu_plugin.ops.lowering import Access, Constant, Lowering, Source

WORKGROUP = 64
MAX_AXES = 5


@dataclass(frozen=True)
class Axis:
    """One output axis: coordinate x reads input coordinate `start + step * x` on axis `source` of
    the input.

    Outside `low <= x < high` (default: the extent) the pad value is taken. `source` None repeats
    along the axis. With `lookup`, an int array of one entry per place, coordinate x reads input
    coordinate `lookup[x]` instead.
    """

    extent: int
    source: int | None = None
    start: int = 0
    step: int = 1
    low: int = 0
    high: int | None = None
    lookup: Array | None = None

    @property
    def stop(self) -> int:
        return self.extent if self.high is None else self.high

    @property
    def padded(self) -> bool:
        return self.low > 0 or self.stop < self.extent


@dataclass(frozen=True)
class Walk:
    """An `Axis` in memory units: `stride` is the distance between neighbours in the input,
    `channel` the step of the input's channel where the axis runs over it (form `lanes`)."""

    extent: int = 1
    stride: int = 0
    low: int = 0
    stop: int = 1
    channel: int = 0
    lookup: Array | None = None

    @property
    def straight(self) -> bool:
        """Every coordinate is read, and where it lies."""
        return self.low == 0 and self.stop >= self.extent and self.lookup is None


def row_strides(shape: Shape) -> tuple[int, ...]:
    """Elements between neighbours on each axis, row-major."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def vector_strides(shape: Shape) -> tuple[int, ...]:
    """Vec4 between neighbours on each axis in device storage, ranks 0 to 5; on the last axis,
    between quads."""
    if len(shape) < 2:
        return (1,) * len(shape)
    stored = geometry(shape)
    spatial = tuple(prod(shape[axis + 1 : -1]) for axis in range(1, len(shape) - 1))
    return (stored.quads * stored.spatial, *spatial, stored.spatial)


def storage_order(rank: int) -> tuple[int, ...]:
    """Logical axes of a tensor of rank 0 to 5, slowest in device storage first: batch, channel
    quads, space."""
    return tuple(range(rank)) if rank < 2 else (0, rank - 1, *range(1, rank - 1))


def move(
    low: Lowering,
    node: Node,
    axes: Sequence[Axis],
    fixed: Mapping[int, int] | None = None,
    value: float = 0.0,
    view: Shape | None = None,
    source: Source | None = None,
) -> None:
    """Launch the gather that makes the node's first output from its first input.

    `axes` describe the output (their extents multiply to its element count; at most 5), `fixed`
    holds coordinates of input axes that no output axis reads, `value` is the pad value. `view` is
    another row-major shape of the same input; then the axes may be those of a view of the output,
    too. `source` is a row-major buffer to read instead of the input's storage (`view` must be
    given).
    """
    given, output = node.inputs[0], node.outputs[0]
    assert given is not None and len(axes) <= MAX_AXES
    shape, target = low.graph.shape(given), low.graph.shape(output)
    fixed, stored = fixed or {}, low.geometry(output)
    inside = geometry(shape)
    parameters: dict[str, object] = {"vectors": stored.vectors, "value": float(value)}
    parameters |= {"spatial": stored.spatial, "quads": stored.quads}
    direct = view is None and tuple(axis.extent for axis in axes) == target
    if direct and _whole_quads(shape, target, axes, value):
        form, (walks, base) = "vectors", _vector_walks(shape, axes, fixed)
        parameters |= {"base": np.int32(base)}
    elif direct and max(len(shape), len(target)) <= MAX_AXES:
        form = "lanes"
        walks, base, channel = _lane_walks(shape, axes, fixed)
        parameters |= {"base": np.int32(base), "channel": np.int32(channel)}
        parameters |= {"in_plane": np.int32(4 * inside.spatial)}
    else:
        form, (walks, base) = "elements", _element_walks(view or shape, axes, fixed)
        parameters |= {"base": np.int32(base), "channels": stored.channels}
        parameters |= {"in_channels": inside.channels if source is None else prod(shape)}
        parameters |= {"in_quads": inside.quads, "in_spatial": inside.spatial}
        if source is not None:
            parameters |= {"in_quads": -(-prod(shape) // 4), "in_spatial": 1}
    walks = walks if form == "lanes" else _merged(walks)
    parameters |= _walk_parameters(walks, form)
    reads: dict[str, Source | Access] = {
        "x": Access(low.stored(given) if source is None else source, 4 if form == "vectors" else 1)
    }
    lookups = {k: walk.lookup for k, walk in enumerate(walks) if walk.lookup is not None}
    if lookups:
        reads["table"] = Access(_table(list(lookups.values())), 1)
        starts = np.cumsum([0, *map(len, lookups.values())])
        parameters |= {f"table{k}": int(at) for k, at in zip(lookups, starts, strict=False)}
    low.dispatch(
        "gather",
        node,
        reads,
        {"y": output},
        grid(stored.vectors),
        parameters,
        {"form": form, "rank": len(walks), "lookups": tuple(lookups)},
    )


def _table(lookups: Sequence[Array]) -> Constant:
    """Indices as float32 (exact below 2**24), one list after the other."""
    entries = np.concatenate(lookups).astype(np.float32)
    key = ("lookup", entries.tobytes())
    padded = np.pad(entries, (0, -entries.size % 4))
    return Constant(key, padded.size // 4, lambda: padded, padded)


def grid(threads: int) -> tuple[int, int, int]:
    """Workgroups of a one-dimensional launch."""
    return (-(-threads // WORKGROUP), 1, 1)


def untouched(axes: Sequence[Axis], fixed: Mapping[int, int], shape: Shape) -> bool:
    """Whether the axes read every element of an input of this shape, in row-major order."""
    read = [axis for axis in axes if axis.source is not None]
    wanted = [(extent, k, 0, 1) for k, extent in enumerate(shape) if k not in fixed]
    return (
        all(shape[axis] == 1 for axis in fixed)
        and all(axis.extent == 1 for axis in axes if axis.source is None)
        and not any(axis.padded or axis.lookup is not None for axis in axes)
        and [(axis.extent, axis.source, axis.start, axis.step) for axis in read] == wanted
    )


def in_place(shape: Shape, target: Shape, axes: Sequence[Axis]) -> bool:
    """Whether the output's storage, read by these axes, is the input's storage as it is."""
    if geometry(shape) != geometry(target) or not _whole_quads(shape, target, axes, 0.0):
        return False
    walks, base = _vector_walks(shape, axes, {})
    extents = [walk.extent for walk in walks]
    wanted = row_strides(tuple(extents))
    same = all(w.extent == 1 or w.stride == s for w, s in zip(walks, wanted, strict=True))
    return base == 0 and same and not any(axis.padded for axis in axes)


def _whole_quads(shape: Shape, target: Shape, axes: Sequence[Axis], value: float) -> bool:
    """Whether every vec4 of the output is one vec4 of the input, or all padding."""
    if not (1 <= len(shape) <= MAX_AXES and 1 <= len(target) <= MAX_AXES):
        return False
    last, channel = axes[-1], len(shape) - 1
    if last.source != channel or last.step != 1 or last.start % 4 or last.lookup is not None:
        return False
    if any(a.source == channel for a in axes[:-1]):
        return False
    # Lanes past the input's channels hold zero, so padding may begin within a quad when its value
    # is zero, too.
    whole = last.low % 4 == 0 and last.start == -last.low and last.stop == last.low + shape[-1]
    return not last.padded or (value == 0.0 and whole)


def _vector_walks(
    shape: Shape, axes: Sequence[Axis], fixed: Mapping[int, int]
) -> tuple[list[Walk], int]:
    strides = vector_strides(shape)
    base = sum(strides[axis] * at for axis, at in fixed.items())
    walks = []
    for k in storage_order(len(axes)):
        axis = axes[k]
        stride = 0 if axis.source is None else strides[axis.source]
        unit = 4 if k == len(axes) - 1 else 1
        base += axis.start // unit * stride
        extent, stop = -(-axis.extent // unit), -(-axis.stop // unit)
        step = 1 if axis.lookup is not None else axis.step
        walks.append(Walk(extent, step * stride, axis.low // unit, stop, lookup=axis.lookup))
    return walks, base


def _merged(walks: Sequence[Walk]) -> list[Walk]:
    """The same elements over as few axes as will do: each costs every output a division."""
    kept: list[Walk] = []
    for walk in walks:
        if walk.extent == 1 and walk.straight:
            continue
        last = kept[-1] if kept else None
        if last and last.straight and walk.straight and last.stride == walk.extent * walk.stride:
            extent = last.extent * walk.extent
            kept[-1] = Walk(extent, walk.stride, stop=extent)
        else:
            kept.append(walk)
    return kept or [Walk()]


def _lane_slots(axes: Sequence[Axis]) -> list[Axis]:
    """The axes in the five places of form `lanes`: batch, channels, and space last."""
    unit, rank = Axis(1), len(axes)
    batch = axes[0] if rank > 1 else unit
    channels = axes[-1] if rank else unit
    space = list(axes[1:-1])
    return [batch, channels, *[unit] * (MAX_AXES - 2 - len(space)), *space]


def _lane_walks(
    shape: Shape, axes: Sequence[Axis], fixed: Mapping[int, int]
) -> tuple[list[Walk], int, int]:
    """Walks in floats, with the input's place and channel at the origin."""
    last = len(shape) - 1
    strides = [4 * stride for stride in vector_strides(shape)]
    base = sum(strides[axis] * at for axis, at in fixed.items() if axis != last)
    channel = fixed.get(last, 0)
    walks = []
    for axis in _lane_slots(axes):
        step, start = (1, 0) if axis.lookup is not None else (axis.step, axis.start)
        stride, along = 0, 0
        if axis.source == last:
            channel, along = channel + start, step
        elif axis.source is not None:
            base, stride = base + start * strides[axis.source], step * strides[axis.source]
        walks.append(Walk(axis.extent, stride, axis.low, axis.stop, along, axis.lookup))
    return walks, base, channel


def _element_walks(
    shape: Shape, axes: Sequence[Axis], fixed: Mapping[int, int]
) -> tuple[list[Walk], int]:
    strides = row_strides(shape)
    base = sum(strides[axis] * at for axis, at in fixed.items())
    walks = []
    for axis in axes:
        step, start = (1, 0) if axis.lookup is not None else (axis.step, axis.start)
        stride = 0 if axis.source is None else strides[axis.source]
        base += start * stride
        walks.append(Walk(axis.extent, step * stride, axis.low, axis.stop, lookup=axis.lookup))
    return walks, base


def _walk_parameters(walks: Sequence[Walk], form: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for k, walk in enumerate(walks):
        quads = form == "lanes" and k == 1
        found |= {f"d{k}": -(-walk.extent // 4) if quads else walk.extent}
        found |= {f"k{k}": np.int32(walk.stride)}
        found |= {f"low{k}": walk.low, f"span{k}": max(walk.stop - walk.low, 0)}
        if form == "lanes":
            found |= {f"c{k}": np.int32(walk.channel)}
    return found
