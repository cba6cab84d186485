"""The border of an island: between a host's row-major buffers and device storage, one launch each
way.

float32 and int32 travel as they are, bool as one byte per element (four in a word) and as 0.0 or
1.0 on the device, int8 and uint8 as a byte and, on the device, as the real value that they stand
for (without quantization parameters: the number itself). Raw buffers are padded to a multiple of
16 bytes, so the last incomplete vec4 or word may be accessed whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tflgpu_plugin import quantization
from tflgpu_plugin.graph import NUMPY_DTYPES, Geometry, Node, Tensor
from tflgpu_plugin.lowering import Access, Lowering, Raw, Refused, Source

GROUP = 64
DTYPES = ("f32", "bool", "i32", "i8", "u8")
BYTES = ("bool", "i8", "u8")


class _Views(NamedTuple):
    """Lanes per element of the operands (0: words); `whole`: four lanes are neighbours in both."""

    row_major: int
    stored: int
    whole: bool


def pack(low: Lowering, node: Node, raw: Raw, tensor: int) -> None:
    """Record the launch that brings the host's buffer `raw` into device storage `tensor`.

    Both have the tensor's shape and dtype. Raises Refused for a dtype that has no device form.
    """
    dtype, shape = _dtype(low, node, tensor), low.geometry(tensor)
    to_storage(low, node, raw, tensor, shape, dtype, _scaling(low.graph.tensors[tensor]))


def unpack(low: Lowering, node: Node, tensor: int, raw: Raw) -> None:
    """Record the launch that brings device storage `tensor` into the host's buffer `raw`.

    Bytes of `raw` past the last element are written too (up to the padding), with no meaning.
    Raises Refused for a dtype that has no device form.
    """
    dtype, value = _dtype(low, node, tensor), low.graph.tensors[tensor]
    scaling = _scaling(value)
    if scaling:
        limits = np.iinfo(NUMPY_DTYPES[dtype])
        scaling |= {"least": float(limits.min), "most": float(limits.max)}
    from_storage(low, node, tensor, raw, low.geometry(tensor), dtype, scaling)


def to_storage(
    low: Lowering,
    node: Node,
    source: Source,
    stored: Source,
    shape: Geometry,
    dtype: str = "f32",
    scaling: Mapping[str, object] | None = None,
) -> None:
    """Row-major elements [batch][spatial][channels] to storage of this geometry. 8-bit elements
    come with `scaling`: scale and zero (point)."""
    views = _views(dtype, shape)
    low.dispatch(
        "pack",
        node,
        {"raw": Access(source, views.row_major)},
        {"stored": Access(stored, 0 if dtype == "i32" else 4)},
        (-(-shape.vectors // GROUP), 1, 1),
        {"vectors": shape.vectors, **_extents(shape), **(scaling or {})},
        {"form": dtype, "whole": views.whole},
        fused=False,
    )


def from_storage(
    low: Lowering,
    node: Node,
    stored: Source,
    target: Source,
    shape: Geometry,
    dtype: str = "f32",
    scaling: Mapping[str, object] | None = None,
) -> None:
    """Storage of this geometry to row-major elements; a node's f32 output takes its posts. 8-bit
    elements come with `scaling`: scale, zero (point), least and most (stored number)."""
    views = _views(dtype, shape)
    elements = shape.batch * shape.spatial * shape.channels
    low.dispatch(
        "unpack",
        node,
        {"stored": Access(stored, views.stored)},
        {"raw": Access(target, 4 if dtype == "f32" else 0)},
        (-(-elements // (4 * GROUP)), 1, 1),
        {"elements": elements, **_extents(shape), **(scaling or {})},
        {"form": dtype, "whole": views.whole},
        fused=not isinstance(target, Raw),
    )


def _dtype(low: Lowering, node: Node, tensor: int) -> str:
    dtype = low.graph.tensors[tensor].dtype
    if dtype not in DTYPES:
        accepted = ", ".join(DTYPES)
        raise Refused(node.id, f"A {dtype} tensor cannot cross the border; use one of {accepted}.")
    return dtype


def _scaling(tensor: Tensor) -> dict[str, object]:
    if tensor.dtype not in quantization.STORED:
        return {}
    scale, zero = quantization.parameters(tensor)
    return {"scale": scale, "zero": zero}


def _views(dtype: str, shape: Geometry) -> _Views:
    if dtype == "i32":
        return _Views(0, 0, False)
    # A single row may be read past its end: the padding is there, and pad lanes are masked.
    whole = shape.channels % 4 == 0 or shape.batch * shape.spatial == 1
    return _Views(0 if dtype in BYTES else (4 if whole else 1), 4 if whole else 1, whole)


def _extents(shape: Geometry) -> dict[str, object]:
    return {"quads": shape.quads, "spatial": shape.spatial, "channels": shape.channels}
