"""The float32 cases as float16 models: constants stored in 16 bits after a DEQUANTIZE, as
converters write them. Values are computed in float32, so the bounds are those of float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from conformance.cases import Case, Input, all_cases
from conformance.models import tflite as models
from conformance.models.tflite import Model

VERSION = 3  # of DEQUANTIZE: the first with float16
MAX_FLOAT16 = float(np.finfo(np.float16).max)
LEFT_OUT = {"DEQUANTIZE", "QUANTIZE"}


def cases() -> Iterator[tuple[str, Case]]:
    """Returns (family, case) for every case with float32 constants, rounded to float16 numbers."""
    for family, found in all_cases().items():
        for case in found:
            if not case.refused and case.op not in LEFT_OUT and any(map(_held, case.inputs)):
                yield family, replace(case, inputs=tuple(map(_rounded, case.inputs)))


def _held(value: Input | None) -> bool:
    """Whether it is a constant that may be stored in 16 bits."""
    if value is None or value.data is None or value.dtype != "f32":
        return False
    return bool(np.all(np.abs(value.data) <= MAX_FLOAT16))


def _rounded(value: Input | None) -> Input | None:
    if value is None or value.data is None or not _held(value):
        return value
    return replace(value, data=value.data.astype(np.float16).astype(np.float32))


def build(case: Case) -> bytes:
    """Returns the model of a case: its node, and a DEQUANTIZE for each constant. Raises ValueError
    with the host's message if it refuses the model."""
    plain = models.single(case)
    made = Model(plain.tensors, [], plain.inputs, plain.outputs)
    operator = plain.operators[0]
    reads = list(operator.inputs)
    for position, value in enumerate(case.inputs):
        if value is None or value.data is None or not _held(value):
            continue
        stored = made.constant(value.data.astype(np.float16), f"half_{position}")
        wide = made.op("DEQUANTIZE", [stored], "DequantizeOptions", version=VERSION,
                       shape=value.shape, name=f"wide_{position}")  # fmt: skip
        reads[position] = wide
    made.operators.append(replace(operator, inputs=reads))
    made.infer_shapes()
    return made.to_bytes()
