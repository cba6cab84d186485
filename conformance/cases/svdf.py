"""SVDF layers of TFLite: ranks, lengths of the memory and units around the width of a vector, with
and without a bias, activations. In integers, too: with factors that make halves, and numbers
that the memory does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, seeded
from conformance.cases.quantization import scaled, stored as value


def layer(name: str, units: int, rank: int = 1, length: int = 6, inputs: int = 5, batch: int = 2,
          bias: bool = True, activation: str = "NONE", **more: Any) -> Case:  # fmt: skip
    features = units * rank
    reads = (
        Input((batch, inputs)),
        constant(seeded(features, inputs)),
        constant(seeded(features, length, seed=1)),
        constant(seeded(units, seed=2)) if bias else None,
        Input((batch, features * length), variable=True),
    )
    options = {"rank": rank, "fusedActivationFunction": activation}
    return Case(name, "SVDF", 1, reads, "SVDFOptions", options, **more)


def stored(name: str, units: int = 5, rank: int = 1, length: int = 6, inputs: int = 5,
           batch: int = 2, bias: bool = True, memory: float = 2e-3, result: float = 0.0,
           scale: float = 0.04, zero: int = -60) -> Case:  # fmt: skip
    """Returns an 8-bit case with 16-bit intermediate results and more runs than the memory has
    entries; `scale` is the scale of the input and of both weights."""
    features, random = units * rank, np.random.default_rng([units, rank, length, inputs])
    step = memory * scale * 2**21 * (rank * length) ** 0.5  # a fiftieth of what sums come to
    reads = (
        value((batch, inputs), "i8", scale, -3),
        Input((features, inputs), "i8", random.integers(-127, 128, (features, inputs), np.int8),
              quantization=scaled(scale, 0)),
        Input((features, length), "i16", random.integers(-(2**14), 2**14, (features, length),
              np.int16), quantization=scaled(scale, 0)),
        Input((units,), "i32", random.integers(-(2**26), 2**26, units, np.int32),
              quantization=scaled(memory * scale, 0)) if bias else None,
        Input((batch, features * length), "i16", variable=True, quantization=scaled(memory, 0)),
    )  # fmt: skip
    options = {"rank": rank, "fusedActivationFunction": "RELU"}
    return Case(
        name, "SVDF", 3, reads, "SVDFOptions", options, output_type="i8", runs=length + 3,
        output_quantization=scaled(result or step, zero),
    )  # fmt: skip


CASES = [
    *(layer(f"units_{n}", n) for n in (1, 4, 7, 16)),
    *(layer(f"rank_{n}", 5, rank=n) for n in (2, 3)),
    *(layer(f"memory_{n}", 5, length=n) for n in (1, 2, 4, 9)),
    layer("one_of_each", 1, length=1, inputs=1, batch=1),
    layer("no_bias", 5, bias=False),
    layer("no_bias_rank_2", 6, rank=2, bias=False, activation="RELU"),
    layer("relu", 6, activation="RELU"),
    layer("relu6", 6, activation="RELU6"),
    layer("tanh", 6, activation="TANH"),
    layer("batch_1", 8, batch=1, inputs=40, length=10, runs=12),
    *(
        stored(f"stored_rank_{rank}_memory_{length}_batch_{batch}", 5, rank, length, batch=batch)
        for rank in (1, 2)
        for length in (1, 2, 10)
        for batch in (1, 2)
    ),
    stored("stored_no_bias", 7, bias=False, zero=5),
    stored("stored_no_bias_rank_2", 4, rank=2, bias=False),
    stored("stored_units_16", 16, inputs=40, length=8, zero=-128),
    stored("stored_one_of_each", 1, length=1, inputs=1, batch=1),
    # Sums over features times 1/2 and 2, and sums over time times 2^-24: powers of two.
    stored("stored_halves", 9, memory=2.0, scale=1.0, result=2.0**25, zero=0),
    stored("stored_twice", 9, memory=0.5, scale=1.0, result=2.0**23, zero=3),
    # Some of these exceed what the memory can hold.
    stored("stored_too_large", 9, memory=1e-3, inputs=30),
]
