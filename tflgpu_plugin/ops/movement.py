"""Data movement by one kernel: every output element is picked from the input, or is a pad value.

Serves reshape, strided slice and pad; transpose, slice, split, tile and gather by constants fit the
same form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tflgpu_plugin.graph import Graph, Node, Shape, geometry
from tflgpu_plugin.lowering import Access, Lowering

WORKGROUP = 64
MAX_AXES = 5


@dataclass(frozen=True)
class Axis:
    """One output axis: coordinate x reads input coordinate `start + step * x` on axis `source` of
    the input.

    Outside `low <= x < high` (default: the extent) the pad value is taken. `source` None repeats
    along the axis.
    """

    extent: int
    source: int | None = None
    start: int = 0
    step: int = 1
    low: int = 0
    high: int | None = None

    @property
    def stop(self) -> int:
        return self.extent if self.high is None else self.high

    @property
    def padded(self) -> bool:
        return self.low > 0 or self.stop < self.extent


@dataclass(frozen=True)
class Walk:
    """An `Axis` in memory units; `stride` is the distance between neighbours in the input."""

    extent: int
    stride: int
    low: int
    stop: int


def empty_refusal(graph: Graph, node: Node, shape: Shape) -> str | None:
    """A sentence when a result has no elements."""
    if prod(shape):
        return None
    return f"The result of {node.op} is empty ({list(shape)}); give it at least one element."


def row_strides(shape: Shape) -> tuple[int, ...]:
    """Elements between neighbours on each axis, row-major."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def vector_strides(shape: Shape) -> tuple[int, ...]:
    """Vec4 between neighbours on each axis in device storage, ranks 0 to 4; on the last axis,
    between quads."""
    if len(shape) < 2:
        return (1,) * len(shape)
    stored = geometry(shape)
    spatial = tuple(prod(shape[axis + 1 : -1]) for axis in range(1, len(shape) - 1))
    return (stored.quads * stored.spatial, *spatial, stored.spatial)


def storage_order(rank: int) -> tuple[int, ...]:
    """Logical axes of a tensor of rank 0 to 4, slowest in device storage first: batch, channel
    quads, space."""
    return tuple(range(rank)) if rank < 2 else (0, rank - 1, *range(1, rank - 1))


def move(
    low: Lowering,
    node: Node,
    axes: Sequence[Axis],
    fixed: Mapping[int, int] | None = None,
    value: float = 0.0,
    view: Shape | None = None,
) -> None:
    """Launch the gather that makes the node's first output from its first input.

    `axes` describe the output (their extents multiply to its element count; at most 5), `fixed`
    holds coordinates of input axes that no output axis reads, `value` is the pad value. `view` is
    another row-major shape of the same input.
    """
    source, output = node.inputs[0], node.outputs[0]
    assert source is not None and len(axes) <= MAX_AXES
    shape, target = low.graph.shape(source), low.graph.shape(output)
    fixed = fixed or {}
    vectors = view is None and _whole_quads(shape, target, axes, value)
    if vectors:
        walks, base = _vector_walks(shape, axes, fixed)
    else:
        walks, base = _element_walks(view or shape, axes, fixed)
    inside, stored = geometry(shape), low.geometry(output)
    parameters: dict[str, object] = {
        "vectors": stored.vectors,
        "spatial": stored.spatial,
        "quads": stored.quads,
    }
    parameters |= _walk_parameters(walks) | {"base": np.int32(base), "value": float(value)}
    if not vectors:
        parameters |= {"channels": stored.channels, "in_channels": inside.channels}
        parameters |= {"in_quads": inside.quads, "in_spatial": inside.spatial}
    low.dispatch(
        "gather",
        node,
        {"x": Access(low.stored(source), 4 if vectors else 1)},
        {"y": output},
        grid(stored.vectors),
        parameters,
        {"vectors": vectors},
    )


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
        and not any(axis.padded for axis in axes)
        and [(axis.extent, axis.source, axis.start, axis.step) for axis in read] == wanted
    )


def _whole_quads(shape: Shape, target: Shape, axes: Sequence[Axis], value: float) -> bool:
    """Whether every vec4 of the output is one vec4 of the input, or all padding."""
    if (
        not (1 <= len(shape) <= 4 and 1 <= len(target) <= 4)
        or tuple(a.extent for a in axes) != target
    ):
        return False
    last, channel = axes[-1], len(shape) - 1
    if last.source != channel or last.step != 1 or last.start % 4:
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
        walks.append(
            Walk(
                -(-axis.extent // unit), axis.step * stride, axis.low // unit, -(-axis.stop // unit)
            )
        )
    return walks, base


def _element_walks(
    shape: Shape, axes: Sequence[Axis], fixed: Mapping[int, int]
) -> tuple[list[Walk], int]:
    strides = row_strides(shape)
    base = sum(strides[axis] * at for axis, at in fixed.items())
    walks = []
    for axis in axes:
        stride = 0 if axis.source is None else strides[axis.source]
        base += axis.start * stride
        walks.append(Walk(axis.extent, axis.step * stride, axis.low, axis.stop))
    return walks, base


def _walk_parameters(walks: Sequence[Walk]) -> dict[str, object]:
    padded = [Walk(1, 0, 0, 1)] * (MAX_AXES - len(walks)) + list(walks)
    found: dict[str, object] = {}
    for k, walk in enumerate(padded):
        found |= {f"d{k}": walk.extent, f"k{k}": np.int32(walk.stride)}
        found |= {f"low{k}": walk.low, f"span{k}": max(walk.stop - walk.low, 0)}
    return found
