"""Conversion between a host's row-major buffers and device storage, at most one launch each way.

A tensor whose storage equals the host's order (a vector, or a matrix with a multiple of 4 columns)
is not converted: it uses the host's buffer. Kernels that read any strides may read the host's
buffer too (`Lowering.hosted`). A transpose to channels-first before an output is part of the
output's launch.

In the host's buffer float32, int32 and uint32 have a word each, float64, int64 and uint64 two,
float16, int16 and bfloat16 share a word by two, bool, int8, uint8 and floats of 8 bits by four,
integers of 4 and 2 bits by eight and sixteen. On the device integers of 32 and 64 bits are int32
(others than it holds flag the run), float64 is float32 (finite numbers beyond it flag the run),
bool is 0.0 or 1.0, and int8 and uint8 are the dequantized value (without quantization parameters:
the number itself).
Values too large for float16 become infinities. Raw buffers are padded to a multiple of 16 bytes, so
that the last vec4 or word may always be accessed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import (
    BFLOAT16,
    BITS_ONLY,
    DOUBLE,
    FLOAT8,
    NUMPY_DTYPES,
    PACKED,
    Geometry,
    Node,
    Tensor,
    quantization,
)
from tflgpu_plugin.ir.packed import signed
from tflgpu_plugin.ir.symbolic import always_divides, is_one
from tflgpu_plugin.ir.types import type_name
from tflgpu_plugin.ops.lowering import WORKGROUP, Access, Hosted, Kernel, Lowering, Raw
from tflgpu_plugin.ops.views import row_strides

WIDE = (*quantization.WHOLE, DOUBLE)  # one or two words per element
DTYPES = ("f32", "f16", "bool", *WIDE, "i8", "u8", "i16", "u16", *BITS_ONLY)
SUB_WORD = ("f16", "bool", "i8", "u8", "i16", "u16", *BITS_ONLY)  # several elements per word
SAME = ("f32", "i32")  # the same elements on both sides
CHECKED = ("i64", "u32", "u64", DOUBLE)  # of which the device has those in the range of 32 bits
PLAIN = (*quantization.STORED, "i16", *BITS_ONLY)  # allowed without quantization parameters
FORMS = {
    BFLOAT16: "u16",
    **dict.fromkeys(FLOAT8, "u8"),
    **dict.fromkeys(PACKED, "packed"),
}  # forms of kernels for dtypes without their own


class _Views(NamedTuple):
    """The lanes per element of the operands (0: words). If `whole`, four lanes that are adjacent in
    one buffer are adjacent in the other."""

    raw: int
    stored: int
    whole: bool


def in_host_order(shape: Geometry) -> bool:
    """Whether storage is row-major, except for padding after the last element."""
    if is_one(shape.batch * shape.spatial):
        return True
    one = is_one(shape.spatial) or is_one(shape.slices)
    return always_divides(4, shape.channels) and one


def pack(low: Lowering, node: Node, raw: Raw, tensor: int) -> None:
    """Records the launch that converts the host's buffer `raw`, row-major elements
    [batch][spatial][channels], to device storage `tensor`, the output of `node`, of the same shape
    and dtype. Raises Unsupported for a dtype without a device form."""
    dtype, shape = _dtype(low, node, tensor), low.geometry(tensor)
    # A run overwrites the buffer of a state, so kernels must not read it in place.
    if raw.role == "input" and dtype == "f32":
        low.hosted[tensor] = Hosted(raw, row_strides(low.graph.shape(tensor)))
    if raw.role == "input" and dtype in SAME and in_host_order(shape):
        low.alias(tensor, raw)
        return
    views = _views(dtype, shape)
    low.each_vector(
        Kernel(
            "pack",
            {"channels": shape.channels, **_scaling(low.graph.tensors[tensor])},
            {"form": FORMS.get(dtype, dtype), "whole": views.whole, **_packing(dtype)},
        ),
        node,
        {"raw": Access(raw, views.raw)},
        writes=("stored",),
        checked=dtype in CHECKED,
    )


def unpack(low: Lowering, node: Node, tensor: int, raw: Raw) -> None:
    """Records the launch that converts device storage `tensor` to the host's buffer `raw`. It also
    writes the padding of `raw`, with undefined values. Raises Unsupported for a dtype without a
    device form."""
    dtype, value = _dtype(low, node, tensor), low.graph.tensors[tensor]
    if tensor in low.hosted and low.hosted[tensor].raw == raw:
        return  # it was computed there
    root = low.root(tensor)
    same = raw.role == "output" and dtype in SAME and in_host_order(low.geometry(tensor))
    if same and isinstance(root, int) and root not in low.homes:
        low.homes[root] = raw
        return
    scaling = _scaling(value)
    if scaling:
        limits = np.iinfo(NUMPY_DTYPES[value.dtype])
        scaling |= {"least": float(limits.min), "most": float(limits.max)}
    planar, stored = tensor in low.turned, low.turned.get(tensor, tensor)
    shape = low.geometry(stored)
    views = _views(dtype, shape, planar)
    elements = shape.batch * shape.spatial * shape.channels
    low.dispatch(
        Kernel(
            "unpack",
            {
                "elements": elements, "slices": shape.slices, "spatial": shape.spatial,
                "channels": shape.channels, **scaling,
            },
            {
                "form": FORMS.get(dtype, dtype), "whole": views.whole, "planar": planar,
                "aligned": planar and always_divides(4, shape.spatial), **_bits(dtype),
            },
        ),
        node,
        {"stored": Access(stored, views.stored)},
        {"raw": Access(raw, 4 if dtype == "f32" else 0)},
        (-(-elements // (_each(dtype) * WORKGROUP)), 1, 1),
    )  # fmt: skip


def _bits(dtype: str) -> dict[str, object]:
    """Returns the variant of a kernel for numbers of which a byte holds several."""
    return {"bits": PACKED[dtype]} if dtype in PACKED else {}


def _packing(dtype: str) -> dict[str, object]:
    """Returns the variant of the kernel that reads such numbers."""
    return {**_bits(dtype), "below_0": signed(dtype)} if dtype in PACKED else {}


def _each(dtype: str) -> int:
    """Returns the elements that a thread writes to the host's buffer: whole words."""
    return 32 // PACKED[dtype] if dtype in PACKED else 4


def _dtype(low: Lowering, node: Node, tensor: int) -> str:
    dtype, real = low.graph.tensors[tensor].port_dtype, quantization.real(low.graph.tensors[tensor])
    taken = [each for each in DTYPES if not (real and each in WIDE)]
    if dtype not in taken:
        accepted = ", ".join(map(type_name, taken))
        said = f"A {type_name(dtype)} tensor cannot be an input or output; use one of {accepted}."
        raise Unsupported.of("dtype.unsupported", said, node.id)
    return dtype


def _scaling(tensor: Tensor) -> dict[str, object]:
    """Returns the scale and the zero point of a quantized tensor."""
    if not quantization.real(tensor) and tensor.dtype not in PLAIN:
        return {}
    scale, zero = quantization.parameters(tensor)
    return {"scale": scale, "zero": zero}


def _views(dtype: str, shape: Geometry, planar: bool = False) -> _Views:
    if dtype in WIDE:
        return _Views(0, 1, False)
    # A single row may be read beyond its end: the buffer is padded, and pad lanes are masked.
    whole = not planar and (
        always_divides(4, shape.channels) or is_one(shape.batch * shape.spatial)
    )
    return _Views(0 if dtype in SUB_WORD else (4 if whole else 1), 4 if whole else 1, whole)
