"""Dynamic-range twins of the float32 cases: the weights in 8 bits, everything else in float32.

The host's own kernels also round what the weights are multiplied with; an answer of ours is that of
the same model with its weights widened to float32, which the host runs, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from conformance.cases import Case, Input, all_cases
from conformance.models import split_models, tflite as models
from conformance.variants.quantized import weights_of


@dataclass(frozen=True)
class Weights:
    """Where an operator's 8-bit weights are, the axis with a scale per position (None: one scale),
    and the first version of the operator that accepts this."""

    places: tuple[int, ...]
    axis: int | None
    version: int


# Biases and layer normalizations stay float32, as converters leave them.
LSTM = (*range(1, 12), 16)
BOTH_WAYS = (*LSTM, *(17 + k for k in LSTM))
WEIGHTS = {
    "CONV_2D": Weights((1,), 0, 5),
    "DEPTHWISE_CONV_2D": Weights((1,), 3, 6),
    "FULLY_CONNECTED": Weights((1,), None, 3),
    "LSTM": Weights(LSTM, None, 3),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Weights(LSTM, None, 2),
    "BATCH_MATMUL": Weights((1,), None, 1),
    "RNN": Weights((1, 2), None, 2),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Weights((1, 2), None, 2),
    "BIDIRECTIONAL_SEQUENCE_LSTM": Weights(BOTH_WAYS, None, 2),
    "BIDIRECTIONAL_SEQUENCE_RNN": Weights((1, 2, 5, 6), None, 2),
    "SVDF": Weights((1, 2), None, 2),
}


# Sums are of integers, which the scale makes small afterwards: they end this much before
# those of float32 weights do.
MAX_PRODUCT = float(np.finfo(np.float32).max) / 2**8


def twins() -> Iterator[tuple[str, Case]]:
    """Returns (family, twin) for every case whose weights the host also takes in 8 bits."""
    for family, cases in all_cases().items():
        for case in cases:
            row = None if case.refused or not _small(case) else WEIGHTS.get(case.op)
            if row is None or case.options.get("kernelType") == "BASIC":  # no such kernel
                continue
            if case.op == "BIDIRECTIONAL_SEQUENCE_RNN" and case.options["timeMajor"]:
                continue  # refused
            inputs = tuple(_stored(value, k, row) for k, value in enumerate(case.inputs))
            if any(value and value.dtype == "i8" for value in inputs):
                name = f"hybrid_{case.name}"
                yield family, replace(case, name=name, inputs=inputs, version=row.version)


def _small(case: Case) -> bool:
    sizes = [
        max(abs(i.low), abs(i.high)) if i.data is None else np.abs(i.data).max(initial=0)
        for i in case.inputs
        if i is not None
    ]
    return float(np.prod(sorted([1.0, *map(float, sizes)])[-2:])) < MAX_PRODUCT


def _stored(value: Input | None, place: int, row: Weights) -> Input | None:
    if value is None or value.data is None or value.dtype != "f32" or place not in row.places:
        return value
    return weights_of(value, "i8", row.axis)


def build(case: Case) -> tuple[bytes, bytes]:
    """Returns the model of a twin, and the same with float32 weights."""
    model = models.build(case)
    return model, split_models.widened(model, (0,))
