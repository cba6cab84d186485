"""Reads a TFLite host's tensors: names, types, constants and quantization, with checks, since the
model file may be damaged."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Quantization, Shape, type_name
from tflgpu_plugin.providers import Unsupported, Value, narrowed, native

from . import codes, sparsity

SPARSE = "DENSIFY"  # the operator that converts a sparse constant

FLOATS = ("f32", "f16", "f64")
IN_MODEL, PERSISTENT_CONSTANT = 1, 5
AFFINE = 1
NAME_BYTES = 2048  # bytes of a tensor's name; longer ones are cut


def listed(array: Any) -> tuple[int, ...]:
    """Returns the values of a tgl_ints, () for NULL."""
    return tuple(int(array.data[k]) for k in range(array.size)) if array else ()


def read_tensors(ffi: Any, context: Any, written: set[int]) -> dict[int, Value]:
    """Returns the tensors of a graph by index, in their present shapes. `written` are the indices
    of tensors that nodes write."""
    return {
        index: _tensor(ffi, context.tensors[index], name or f"tensor {index}", index in written)
        for index, name in enumerate(_names(ffi, context))
    }


def open_axes(context: Any) -> dict[int, tuple[int, ...]]:
    """Returns the axes with extents that are dynamic in the model, by tensor. Older models do not
    say which extents are dynamic."""
    found = {}
    for index in range(context.tensor_count):
        raw = context.tensors[index]
        signature = listed(raw.dims_signature)
        axes = tuple(axis for axis, extent in enumerate(signature) if extent < 0)
        if axes and len(signature) == len(listed(raw.dims)):
            found[index] = axes
    return found


def _names(ffi: Any, context: Any) -> list[str]:
    """Returns the names of all tensors, "" for invalid ones. They are in the model file, which may
    be damaged: native code reads them with checks."""
    size = NAME_BYTES
    names = ffi.new("char[]", context.tensor_count * size)
    native.lib.tg_tflite_names(context, names, size)
    offsets = range(0, context.tensor_count * size, size)
    return [ffi.string(names + at).decode(errors="replace") for at in offsets]


def _tensor(ffi: Any, raw: Any, name: str, written: bool) -> Value:
    dtype, shape, variable = codes.dtype(raw.type), listed(raw.dims), bool(raw.is_variable)
    data = constant(ffi, raw, dtype, shape, written)
    found = Value(
        name,
        dtype,
        shape,
        data,
        quantization=_quantization(ffi, raw) if dtype[0] in "iu" else None,
        variable=variable,
        constant=raw.allocation == IN_MODEL and not written and not variable,
        damage=_damage(ffi, raw, dtype, data),
        dense=partial(_dense, ffi, raw, name, dtype, shape) if raw.sparsity else None,
    )
    return narrowed(found)


def _damage(ffi: Any, raw: Any, dtype: str, data: Array | None) -> str:
    """Returns why a tensor cannot be read ("": it can), for `Value.damage`."""
    if raw.sparsity:
        return f"is sparse, which is supported for {SPARSE} only"
    if raw.allocation == IN_MODEL and raw.bytes and dtype in NUMPY_DTYPES and data is None:
        return f"has {raw.bytes} bytes, which do not match its shape and type"
    if dtype in FLOATS and _scales(ffi, raw):
        return "holds floating-point values, but has a scale"
    return ""


def _dense(ffi: Any, raw: Any, name: str, dtype: str, shape: Shape) -> Array:
    """Returns the values of a sparse constant. Raises Unsupported with a sentence."""
    try:
        if raw.allocation != IN_MODEL or dtype not in NUMPY_DTYPES:
            held = type_name(dtype)
            raise sparsity.unreadable(f"is sparse and holds {held} values, which is not supported")
        return sparsity.dense(ffi, raw, NUMPY_DTYPES[dtype], shape)
    except Unsupported as reason:
        refusal = reason.sentence.reworded(f"The constant {name!r} {reason}.")
        raise Unsupported(refusal) from reason


def constant(ffi: Any, raw: Any, dtype: str, shape: Shape, written: bool) -> Array | None:
    # A persistent constant that a node writes was computed from the present shapes; a resize may
    # change it.
    constant = raw.allocation == IN_MODEL or (raw.allocation == PERSISTENT_CONSTANT and not written)
    if not constant or not raw.data or dtype not in NUMPY_DTYPES:
        return None
    kind = np.dtype(NUMPY_DTYPES[dtype])
    count = int(np.prod(shape, dtype=np.int64))
    if count * kind.itemsize != raw.bytes:
        return None  # sparse, or packed in fewer bytes than its shape needs
    return np.frombuffer(ffi.buffer(raw.data, raw.bytes), kind).reshape(shape)


def _scales(ffi: Any, raw: Any) -> Any:
    """Returns the tgl_affine of a tensor that has scales, None for others."""
    if raw.quantization_type != AFFINE or not raw.quantization_params:
        return None
    affine = ffi.cast("tgl_affine *", raw.quantization_params)
    return affine if affine.scale and affine.scale.size else None


def _quantization(ffi: Any, raw: Any) -> Quantization | None:
    affine = _scales(ffi, raw)
    if affine is None:
        return None
    scale = tuple(ffi.unpack(affine.scale.data, affine.scale.size))
    zeros = listed(affine.zero_point) or (0,)
    # A single zero point holds for all channels.
    zero_point = (zeros + zeros[-1:] * len(scale))[: len(scale)]
    return Quantization(scale, zero_point, int(affine.dimension))
