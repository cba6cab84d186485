"""The border of an island: between a host's row-major buffers and device storage, one launch each
way.

float32 and int32 travel as they are, bool as one byte per element (four in a word) and as 0.0 or
1.0 on the device. Raw buffers are padded to a multiple of 16 bytes, so the last incomplete vec4 or
word may be accessed whole.
"""

from __future__ import annotations

from typing import NamedTuple

from tflgpu_plugin.graph import Geometry, Node
from tflgpu_plugin.lowering import Access, Lowering, Raw, Refused, Source

GROUP = 64
DTYPES = ("f32", "bool", "i32")


class _Views(NamedTuple):
    """Lanes per element of the operands (0: words); `whole`: four lanes are neighbours in both."""

    row_major: int
    stored: int
    whole: bool


def pack(low: Lowering, node: Node, raw: Raw, tensor: int) -> None:
    """Record the launch that brings the host's buffer `raw` into device storage `tensor`.

    Both have the tensor's shape and dtype. Raises Refused for a dtype that has no device form.
    """
    to_storage(low, node, raw, tensor, low.geometry(tensor), _dtype(low, node, tensor))


def unpack(low: Lowering, node: Node, tensor: int, raw: Raw) -> None:
    """Record the launch that brings device storage `tensor` into the host's buffer `raw`.

    Bytes of `raw` past the last element are written too (up to the padding), with no meaning.
    Raises Refused for a dtype that has no device form.
    """
    from_storage(low, node, tensor, raw, low.geometry(tensor), _dtype(low, node, tensor))


def to_storage(
    low: Lowering, node: Node, source: Source, stored: Source, shape: Geometry, dtype: str = "f32"
) -> None:
    """Row-major elements [batch][spatial][channels] to storage of this geometry."""
    views = _views(dtype, shape)
    low.dispatch(
        "pack",
        node,
        {"raw": Access(source, views.row_major)},
        {"stored": Access(stored, 0 if dtype == "i32" else 4)},
        (-(-shape.vectors // GROUP), 1, 1),
        {"vectors": shape.vectors, **_extents(shape)},
        {"form": dtype, "whole": views.whole},
        fused=False,
    )


def from_storage(
    low: Lowering, node: Node, stored: Source, target: Source, shape: Geometry, dtype: str = "f32"
) -> None:
    """Storage of this geometry to row-major elements; a node's f32 output takes its posts."""
    views = _views(dtype, shape)
    elements = shape.batch * shape.spatial * shape.channels
    low.dispatch(
        "unpack",
        node,
        {"stored": Access(stored, views.stored)},
        {"raw": Access(target, 4 if dtype == "f32" else 0)},
        (-(-elements // (4 * GROUP)), 1, 1),
        {"elements": elements, **_extents(shape)},
        {"form": dtype, "whole": views.whole},
        fused=not isinstance(target, Raw),
    )


def _dtype(low: Lowering, node: Node, tensor: int) -> str:
    dtype = low.graph.tensors[tensor].dtype
    if dtype not in DTYPES:
        accepted = ", ".join(DTYPES)
        raise Refused(node.id, f"A {dtype} tensor cannot cross the border; use one of {accepted}.")
    return dtype


def _views(dtype: str, shape: Geometry) -> _Views:
    if dtype == "i32":
        return _Views(0, 0, False)
    # A single row may be read past its end: the padding is there, and pad lanes are masked.
    whole = shape.channels % 4 == 0 or shape.batch * shape.spatial == 1
    return _Views(0 if dtype == "bool" else (4 if whole else 1), 4 if whole else 1, whole)


def _extents(shape: Geometry) -> dict[str, object]:
    return {"quads": shape.quads, "spatial": shape.spatial, "channels": shape.channels}
