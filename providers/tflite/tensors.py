"""A TFLite host's tensors as ours: names, types, constants and quantization, read with care, for
they lie in a model file that may be damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Quantization, Shape, Tensor
from tflgpu_plugin.providers import Unsupported, narrowed, native

from . import codes, sparsity

Sparse = Callable[[], Array]
SPARSE = "DENSIFY"  # the operator that makes a sparse constant dense

FLOATS = ("f32", "f16", "f64")
IN_MODEL, PERSISTENT_CONSTANT = 1, 5
AFFINE = 1
NAME_BYTES = 2048  # of a tensor's name; what is longer is cut


def listed(array: Any) -> tuple[int, ...]:
    """The values of a tgl_ints, () for NULL."""
    return tuple(int(array.data[k]) for k in range(array.size)) if array else ()


@dataclass
class Tensors:
    """All tensors of a host's graph by index. `constants` are those that lie in the model, whether
    they can be read or not, `unreadable` says why some cannot, and `sparse` has what reads sparse
    ones (raises Unsupported with a sentence). `open` are axes that the model leaves open.
    """

    tensors: dict[int, Tensor] = field(default_factory=dict)
    constants: set[int] = field(default_factory=set)
    unreadable: dict[int, str] = field(default_factory=dict)
    sparse: dict[int, Sparse] = field(default_factory=dict)
    open: dict[int, tuple[int, ...]] = field(default_factory=dict)


def read_tensors(ffi: Any, context: Any, written: set[int]) -> Tensors:
    """The tensors of a context; nodes write those of these indices."""
    found = Tensors()
    for index, name in enumerate(_names(ffi, context)):
        raw = context.tensors[index]
        tensor = _tensor(ffi, raw, name or f"tensor {index}", index in written)
        found.tensors[index] = tensor
        if axes := _open_axes(raw):
            found.open[index] = axes
        if raw.allocation == IN_MODEL and index not in written and not tensor.variable:
            found.constants.add(index)
        if raw.sparsity:
            found.unreadable[index] = f"is sparse, which is supported for {SPARSE} only"
            found.sparse[index] = partial(_dense, ffi, raw, tensor)
        elif _misfit(raw, tensor):
            found.unreadable[index] = (
                f"has {raw.bytes} bytes, which are not those of its shape and type"
            )
        elif tensor.dtype in FLOATS and _scales(ffi, raw):
            found.unreadable[index] = "holds floating-point values, but has a scale"
    return found


def _open_axes(raw: Any) -> tuple[int, ...]:
    """Those that the model leaves open; it may not say."""
    signature = listed(raw.dims_signature)
    if len(signature) != len(listed(raw.dims)):
        return ()
    return tuple(axis for axis, extent in enumerate(signature) if extent < 0)


def _dense(ffi: Any, raw: Any, tensor: Tensor) -> Array:
    """The values of a sparse constant. Raises Unsupported with a sentence."""
    try:
        if raw.allocation != IN_MODEL or tensor.dtype not in NUMPY_DTYPES:
            raise sparsity.unreadable(
                f"is sparse and holds {tensor.dtype} values, which is not supported"
            )
        return sparsity.dense(ffi, raw, NUMPY_DTYPES[tensor.dtype], tensor.shape)
    except Unsupported as reason:
        raise Unsupported(
            reason.sentence.reworded(f"The constant {tensor.name!r} {reason}.")
        ) from reason


def _misfit(raw: Any, tensor: Tensor) -> bool:
    """A constant whose bytes are not those of its shape and type."""
    constant = raw.allocation == IN_MODEL and raw.bytes and tensor.dtype in NUMPY_DTYPES
    return bool(constant and tensor.data is None)


def _names(ffi: Any, context: Any) -> list[str]:
    """The names of all tensors, "" for what is no name. They lie in the model file, which may be
    damaged: native code reads them with care.
    """
    size = NAME_BYTES
    names = ffi.new("char[]", context.tensor_count * size)
    native.lib.tg_tflite_names(context, names, size)
    offsets = range(0, context.tensor_count * size, size)
    return [ffi.string(names + at).decode(errors="replace") for at in offsets]


def _tensor(ffi: Any, raw: Any, name: str, written: bool) -> Tensor:
    dtype = codes.dtype(raw.type)
    shape = listed(raw.dims)
    tensor = Tensor(
        name=name,
        shape=shape,
        dtype=dtype,
        quantization=_quantization(ffi, raw) if dtype[0] in "iu" else None,
        variable=bool(raw.is_variable),
    )
    data = constant(ffi, raw, dtype, shape, written)
    return tensor if data is None else narrowed(replace(tensor, data=data))


def constant(ffi: Any, raw: Any, dtype: str, shape: Shape, written: bool) -> Array | None:
    # A persistent constant that a node writes was computed from present shapes: a resize changes
    # it.
    constant = raw.allocation == IN_MODEL or (raw.allocation == PERSISTENT_CONSTANT and not written)
    if not constant or not raw.data or dtype not in NUMPY_DTYPES:
        return None
    kind = np.dtype(NUMPY_DTYPES[dtype])
    count = int(np.prod(shape, dtype=np.int64))
    if count * kind.itemsize != raw.bytes:
        return None  # sparse, or packed more tightly than its shape says
    return np.frombuffer(ffi.buffer(raw.data, raw.bytes), kind).reshape(shape)


def _scales(ffi: Any, raw: Any) -> Any:
    """The tgl_affine of a tensor that has scales, None for others."""
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
    # One zero point may stand for all channels.
    zero_point = (zeros + zeros[-1:] * len(scale))[: len(scale)]
    return Quantization(scale, zero_point, int(affine.dimension))
