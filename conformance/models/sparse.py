"""Sparse constants for test models: a dense array as the tree of levels that a .tflite holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass
class Level:
    """`size` places, or with `segments` and `indices` the listed ones of them."""

    size: int
    segments: list[int] | None = None
    indices: list[int] | None = None


@dataclass
class Sparse:
    """`order` of the dimensions, then of the blocks (which count on from these); `blocked` has the
    dimension that each block divides."""

    values: Array
    order: list[int]
    blocked: list[int]
    levels: list[Level] = field(default_factory=list)


def encode(
    data: Array,
    order: Sequence[int] | None = None,
    blocks: Mapping[int, int] | None = None,
    csr: Sequence[int] = (),
) -> Sparse:
    """Returns `data` in sparse form: its dimensions in this order, some divided into blocks
    (dimension -> extent of a block); the levels in `csr` list only nonzero positions."""
    sizes = dict(sorted((blocks or {}).items()))
    order = [*(order or range(data.ndim)), *range(data.ndim, data.ndim + len(sizes))]
    split: list[int] = []  # axes of the outer extents, the inner ones after all
    shape: list[int] = []
    for axis, extent in enumerate(data.shape):
        split.append(len(shape))
        shape += [extent // sizes.get(axis, 1)] + ([sizes[axis]] if axis in sizes else [])
    split += [split[axis] + 1 for axis in sizes]
    tree = data.reshape(shape).transpose([split[k] for k in order])
    found = Sparse(np.zeros(0, data.dtype), list(order), list(sizes))
    nodes = [tree]  # what is below each place so far
    for number in range(tree.ndim):
        extent = tree.shape[number]
        if number not in csr:
            found.levels.append(Level(extent))
            nodes = [below for node in nodes for below in node]
            continue
        kept = [[k for k in range(extent) if np.any(node[k])] for node in nodes]
        ends = np.cumsum([0, *map(len, kept)])
        listed = [k for some in kept for k in some]
        found.levels.append(Level(extent, ends.tolist(), listed))
        nodes = [node[k] for node, some in zip(nodes, kept, strict=True) for k in some]
    found.values = np.array(nodes, data.dtype).reshape(-1)
    return found


def pack(schema: Any, sparse: Sparse) -> Any:
    """Returns the SparsityParameters of a tensor, in the classes of the schema."""
    packed = schema.SparsityParametersT()
    packed.traversalOrder, packed.blockMap = sparse.order, sparse.blocked
    packed.dimMetadata = [_level(schema, level) for level in sparse.levels]
    return packed


def _level(schema: Any, level: Level) -> Any:
    made = schema.DimensionMetadataT()
    listed = level.segments is not None and level.indices is not None
    made.format = getattr(schema.DimensionType, "SPARSE_CSR" if listed else "DENSE")
    made.denseSize = 0 if listed else level.size
    for name in ("segments", "indices") if listed else ():
        numbers = schema.Int32VectorT()
        numbers.values = getattr(level, name)
        kind = schema.SparseIndexVector.Int32Vector
        setattr(made, f"array{name.capitalize()}", numbers)
        setattr(made, f"array{name.capitalize()}Type", kind)
    return made
