"""SVDF layers of TFLite: ranks, lengths of the memory and units around the width of a vector, with
and without a bias, activations."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, seeded


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
    layer("batch_1", 8, batch=1, inputs=40, length=10),
]
