"""The types of values as people name them."""

from __future__ import annotations

from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.float8 import FLOAT8

TYPE_NAMES = {
    "f32": "float32", "f16": "float16", "f64": "float64", "i8": "int8", "u8": "uint8",
    "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64",
    "u64": "uint64", "c64": "complex64", BFLOAT16: "bfloat16",
    **{kind: f"float{kind.removeprefix('f')}" for kind in FLOAT8},
}  # fmt: skip


def type_name(dtype: str) -> str:
    """Returns the name of a dtype in a sentence to users; others unchanged."""
    return TYPE_NAMES.get(dtype, dtype)
