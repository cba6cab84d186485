"""SOFTMAX: every rank the host takes, rows from one to 70,000 channels, betas, and arguments that
would overflow exp."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase


def softmax(
    name: str,
    shape: tuple[int, ...],
    beta: float = 1.0,
    low: float = -1.0,
    high: float = 1.0,
    **more: Any,
) -> Case:
    """Returns a case over an input with values in [low, high)."""
    image = Input(shape, low=low, high=high)
    return Case(name, "SOFTMAX", 1, (image,), "SoftmaxOptions", {"beta": beta}, **more)


CASES = [
    softmax("channels_1", (1, 1)),
    softmax("channels_1_batch_3", (3, 1)),
    softmax("channels_2", (1, 2)),
    softmax("channels_3", (1, 3)),
    softmax("channels_4", (1, 4)),
    softmax("channels_5_batch_3", (3, 5)),
    softmax("channels_8", (1, 8)),
    softmax("channels_17_batch_3", (3, 17)),
    softmax("channels_60_quads_15", (1, 60)),
    softmax("channels_61_quads_16", (2, 61)),
    softmax("channels_257_batch_3", (3, 257), low=-8.0, high=8.0),
    softmax("channels_1001", (1, 1001), low=-10.0, high=10.0),
    softmax("channels_1001_batch_5", (5, 1001), low=-10.0, high=10.0),
    softmax("channels_1023_quads_256", (1, 1023)),
    softmax("channels_70000", (1, 70_000), low=-10.0, high=10.0),
    softmax("rank_1", (7,)),
    softmax("rank_1_long", (1027,), low=-5.0, high=5.0),
    softmax("rank_3", (2, 5, 3), low=-5.0, high=5.0),
    softmax("rank_3_classes_2_places_1917", (1, 1917, 2), low=-5.0, high=5.0),
    softmax("rank_4_channels_21", (1, 9, 7, 21), low=-10.0, high=10.0),
    softmax("rank_4_channels_5_batch_3", (3, 3, 5, 5)),
    softmax("rank_4_channels_70", (2, 5, 3, 70), low=-10.0, high=10.0),
    softmax("rank_4_channels_1", (1, 5, 3, 1)),
    softmax("rank_4_places_66049", (1, 257, 257, 2), low=-5.0, high=5.0),
    softmax("beta_half", (3, 10), 0.5, -10.0, 10.0),
    softmax("beta_3", (1, 2, 2, 9), 3.0, -2.0, 2.0),
    softmax("beta_0", (2, 9), 0.0, -2.0, 2.0),
    softmax("arguments_over_exp", (2, 33), 1.0, -1000.0, 1000.0),
    softmax("arguments_far_below", (2, 6), 1.0, -2000.0, -1900.0),
    softmax("arguments_equal", (2, 6), 1.0, 5.0, 5.0),
    softmax("rank_5", (1, 2, 2, 2, 3), low=-5.0, high=5.0),
    softmax("rank_5_channels_8", (3, 1, 5, 2, 8), low=-5.0, high=5.0),
    softmax("rank_5_channels_1", (1, 3, 1, 2, 1)),
    softmax("rank_5_channels_301", (1, 2, 1, 3, 301), low=-5.0, high=5.0),
    softmax("rank_6", (2, 1, 3, 1, 2, 5), 2.0),
]

NODES = [
    NodeCase("nan", "softmax", (constant(np.array([[1, np.nan, 3, -1, 2], [1, 2, 3, 4, 5]])),),
             {"beta": 1.0}),
    *(NodeCase(f"rank_{len(shape)}_axis_{axis}", "softmax", (Input(shape, low=-5, high=5),),
               {"beta": 1.0, "axis": axis})
    for shape, axis in (((2, 5, 3, 4), 1), ((2, 5, 3, 4), 0), ((3, 5, 7), -2), ((5, 6), 0),
                        ((2, 3, 4, 5, 3), 1), ((2, 3, 1, 2, 2, 3), 2),
                        ((2, 2, 3, 1, 2, 1, 2, 5), -1))),
]  # fmt: skip
