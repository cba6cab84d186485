"""Reductions of ranges: empty, overlapping and reversed ones, bounds from the end and out of range,
constant bounds and those of a run, all ranks, infinities, and more elements than a block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
STARTS, ENDS = (0, 3, 3, 2, 5, -4, -90, 8, 9), (3, 3, 9, 6, 2, -1, 2, 90, 9)


def case(
    name: str,
    op: str,
    shape: Shape,
    bounds: tuple[Sequence[int], Sequence[int]] = (STARTS, ENDS),
    refused: bool = False,
) -> NodeCase:
    starts, ends = (constant(tuple(given), "i32") for given in bounds)
    return NodeCase(name, op, (Input(shape), starts, ends), terms=shape[0], refused=refused)


def of_a_run(name: str, op: str, shape: Shape, count: int) -> NodeCase:
    starts, ends = (Input((count,), "i32", low=-shape[0] - 2, high=shape[0] + 3) for _ in "se")
    return NodeCase(name, op, (Input(shape), starts, ends), terms=shape[0])


def _infinite(op: str) -> NodeCase:
    data = np.linspace(-1, 1, 45, dtype=np.float32).reshape(9, 5)
    data[2, 1], data[7, 3] = np.inf, -np.inf
    reads = (constant(data), *(constant(bounds, "i32") for bounds in (STARTS, ENDS)))
    return NodeCase(f"infinities_{op}", op, reads, terms=9)


KINDS = ("range_sum", "range_mean", "range_max", "range_min")
CASES: list[Case] = []
NODES = [
    *(case(op, op, (9, 5)) for op in KINDS),
    *(of_a_run(f"of_a_run_{op}", op, (9, 7), 6) for op in KINDS),
    *(_infinite(op) for op in KINDS),
    *(case(f"rank_{len(shape)}", "range_sum", shape)
      for shape in ((9,), (9, 3, 5), (9, 2, 3, 5), (9, 2, 3, 2, 5), (9, 2, 1, 2, 2, 3))),
    case("rank_6_maximum", "range_max", (9, 2, 1, 2, 2, 3)),
    case("one_row", "range_mean", (1, 6), ((0, 0, 1), (1, 0, 1))),
    case("one_range", "range_sum", (300, 6), ((0,), (300,))),
    case("several_blocks", "range_sum", (2500, 3), ((0, 100, 2499), (2500, 1200, 2500))),
    case("several_blocks_mean", "range_mean", (2500, 3), ((0, 100), (2500, 1200))),
    case("more_than_a_group", "range_max", (70, 9), (range(70), range(2, 72))),
    case("fewer_ends", "range_sum", (9, 5), ((0, 1), (3,)), refused=True),
    case("no_elements", "range_sum", (9, 0), ((0,), (3,)), refused=True),
]  # fmt: skip
