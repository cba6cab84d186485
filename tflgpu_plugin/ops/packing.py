"""Constants in device storage: the order of elements, and packing in pieces."""

from __future__ import annotations

from collections.abc import Iterator

from tflgpu_plugin.ir.graph import Array, Geometry
from tflgpu_plugin.ir.plan import Pack, Weight

VECTOR_BYTES = 16
PACKED_BYTES = 1 << 20  # bytes of a large constant that are packed at a time: peak memory stays low
MIN_BLOCKED_ELEMENTS = 1 << 12  # from this number on, `put` copies in blocks
NEIGHBOURS = 64  # elements of the last axis per block


def pack_stored(data: Array, shape: Geometry, kind: str = "float32") -> Array:
    """Returns a row-major array in device storage order, [batch][slices][spatial][4], pad lanes
    zero."""
    import numpy as np

    flat = np.zeros((shape.batch, shape.spatial, shape.slices * 4), kind)
    put(flat[:, :, : shape.channels], data.reshape(shape.batch, shape.spatial, shape.channels))
    packed = flat.reshape(shape.batch, shape.spatial, shape.slices, 4).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(packed)


def put(to: Array, source: Array) -> None:
    """Copies `source` to `to`. If the source is not contiguous along the last axis it copies some
    elements of that at a time, so that both sides stay in the cache: 4 times as fast for a large
    transposed matrix."""
    steps = [abs(step) for step in source.strides]
    if source.ndim < 2 or source.size < MIN_BLOCKED_ELEMENTS or steps[-1] <= min(steps[:-1]):
        to[...] = source
        return
    for first in range(0, source.shape[-1], NEIGHBOURS):
        to[..., first : first + NEIGHBOURS] = source[..., first : first + NEIGHBOURS]


def stored_pieces(data: Array, shape: Geometry, kind: str = "float32") -> Iterator[Array]:
    """Yields the result of `pack_stored` in pieces of some batches."""
    batches = data.reshape(shape.batch, -1)
    step = pieces_of(shape.vectors // shape.batch * VECTOR_BYTES)
    for first in range(0, shape.batch, step):
        part = batches[first : first + step]
        yield pack_stored(part, shape._replace(batch=len(part)), kind)


def pieces_of(unit: int) -> int:
    """Returns how many units of this many bytes make a piece of a constant."""
    return max(1, PACKED_BYTES // max(1, unit))


def moves(pack: Pack, moved: Pack, size: tuple[int, bool], more: int) -> bool:
    """Whether a `pack` of this many vec4, of int32 or not, only changes the order of numbers and
    adds zeros: if the numbers of a constant are increased by `more`, so are all nonzero numbers of
    its packed form (`moved`)."""
    import numpy as np

    vectors, int32 = size
    kind = np.int32 if int32 else np.float32
    first, second = (
        Weight((), 0, 0, vectors * VECTOR_BYTES, each).image().view(kind) for each in (pack, moved)
    )
    return bool((second == np.where(first == 0, 0, first + more)).all())
