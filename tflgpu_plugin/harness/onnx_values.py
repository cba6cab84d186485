"""Values of ONNX Runtime's inputs and outputs as arrays: bits for types that numpy lacks, numbers
for texts and maps."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.harness.compare import Array
from tflgpu_plugin.ir import packed

# Types that numpy lacks: their numbers in the format, and bits.
BITS_ONLY = {
    "tensor(bfloat16)": (16, 16), "tensor(float8e4m3fn)": (17, 8),
    "tensor(float8e4m3fnuz)": (18, 8), "tensor(float8e5m2)": (19, 8),
    "tensor(float8e5m2fnuz)": (20, 8), "tensor(uint4)": (21, 4), "tensor(int4)": (22, 4),
    "tensor(uint2)": (25, 2), "tensor(int2)": (26, 2),
}  # fmt: skip
# Checksums of texts have few values, so that the least difference exceeds the tolerance.
SUMS = 4096


def results(session: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """Returns the results of the session's `run`. Arrays of bits (unsigned integers) represent
    inputs and outputs of types that numpy lacks."""
    inputs = {value.name: value.type for value in session.get_inputs()}
    if not {*BITS_ONLY} & {*inputs.values(), *(value.type for value in session.get_outputs())}:
        return list(session.run(None, feeds))
    given = {name: _value(array, inputs[name]) for name, array in feeds.items()}
    return [_of_value(value) for value in session.run_with_ort_values(None, given)]


def _value(array: Array, kind: str) -> Any:
    """Returns an OrtValue of the type `kind`, of whose numbers the array may hold the bits."""
    import onnxruntime as ort

    if kind not in BITS_ONLY:
        return ort.OrtValue.ortvalue_from_numpy(array)
    number, bits = BITS_ONLY[kind]
    plain = np.asarray(array, np.uint16 if bits == 16 else np.uint8, order="C")
    made = ort.OrtValue.ortvalue_from_shape_and_type(plain.shape, number)
    if bits < 8:
        plain = packed.pack(plain.reshape(-1), bits)
    if plain.size:
        ctypes.memmove(made.data_ptr(), plain.ctypes.data, plain.nbytes)
    return made


def _of_value(value: Any) -> Any:
    if value.data_type() not in BITS_ONLY:
        return value.numpy()
    shape, bits = tuple(value.shape()), BITS_ONLY[value.data_type()][1]
    kind, count = np.dtype(np.uint16 if bits == 16 else np.uint8), prod(shape)
    if not count:
        return np.zeros(shape, kind)
    held = np.frombuffer(ctypes.string_at(value.data_ptr(), -(-count * bits // 8)), kind)
    if bits < 8:
        held = packed.unpack(held, bits, "(int" in value.data_type()).view(np.uint8)[:count]
    return held.reshape(shape)


def as_array(value: Any) -> Array:
    """Returns an output as numbers or texts: for maps from classes to scores, the scores in the
    order of the classes."""
    if isinstance(value, list):
        value = [[one[key] for key in sorted(one)] for one in value if isinstance(one, dict)]
    return np.asarray(value)


def numbers(outputs: Sequence[Any]) -> list[Array]:
    """Returns numbers only: for a text its checksum, so that different texts differ."""
    found = []
    for array in map(as_array, outputs):
        if array.dtype.kind in "OUS":
            sums = [zlib.crc32(str(text).encode()) % SUMS for text in array.reshape(-1)]
            array = np.array(sums, np.int64).reshape(array.shape)
        found.append(array)
    return found
