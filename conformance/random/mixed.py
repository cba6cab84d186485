"""Tests single TFLite operators that move elements, over stored numbers with several quantizations:
each input and the result have a random one, often the same."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np

from conformance.cases import Case, Input, all_cases
from conformance.variants.quantized import VERSIONS, same_quantization
from tflgpu_plugin.ir import NUMPY_DTYPES, Quantization
from tflgpu_plugin.providers.tflite.ops import HOST_OPS

TYPES = ("u8", "i8")
SCALES = (0.05, 0.05, 0.1, 0.03173)
UNLIKE = 0.3  # of a tensor to have a quantization of its own


@cache
def moving() -> tuple[Case, ...]:
    """Returns cases of operators that only move stored numbers, with float32 values or none."""
    cases = [case for family in all_cases().values() for case in family]
    return tuple(
        case for case in cases
        if case.op in HOST_OPS and same_quantization(case.op)
        and not case.refused and not HOST_OPS[case.op].types and set(case.types) == {"f32"}
    )  # fmt: skip


def build(seed: int) -> Case:
    """Returns the case for this seed."""
    chance = random.Random(seed)
    operator = chance.choice(sorted({case.op for case in moving()}))
    case = chance.choice([case for case in moving() if case.op == operator])
    dtype = chance.choice(TYPES)
    common = _quantization(chance, dtype)

    def held() -> Quantization:
        return _quantization(chance, dtype) if chance.random() < UNLIKE else common

    inputs = tuple(
        value if value is None or value.dtype != "f32" else _stored(value, dtype, held(), seed)
        for value in case.inputs
    )
    return replace(
        case, name=f"mixed {seed} {case.name}", inputs=inputs, output_type=dtype, output_types=(),
        output_quantization=held(), version=max(case.version, VERSIONS.get(case.op, 2)),
    )  # fmt: skip


def _quantization(chance: random.Random, dtype: str) -> Quantization:
    limits = np.iinfo(NUMPY_DTYPES[dtype])
    zero = chance.choice((0, 10, limits.min + 128))
    return Quantization((float(np.float32(chance.choice(SCALES))),), (zero,))


def _stored(value: Input, dtype: str, quantization: Quantization, seed: int) -> Input:
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    fed = replace(
        value, dtype=dtype, low=kind.min, high=kind.max + 1, step=0.0, quantization=quantization
    )
    if value.data is None:
        return fed
    numbers = np.random.default_rng(seed).integers(kind.min, kind.max, value.shape, endpoint=True)
    return replace(fed, data=numbers.astype(kind.dtype))
