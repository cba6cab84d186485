"""DEQUANTIZE and QUANTIZE: both 8-bit types and int16, odd and empty-free shapes, values that
saturate, ties, requantization, and what is refused. Values lie on both sides of zero points at the
ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase
from tflgpu_plugin.ir import Quantization
from tflgpu_plugin.ops.quantized import factor_numbers

Shape = tuple[int, ...]
LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(2**15), 2**15 - 1)}
VERSIONS = {"i8": 2, "u8": 1, "i16": 3}


def scaled(scale: float, zero: int) -> Quantization:
    """Returns a tensor with one quantization for all channels; the scale is rounded to float32."""
    return Quantization((float(np.float32(scale)),), (zero,))


def stored(shape: Shape, dtype: str, scale: float, zero: int) -> Input:
    """Returns a fed quantized tensor that may contain all values."""
    low, high = LIMITS[dtype]
    return Input(shape, dtype, low=low, high=high + 1, quantization=scaled(scale, zero))


def dequantize(name: str, shape: Shape, dtype: str, scale: float = 0.037, zero: int = -7) -> Case:
    return Case(name, "DEQUANTIZE", VERSIONS[dtype], (stored(shape, dtype, scale, zero),))


def quantize(name: str, shape: Shape, dtype: str, scale: float, zero: int, **ends: float) -> Case:
    given = Input(shape, low=ends.get("low", -3.0), high=ends.get("high", 3.0))
    return Case(
        name, "QUANTIZE", 1, (given,), output_type=dtype, output_quantization=scaled(scale, zero)
    )


def again(name: str, source: Input, dtype: str, scale: float, zero: int, version: int = 1) -> Case:
    held = scaled(scale, zero)
    return Case(name, "QUANTIZE", version, (source,), output_type=dtype, output_quantization=held)


def factor(name: str, factor: float, shape: Shape = (3, 5, 7), dtype: str = "i32",
           unit: float = 1.0, most: int = 2**31 - 1) -> NodeCase:  # fmt: skip
    """Returns integers up to `most`; where they are float32, they are multiples of the unit."""
    given = Input(shape, dtype, low=-most * unit, high=most * unit, step=unit)
    return NodeCase(name, "times_factor", (given,), {"numbers": factor_numbers(unit, factor, 0.5)})


TYPES = {
    "f32": "FLOAT32", "i16": "INT16", "i32": "INT32", "i64": "INT64", "i8": "INT8", "u8": "UINT8",
    "bool": "BOOL",
}  # fmt: skip


def cast(name: str, source: Input, dtype: str, **more: Any) -> Case:
    options = {"inDataType": TYPES[source.dtype], "outDataType": TYPES[dtype]}
    return Case(name, "CAST", 1, (source,), "CastOptions", options, output_type=dtype, **more)


def bits(name: str, source: Input, dtype: str, **more: Any) -> Case:
    return Case(name, "BITCAST", 1, (source,), "BitcastOptions", output_type=dtype, **more)


ONE = 0x3F800000  # the bits of 1.0
SHAPES: tuple[Shape, ...] = ((7,), (1, 1), (3, 5), (1, 4, 6, 3), (3, 5, 7, 8), (2, 3, 2, 3, 5))
CASES = [
    cast("to_int32", Input((2, 5, 7), low=-9, high=9), "i32"),
    cast("to_int32_large", Input((3, 9), low=-1e9, high=1e9), "i32"),
    cast("from_int32", Input((1, 3, 5, 6), "i32", low=-999, high=999), "f32"),
    cast("from_int32_large", Input((37,), "i32", low=-(2**31), high=2**31), "f32"),
    cast("from_uint8", Input((1, 4, 6, 3), "u8", low=0, high=256), "f32"),
    cast("from_int8", Input((5, 9), "i8", low=-128, high=128), "f32"),
    cast("from_bool", Input((3, 7), "bool"), "f32"),
    cast("bool_to_int32", Input((3, 7), "bool"), "i32"),
    cast("bool_to_int64", Input((1, 3, 7, 5), "bool"), "i64"),
    cast("int32_to_bool", Input((3, 7), "i32", low=-2, high=2), "bool"),
    cast("int64_to_bool", Input((3, 7), "i64", low=-2, high=2), "bool"),
    cast("int64_to_int32", Input((3, 7), "i64", low=-(2**31), high=2**31), "i32"),
    cast("int32_to_int64", Input((1, 2, 3, 5), "i32", low=-(2**31), high=2**31), "i64"),
    cast("to_int64_large", Input((3, 9), low=-2e9, high=2e9), "i64"),
    cast("from_int64_large", Input((37,), "i64", low=-(2**31), high=2**31), "f32"),
    cast("uint8_to_int32", Input((1, 4, 6, 3), "u8", low=0, high=256), "i32"),
    cast("int16_to_int64", Input((5, 9), "i16", low=-(2**15), high=2**15), "i64"),
    # A cast takes the numbers as they are stored.
    cast("from_quantized", stored((3, 5), "u8", 0.1, 128), "f32"),
    cast("to_quantized", Input((3, 5), high=100.0), "i8",
         output_quantization=scaled(0.5, 3)),
    *(bits(f"int32_{len(s)}_{s[-1]}", Input(s, "i32", low=-(2**31), high=2**31), "i32")
      for s in SHAPES),
    bits("scalar", Input((), "i32", low=0, high=9), "i32"),
    # Devices do not keep all bits of floats, and int64 is held as int32.
    bits("float32_to_int32", Input((3, 5), low=-1e9, high=1e9), "i32", refused=True),
    bits("to_float32", Input((3, 5), "i32", low=ONE, high=2 * ONE), "f32", refused=True),
    bits("float32", Input((3, 5)), "f32", refused=True),
    bits("constant", constant([0.0, -0.0, 1e-40, np.inf, 3.0]), "i32", refused=True),
    bits("to_int64", Input((3, 2), "i32", low=0, high=9), "i64", shapes=((3,),), refused=True),
    cast("to_bool", Input((3, 7), step=0.5), "bool"),
    *(dequantize(f"int8_rank_{len(s)}_{s[-1]}", s, "i8") for s in SHAPES),
    *(dequantize(f"uint8_rank_{len(s)}_{s[-1]}", s, "u8", 0.5, 255) for s in SHAPES),
    dequantize("scalar", (), "i8"),
    dequantize("long", (1, 66_000, 1, 1), "i8", 1e-4, 127),
    *(quantize(f"int8_rank_{len(s)}_{s[-1]}", s, "i8", 0.03, 5) for s in SHAPES),
    *(quantize(f"uint8_rank_{len(s)}_{s[-1]}", s, "u8", 0.03, 100) for s in SHAPES),
    Case("float16_constant", "DEQUANTIZE", 3, (constant(np.arange(-9, 9) / 3, "f16"),)),
    quantize("scalar", (), "i8", 0.03, 5),
    quantize("saturates", (1, 9, 9, 4), "i8", 0.01, -128),
    quantize("saturates_below", (1, 9, 9, 4), "u8", 0.5, 0, low=-300.0, high=300.0),
    quantize("steps_of_one", (1, 9, 9, 4), "u8", 1.0, 128, low=-130.0, high=130.0),
    again("int8_to_uint8", stored((1, 5, 5, 3), "i8", 0.1, 0), "u8", 0.1, 128),
    again("uint8_to_int8", stored((1, 5, 5, 3), "u8", 0.1, 128), "i8", 0.1, 0),
    again("to_coarser", stored((1, 5, 5, 3), "i8", 0.1, 3), "i8", 0.37, -9),
    again("to_finer", stored((1, 5, 5, 3), "u8", 0.1, 3), "u8", 0.037, 90),
    *(dequantize(f"int16_rank_{len(s)}_{s[-1]}", s, "i16", 0.00073, 0) for s in SHAPES),
    *(quantize(f"int16_rank_{len(s)}_{s[-1]}", s, "i16", 0.0003, 0) for s in SHAPES),
    *(quantize(f"int16_{scale:g}", (6, 5000), "i16", scale, 0, low=-(2**15) * scale,
               high=2**15 * scale)
      for scale in (1e-5, 2.0**-15, 0.0173, 1.0, 3.7)),
    quantize("int16_saturates", (1, 9, 9, 4), "i16", 1e-5, 0),
    quantize("int16_halves", (6, 5000), "i16", 0.5, 0, low=-16384.0, high=16384.0),
    again("int32_to_int8", Input((1, 9, 50, 3), "i32", low=-9000, high=9000,
                                 quantization=scaled(1e-3, 0)), "i8", 0.08, -9, 3),
    again("int16_to_int8", stored((1, 9, 50, 3), "i16", 3e-4, 0), "i8", 0.1, -9),
    again("int16_to_int8_saturates", stored((1, 9, 50, 3), "i16", 3e-4, 0), "i8", 0.01, 5),
    again("int16_to_int8_finer", stored((1, 9, 50, 3), "i16", 1.0, 0), "i8", 0.3, 5),
    again("int16_to_coarser", stored((1, 9, 500, 3), "i16", 3e-4, 0), "i16", 3.7e-4, 0),
    again("int16_to_finer", stored((1, 9, 500, 3), "i16", 3e-4, 0), "i16", 2.3e-4, 0),
    again("int16_by_halves", stored((1, 9, 500, 3), "i16", 1.0, 0), "i16", 2.0, 0),
    # Of the hosts, only ai-edge-litert has these.
    again("int8_to_int16", stored((1, 9, 50, 3), "i8", 0.1, 3), "i16", 3e-4, 0, 4),
    again("int8_to_int16_saturates", stored((1, 9, 50, 3), "i8", 0.1, 3), "i16", 1e-4, 0, 4),
    again("uint8_to_int16", stored((1, 9, 50, 3), "u8", 0.1, 128), "i16", 1.7e-3, 0, 4),
]  # fmt: skip

NODES = [
    factor("int32", 0.003), factor("int32_halves", 2.0**-9, (3000,), most=2**12),
    factor("int32_eighth", 1 / 8, (257, 6), most=2**20), factor("int32_twice", 2.0, most=2**20),
    factor("int32_most", 1e-9), factor("int32_scalar", 0.7, (), most=1000),
    factor("float32", 0.003, dtype="f32", most=2**22),
    factor("float32_units", 3.7, dtype="f32", unit=0.25, most=2**20),
    factor("float32_halves", 0.5, (3, 1000), dtype="f32", unit=0.037, most=2**9),
]  # fmt: skip
