"""Data movement: results that are views of an input. A result stored exactly like its input needs
no launch. Otherwise it is read by the first of three forms of gather.wgsl that fits: `vectors`
(vec4 by vec4), `lanes` (vec4 of the output from four floats), `elements` (both sides as flat
row-major lists)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import (
    Array,
    Geometry,
    Graph,
    Node,
    Refusal,
    Shape,
    Target,
    geometry,
    is_integer,
)
from tflgpu_plugin.ir.symbolic import always_divides, always_equal, equal_by_example, example, i32
from tflgpu_plugin.ops.axes import Axis, Fold, aligned, merged
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import (
    WORKGROUP,
    Access,
    Constant,
    Hosted,
    Kernel,
    Lowering,
    Raw,
    Source,
    Stores,
)
from tflgpu_plugin.ops.table import MOVED, Op, unplanned
from tflgpu_plugin.ops.views import View, coordinates, row_strides

MAX_AXES = 5  # highest rank of tensors in planar storage
MAX_JOINED = 8  # axes of views that passes make, limited by the uniform block
MAX_WALKED = 12  # axes of any view

ANY = ("f32", "bool", "i32")

Views = Callable[[Graph, Node], Sequence[View]]
Row = tuple[Axis, ...]  # an axis, once per number that it advances
ONE: list[Row] = [(Axis(1, 1),)]


def moving(name: str, views: Views, needs: str, **traits: Any) -> Op:
    """Returns an op whose results are views of its first input. `views` raises ValueError where
    there are none; `needs` is the condition for the documentation."""

    def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
        if found := unplanned(name, views, graph, node):
            return found
        many = len(graph.shape(node.operand())) > MAX_AXES
        return refuse_walk(name, views(graph, node)) if many else None

    def shapes(graph: Graph, node: Node) -> list[Shape]:
        return [view.shape for view in views(graph, node)]

    refuse.__doc__ = needs
    usual = {"types": ANY, "kind": "movement", "keeps": "first", "errors": MOVED}
    return Op(name, refuse, shapes, lower, "exact", views=views, **usual | traits)


def refuse_walk(name: str, views: Sequence[View]) -> Refusal | None:
    """Returns the `refuse` function of ops with these views. It refuses views that need more axes
    than a launch has parameters for, including the axes of copies and blocks."""
    most = max(len(view.simple.axes) for view in views)
    if most <= MAX_WALKED:
        return None
    said = f"{name} needs {most} axes, including copies; {MAX_WALKED} are supported."
    return Refusal("rank.too_large", said)


def moves(node: Node) -> bool:
    """Whether the node's op moves data to a single result."""
    return ops.traits(node.op).views is not None and len(node.outputs) == 1


def view_of(graph: Graph, node: Node) -> View | None:
    """Returns the view that a node with one result computes, or None if it does not move data."""
    views = ops.rows()[node.op].views if moves(node) else None
    if views is None:
        return None
    try:
        (view,) = views(graph, node)
    except ValueError:
        return None
    return view


def decompose_parts(steps: Decomposition, node: Node) -> bool:
    """Replaces a node with several results by one view per result."""
    views = ops.rows()[node.op].views
    assert views is not None
    for output, view in zip(node.outputs, views(steps.graph, node), strict=True):
        steps.put(output, "view", node.operand(), view=view)
    return True


def lower(low: Lowering, node: Node) -> None:
    """Makes the node's output a view of its first input, by a launch if necessary."""
    view = view_of(low.graph, node)
    assert view is not None
    given, output = node.operand(), node.outputs[0]
    inside, stored = low.geometry(given), low.geometry(output)
    reading = read(view, inside, stored)
    if not node.epilogue and reading.in_place(inside, stored):
        low.alias(output, given)
        return
    if not node.epilogue and turned(view, inside):
        low.turned[output] = given
    source = low.stored(given)
    if (raw := host_buffer(low, given, reading.form == "vectors")) is not None:
        source, inside = raw, geometry((inside.batch * inside.spatial * inside.channels,))
        reading = read(view, inside, stored)
        if not node.epilogue and (strides := _strides(view)):
            low.hosted[output] = Hosted(raw, strides)
    value = np.int32(view.value) if is_integer(low.graph.tensors[output]) else float(view.value)
    reads: dict[str, Source | Access] = {"x": Access(source, 4 if reading.form == "vectors" else 1)}
    if reading.lookups:
        reads["table"] = Access(_table(list(reading.lookups.values())), 1)
    # Pad lanes must be zero even if the view reads a part of the input's channels: `zeros`.
    end = reading.channel + stored.channels
    zeros = always_divides(4, stored.channels) or always_equal(end, inside.channels)
    zeros = zeros or bool(node.attributes.get("zeros"))
    low.each_vector(
        Kernel(
            "gather",
            {"value": value, **reading.parameters(inside, stored)},
            {
                "form": reading.form,
                "rank": len(reading.rows),
                "lane": reading.lane,
                "lookups": tuple(reading.lookups),
                "folds": tuple((k, fold.mode) for k, fold in reading.folds.items()),
            },
        ),
        node,
        reads,
        writes=("y",),
        stores=Stores(takes=None if node.epilogue or not zeros else reading.block),
    )


def workgroups(threads: int) -> tuple[int, int, int]:
    """Returns the number of workgroups of a one-dimensional launch."""
    return (-(-threads // WORKGROUP), 1, 1)


@dataclass(frozen=True)
class Reading:
    """How a form reads a view: its axes, slowest first, and its origin `base`. A row holds an axis
    once per number that it advances (`vectors`: vec4; `lanes`: pixels in floats, and channels;
    `elements`: elements). In form `lanes`, `lane` is the axis along the lanes of a vec4."""

    form: str
    rows: list[Row]
    base: int
    channel: int = 0
    lane: int = 0

    @property
    def block(self) -> int | None:
        """Returns the first vec4 of the input that the output consists of, if it is a contiguous
        range of the input, else None."""
        (first, *_), *others = self.rows
        whole = self.form == "vectors" and first.straight and not others
        return self.base if whole and (first.stride == 1 or first.extent == 1) else None

    @property
    def lookups(self) -> dict[int, Array]:
        found = {k: row[0].lookup for k, row in enumerate(self.rows)}
        return {k: each for k, each in found.items() if isinstance(each, np.ndarray)}

    @property
    def folds(self) -> dict[int, Fold]:
        found = {k: row[0].lookup for k, row in enumerate(self.rows)}
        return {k: each for k, each in found.items() if isinstance(each, Fold)}

    def in_place(self, inside: Geometry, stored: Geometry) -> bool:
        """Whether the output is stored exactly like the input."""
        if equal_by_example(inside, stored):
            return self.block == 0
        same = self.block == 0 and inside.vectors == stored.vectors
        return same and all(always_divides(4, n) for n in (inside.channels, stored.channels))

    def parameters(self, inside: Geometry, stored: Geometry) -> dict[str, object]:
        """Returns the launch's parameters for the view and each axis."""
        found: dict[str, object] = {"base": i32(self.base)}
        if self.form == "lanes":
            found |= {"channel": i32(self.channel), "in_plane": i32(4 * inside.spatial)}
        if self.form == "elements":
            found |= {"channels": stored.channels, "in_channels": inside.channels}
            found |= {"in_slices": inside.slices, "in_spatial": inside.spatial}
        start = 0
        for k, (axis, *channel) in enumerate(self.rows):
            in_slices = self.form == "lanes" and k == self.lane
            found |= {f"d{k}": -(-axis.extent // 4) if in_slices else axis.extent}
            found |= {f"low{k}": axis.low, f"span{k}": max(axis.stop - axis.low, 0)}
            found |= {f"k{k}": i32(axis.stride)}
            found |= {f"c{k}": i32(each.stride) for each in channel}
            if isinstance(axis.lookup, Fold):
                found |= {
                    f"before{k}": i32(axis.lookup.before),
                    f"last{k}": i32(axis.lookup.extent - 1),
                }
            elif axis.lookup is not None:
                found |= {f"table{k}": start}
                start += len(axis.lookup)
        return found


def read(view: View, inside: Geometry, stored: Geometry) -> Reading:
    """Returns the first form that can read this view of a tensor in one storage into another."""
    if equal_by_example(inside, stored) and view.contiguous:
        return Reading("vectors", [(Axis(stored.vectors, 1),)], 0)
    found = _in_storage_order(view, inside, stored)
    return found or Reading("elements", [(axis,) for axis in view.simple.axes], view.offset)


def _in_storage_order(view: View, inside: Geometry, stored: Geometry) -> Reading | None:
    """Returns a reading by `vectors` or `lanes`, over batches, channels and pixels of the output;
    None if neither can read the view."""
    extents = [(g.batch, g.spatial, g.channels) for g in (inside, stored)]
    groups = aligned(view.axes, extents[1])
    if groups is None:
        return None
    axes = tuple(axis for group in groups for axis in group)
    found = coordinates(replace(view, axes=axes), extents[0])
    groups = None if found is None else aligned(found.axes, extents[1])
    if found is None or groups is None:
        return None
    batch, pixel, channel = found.starts
    plane = inside.spatial
    base = batch * inside.slices * plane + pixel
    batches, space, lane = (
        [_row(axis, found.steps[found.axes.index(axis)], inside) for axis in group]
        for group in groups
    )
    if _whole_slices(batches + space, lane, channel, view.value, inside.channels):
        slices = [*batches, *lane[:-1], *map(_in_slices, lane[-1:]), *space]
        whole = [(at.by(at.stride + c.stride // 4 * plane),) for at, c in slices]
        return Reading("vectors", merged(whole) or ONE, base + channel // 4 * plane, channel)
    if len(lane) > 1:
        return None
    outer = merged(batches)
    rows = [*outer, *(lane or [(Axis(1), Axis(1))]), *merged(space)]
    floats: list[Row] = [(at.by(4 * at.stride), c) for at, c in rows]
    return Reading("lanes", floats, 4 * base, channel, len(outer))


def _row(axis: Axis, steps: Sequence[int], inside: Geometry) -> Row:
    """Returns an axis twice: with its stride in vec4 of the input, and with its stride in
    channels."""
    batches, pixels, channels = steps
    distance = batches * inside.slices * inside.spatial + pixels
    return axis.by(distance), axis.by(channels)


def _in_slices(row: Row) -> Row:
    """Returns an axis along the channels that advances by one slice (four channels) per element."""
    at, c = row
    extent, low, stop = (-(-n // 4) for n in (c.extent, c.low, c.stop))
    return Axis(extent, at.stride, low, stop), Axis(extent, 4 * c.stride, low, stop)


def _whole_slices(
    others: Sequence[Row], lane: Sequence[Row], start: int, value: float, channels: int
) -> bool:
    """Whether every vec4 of the output is a vec4 of the input, or all padding."""
    others = [*others, *lane[:-1]]
    if not all(map(_whole, (start, *(c.stride for _, c in others)))):
        return False
    if not lane:
        return True
    at, c = lane[-1]
    if at.stride or c.stride != 1 or c.lookup is not None or not _whole(c.low):
        return False
    # Lanes past the input's channels hold zero, so padding may begin within a slice when its value
    # is zero, too.
    at_end = value == 0.0 and start + c.stop == channels and not any(c.stride for _, c in others)
    if len(lane) > 1 and not (_whole(c.extent) and _whole(c.stop)):
        return False
    return not c.padded or _whole(c.stop) or at_end


def _whole(number: int) -> bool:
    """Whether a number is a multiple of 4 for all values of symbols, or is 0 for the present shapes
    (polynomials cannot always prove that it is 0 for all shapes)."""
    return always_divides(4, number) or (example(number) == 0 and number == 0)


def turned(view: View, inside: Geometry) -> bool:
    """Whether the result is the input transposed to channels-first."""
    batch, _, spatial, channels = inside
    axes = Axis(batch, channels * spatial), Axis(channels, 1), Axis(spatial, channels)
    return replace(view, axes=axes, offset=0).key == view.key


def host_buffer(low: Lowering, given: int, alone: bool = True) -> Raw | None:
    """Returns the host's buffer of an input, if it is row-major. With `alone`, only if there is no
    other reader, so that the input need not be converted to device storage."""
    hosted, shape = low.hosted.get(given), low.graph.shape(given)
    if hosted is None or hosted.strides != row_strides(shape):
        return None
    readers = sum(node.reads.count(given) for node in low.graph.nodes)
    only = readers == 1 and given not in low.graph.outputs
    return hosted.raw if only or not alone else None


def _strides(view: View) -> tuple[int, ...] | None:
    """Returns the input's stride along each axis of the result; None if strides alone cannot
    describe the view."""
    axes = view.one_each
    if view.offset or axes is None or not all(axis.straight for axis in axes):
        return None
    return tuple(axis.stride for axis in axes)


def _table(lookups: Sequence[Array]) -> Constant:
    """Returns the indices as an int32 constant, one list after another."""
    entries = np.concatenate(lookups).astype(np.int32)
    key = ("lookup", entries.tobytes())
    padded = np.pad(entries, (0, -entries.size % 4))
    return Constant(key, padded.size // 4, lambda: padded.view(np.uint8), padded, int32=True)


def vector_strides(shape: Shape) -> tuple[int, ...]:
    """Returns the strides in vec4 in device storage, for ranks 0 to 5; on the last axis that of
    slices."""
    if len(shape) < 2:
        return (1,) * len(shape)
    stored = geometry(shape)
    spatial = tuple(prod(shape[axis + 1 : -1]) for axis in range(1, len(shape) - 1))
    return (stored.slices * stored.spatial, *spatial, stored.spatial)
