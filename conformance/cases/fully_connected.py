"""FULLY_CONNECTED: sizes, ranks, rows that cross the storage, runtime weights, kept dimensions."""

from __future__ import annotations

import numpy as np

from conformance.cases import Case, Input, constant, in_8_bits, seeded


def fully(
    name: str,
    x: tuple[int, ...],
    matrix: tuple[int, int],
    keep: bool = False,
    bias: bool = True,
    activation: str = "NONE",
    constant_weights: bool = True,
    scale: float = 1.0,
    refused: bool = False,
) -> Case:
    """Returns a case; `matrix` is [outputs, inputs], seeded constant weights or inputs of the
    model."""
    weights = constant(seeded(*matrix, scale=scale)) if constant_weights else Input(matrix)
    vector = constant(seeded(matrix[0], seed=2)) if constant_weights else Input(matrix[:1])
    options = {"keepNumDims": keep, "fusedActivationFunction": activation}
    inputs = (Input(x), weights, vector if bias else None)
    version = 5 if keep else 1
    kind = "FullyConnectedOptions"
    return Case(name, "FULLY_CONNECTED", version, inputs, kind, options, refused=refused)


SIZES = [
    fully(f"{rows} x {i} to {o}", (rows, i), (o, i))
    for rows, i, o in (
        (1, 1, 1),
        (1, 3, 5),
        (1, 4, 8),
        (1, 5, 9),
        (3, 8, 4),
        (1, 33, 17),
        (2, 64, 21),
        (7, 13, 3),
        (8, 13, 3),
        (9, 40, 70),
        (70, 36, 5),
    )
]
LONG = [
    fully("long rows", (1, 1001), (10, 1001), scale=0.1),
    fully("many outputs", (1, 16), (1003, 16)),
    fully("more than 65,536 inputs", (1, 65_540), (2, 65_540), scale=0.02),
    fully("nine rows of more than 65,536", (9, 65_540), (2, 65_540), scale=0.02),
    fully("more than 65,536 rows", (65_540, 4), (1, 4)),
]
RANKS = [
    fully("few rows, deep", (9, 1024), (10, 1024), scale=0.1, activation="RELU"),
    fully("kept rank 3, few rows, deep", (1, 10, 1040), (13, 1040), keep=True, scale=0.1),
    fully("rank 1", (12,), (5, 12)),
    fully("rank 1, several rows", (12,), (5, 4)),
    fully("rank 3", (2, 3, 8), (5, 8)),
    fully("rank 3, many rows", (2, 11, 7), (9, 7)),
    fully("rank 4", (2, 2, 3, 8), (5, 8)),
    fully("rank 5", (1, 2, 1, 3, 8), (5, 8)),
    fully("rank 4 flattened", (1, 3, 3, 5), (7, 45)),
    fully("rank 4 flattened, three images", (3, 2, 3, 6), (7, 36)),
    fully("rank 4 flattened in part", (2, 4, 3, 6), (7, 18)),
    fully("rows inside the channels", (1, 2, 2, 12), (7, 3)),
    fully("rank 2 in many short rows", (9, 10), (3, 5)),
]
KEPT = [
    fully("kept rank 1", (8,), (5, 8), keep=True),
    fully("kept rank 2", (3, 8), (5, 8), keep=True),
    fully("kept rank 3", (2, 3, 8), (5, 8), keep=True, activation="RELU"),
    fully("kept rank 3, many rows", (2, 13, 7), (34, 7), keep=True),
    fully("kept rank 4", (2, 2, 3, 7), (6, 7), keep=True),
    fully("kept rank 4, many rows", (2, 4, 5, 7), (6, 7), keep=True),
]
OTHERS = [
    fully("no bias", (2, 8), (5, 8), bias=False),
    fully("relu", (2, 8), (5, 8), activation="RELU", scale=4.0),
    fully("relu6", (2, 8), (5, 8), activation="RELU6", scale=9.0),
    fully("relu_n1_to_1", (2, 8), (5, 8), activation="RELU_N1_TO_1"),
    fully("kept rank 5", (1, 2, 3, 2, 8), (5, 8), keep=True, activation="RELU6"),
    fully("kept rank 6, many rows", (2, 2, 2, 3, 2, 7), (6, 7), keep=True, bias=False),
    fully("runtime weights", (2, 9), (6, 9), constant_weights=False),
    fully("runtime weights, no bias", (1, 32), (40, 32), constant_weights=False, bias=False),
    fully("runtime weights, many rows", (20, 9), (6, 9), constant_weights=False),
    fully("runtime weights, flattened", (2, 2, 2, 3), (6, 12), constant_weights=False),
]


def passing(name: str, rows: int, inputs: int, outputs: int) -> Case:
    """Returns a case whose intermediate sums exceed the largest float16, and end below it."""
    signs = np.where(np.arange(inputs) < inputs // 2, 1, -0.6).astype(np.float32)
    weights = constant(np.tile(signs, (outputs, 1)))
    values = (Input((rows, inputs), low=200, high=300), weights, None)
    options = {"keepNumDims": False, "fusedActivationFunction": "NONE"}
    return Case(name, "FULLY_CONNECTED", 1, values, "FullyConnectedOptions", options)


OTHERS += [passing("sums over 65504 on the way", 1, 640, 5),
           passing("sums over 65504 on the way, many rows", 9, 640, 8)]  # fmt: skip
OTHERS += [Case(f"bias of shape {shape}", "FULLY_CONNECTED", 1,
                (Input((2, 7)), constant(seeded(6, 7)), constant(seeded(*shape))),
                "FullyConnectedOptions", {}, refused=refused)
           for shape, refused in (((1, 6), False), ((3, 2), True), ((1, 1, 6), True))]  # fmt: skip
BYTES = [
    in_8_bits(fully(f"8 bits, {name}", x, matrix), dtype, zero, axis=None, version=4)
    for name, x, matrix, dtype, zero in (
        ("a row", (1, 200), (45, 200), "i8", 17),
        ("unsigned row", (1, 37), (130, 37), "u8", 131),
        ("three rows", (3, 1024), (10, 1024), "i8", -128),
        ("unsigned rows", (7, 64), (9, 64), "u8", 255),
        ("nine rows", (9, 40), (24, 40), "i8", 127),
    )
]
CASES = SIZES + LONG + RANKS + KEPT + OTHERS + BYTES
