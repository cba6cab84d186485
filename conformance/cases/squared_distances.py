"""Squared distances of rows, as nodes: one row, rows that cross slices, constants, and rows that
are nearly equal."""

from __future__ import annotations

import numpy as np

from conformance.cases import Input, constant, seeded
from conformance.node_cases import NodeCase


def rows(name: str, n: int, m: int, features: int, held: bool = True) -> NodeCase:
    y = constant(seeded(m, features)) if held else Input((m, features))
    return NodeCase(name, "squared_distances", (Input((n, features)), y), terms=features)


NEAR = 1000 + seeded(5, 6)
NODES = [
    rows("rows", 7, 9, 5),
    rows("one_row", 1, 3, 8),
    rows("one_feature", 6, 4, 1),
    rows("one_vector", 6, 1, 9),
    rows("many_features", 3, 10, 70),
    rows("many_rows", 130, 66, 6),
    rows("rows_of_a_run", 7, 9, 5, held=False),
    NodeCase("nearly_equal", "squared_distances",
             (constant(NEAR), constant(np.float32(NEAR[::-1]))), terms=6),
    NodeCase("vector", "squared_distances", (Input((3,)), Input((3,))), refused=True),
    NodeCase("other_length", "squared_distances", (Input((2, 3)), Input((2, 4))), refused=True),
    NodeCase("no_rows", "squared_distances", (Input((0, 3)), Input((2, 3))), refused=True),
]  # fmt: skip
