"""PRELU: where alpha's values come from and how its shape spreads over x."""

from __future__ import annotations

import numpy as np

from conformance.cases import Case, Input, constant, seeded

Shape = tuple[int, ...]


def prelu(name: str, x: Shape, alpha: Shape, runtime: bool = False) -> Case:
    """A case with alpha constant, or fed at run time."""
    given = Input(alpha) if runtime else constant(seeded(*alpha))
    return Case(name, "PRELU", 1, (Input(x), given))


CASES = [
    prelu("channel_alpha", (1, 5, 7, 8), (1, 1, 8)),
    prelu("channel_alpha_rank_1", (1, 5, 7, 8), (8,)),
    prelu("channel_alpha_rank_4", (1, 5, 7, 8), (1, 1, 1, 8)),
    prelu("channel_alpha_odd", (1, 3, 3, 17), (1, 1, 17)),
    prelu("channel_alpha_batch_3", (3, 3, 2, 5), (1, 1, 5)),
    prelu("full_alpha", (1, 5, 7, 3), (5, 7, 3)),
    prelu("full_alpha_batch_3", (3, 5, 7, 3), (5, 7, 3)),
    prelu("full_alpha_rank_4", (1, 5, 7, 4), (1, 5, 7, 4)),
    prelu("one_value", (1, 5, 7, 5), (1,)),
    prelu("one_value_rank_4", (1, 5, 7, 5), (1, 1, 1, 1)),
    prelu("scalar", (1, 5, 7, 5), ()),
    prelu("one_channel", (1, 5, 7, 1), (1, 1, 1)),
    prelu("rows_alpha", (1, 5, 7, 5), (5, 1, 1)),
    prelu("columns_alpha", (2, 5, 7, 5), (7, 1)),
    prelu("map_alpha", (1, 5, 7, 5), (5, 7, 1)),
    prelu("batch_alpha", (3, 5, 7, 5), (3, 1, 1, 1)),
    prelu("rank_1", (11,), (11,)),
    prelu("rank_1_one_value", (11,), (1,)),
    prelu("rank_2", (3, 7), (7,)),
    prelu("rank_3", (3, 4, 7), (4, 1)),
    prelu("runtime_channel_alpha", (1, 5, 7, 8), (1, 1, 8), runtime=True),
    prelu("runtime_full_alpha", (2, 5, 7, 5), (5, 7, 5), runtime=True),
    prelu("runtime_one_value", (1, 5, 7, 5), (1, 1, 1), runtime=True),
    Case("alpha_above_one", "PRELU", 1,
         (Input((1, 4, 4, 4)), constant(np.array([[[2.0, -3.0, 0.0, 1.0]]])))),
    prelu("long", (1, 66_001, 1, 2), (1, 1, 2)),
]  # fmt: skip
