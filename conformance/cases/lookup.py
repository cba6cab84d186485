"""Tables of a value for each int16 number: each shape of storage, numbers at both ends, and scales
whose multiples float32 rounds. Passes make these nodes (conformance/test_int16.py has all that
they are made of)."""

from __future__ import annotations

import numpy as np

from conformance.cases import Input, constant, seeded
from conformance.node_cases import NodeCase

TABLE = constant(seeded(1 << 16, seed=3))


def lookup(name: str, shape: tuple[int, ...], scale: float = 1.0, most: int = 1 << 15) -> NodeCase:
    """Returns multiples of a scale up to `most` times it."""
    scale = float(np.float32(scale))
    given = Input(shape, low=-most * scale, high=most * scale, step=scale)
    return NodeCase(name, "lookup", (given, TABLE), {"scale": scale})


def place(name: str, shape: tuple[int, ...], low: int, high: int) -> NodeCase:
    return NodeCase(name, "softmax_place", (Input(shape, "i32", low=low, high=high),))


def share(name: str, shape: tuple[int, ...], low: int, high: int) -> NodeCase:
    """Returns exponentials and, for each row, a reciprocal and a sum."""
    row = (*shape[:-1], 1)
    given = (
        Input(shape, low=0, high=1 << 15, step=1.0),
        Input(row, low=1 << 14, high=1 << 15, step=1.0),
        Input(row, "i32", low=low, high=high),
    )
    return NodeCase(name, "softmax_share", given, {"scale": 2.0**-15})


NODES = [
    place("least_sums", (70, 1), 32767, 33000), place("sums", (9, 70, 1), 32767, 1 << 21),
    place("largest_sums", (3, 7, 5), 1 << 30, (1 << 31) - 1),
    share("shares", (9, 7, 13), 32767, 1 << 20), share("small_shares", (5, 300), 1 << 29, 1 << 30),
    share("large_shares", (40, 3), 32767, 1 << 16),
    lookup("list", (7,)), lookup("matrix", (5, 3)), lookup("image", (1, 4, 6, 3), 0.037),
    lookup("images", (3, 5, 7, 8), 2.0**-15), lookup("rank_5", (2, 3, 2, 3, 5), 3e-5),
    lookup("scalar", ()), lookup("many", (3, 5000), 1.7e-4), lookup("few_numbers", (300,), most=3),
]  # fmt: skip
