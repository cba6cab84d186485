"""The border of an island: between a host's row-major buffers and device storage, one launch each way.

float32 and int32 travel as they are, bool as one byte per element (four in a word) and as 0.0 or 1.0 on the device. Raw
buffers are padded to a multiple of 16 bytes, so the last incomplete vec4 or word may be accessed whole.
"""

from __future__ import annotations

from typing import NamedTuple

from tflgpu_plugin.graph import Geometry, Node
from tflgpu_plugin.lowering import Access, Lowering, Raw, Refused

GROUP = 64
DTYPES = ("f32", "bool", "i32")


class _Views(NamedTuple):
    """Lanes per element of the two operands (0: words), and whether four lanes are neighbours on both sides."""

    raw: int
    stored: int
    whole: bool


def pack(low: Lowering, node: Node, raw: Raw, tensor: int) -> None:
    """Record the launch that brings the host's buffer `raw` into device storage `tensor` (same shape and dtype).

    Raises Refused for a dtype that has no device form.
    """
    dtype, shape = _dtype(low, node, tensor), low.geometry(tensor)
    views = _views(dtype, shape)
    low.dispatch(
        "pack",
        node,
        {"raw": Access(raw, views.raw)},
        {"stored": Access(tensor, 0 if dtype == "i32" else 4)},
        (-(-shape.vectors // GROUP), 1, 1),
        {
            "vectors": shape.vectors,
            "quads": shape.quads,
            "spatial": shape.spatial,
            "channels": shape.channels,
        },
        {"form": dtype, "whole": views.whole},
        fused=False,
    )


def unpack(low: Lowering, node: Node, tensor: int, raw: Raw) -> None:
    """Record the launch that brings device storage `tensor` into the host's buffer `raw` (same shape and dtype).

    Bytes of `raw` past the last element are written too (up to the padding), with no meaning. Raises Refused for a
    dtype that has no device form.
    """
    dtype, shape = _dtype(low, node, tensor), low.geometry(tensor)
    views = _views(dtype, shape)
    elements = shape.batch * shape.spatial * shape.channels
    low.dispatch(
        "unpack",
        node,
        {"stored": Access(tensor, views.stored)},
        {"raw": Access(raw, 4 if dtype == "f32" else 0)},
        (-(-elements // (4 * GROUP)), 1, 1),
        {
            "elements": elements,
            "quads": shape.quads,
            "spatial": shape.spatial,
            "channels": shape.channels,
        },
        {"form": dtype, "whole": views.whole},
        fused=False,
    )


def _dtype(low: Lowering, node: Node, tensor: int) -> str:
    dtype = low.graph.tensors[tensor].dtype
    if dtype not in DTYPES:
        raise Refused(node.id, f"A {dtype} tensor cannot cross the border; use one of {', '.join(DTYPES)}.")
    return dtype


def _views(dtype: str, shape: Geometry) -> _Views:
    # A single row may be read past its end: the padding of the raw buffer is there, and pad lanes are masked.
    whole = dtype != "i32" and (shape.channels % 4 == 0 or shape.batch * shape.spatial == 1)
    if dtype == "i32":
        return _Views(0, 0, False)
    return _Views(0 if dtype == "bool" else (4 if whole else 1), 4 if whole else 1, whole)
