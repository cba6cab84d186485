"""The largest and the smallest elements: every axis, ties, infinities and NaN, rows of few and many
elements, one and all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def case(name: str, x: Shape | Any, k: int, **attributes: Any) -> NodeCase:
    values = Input(x) if isinstance(x, tuple) else constant(np.float32(x))
    return NodeCase(name, "top_k", (values, constant((k,), "i32")), attributes, outputs=2,
                    output_types=("f32", "i32"))  # fmt: skip


def host(name: str, shape: Shape, k: int) -> Case:
    """Returns a case of the host's operator."""
    given = (Input(shape), constant(np.int32(k), "i32"))
    return Case(name, "TOPK_V2", 1, given, "TopKV2Options", {}, outputs=2,
                output_types=("f32", "i32"))  # fmt: skip


CASES = [
    host("rank_1", (300,), 5),
    host("rank_2", (3, 21), 4),
    host("rank_4", (2, 3, 5, 7), 2),
    host("rows_of_5000", (2, 5000), 17),
    host("more_than_a_group", (300, 6), 3),
    host("all", (4, 9), 9),
]
CASES += integers(CASES, {"TOPK_V2": "i32 i64"})
NODES = [
    *(case(f"axis_{axis}", (2, 3, 5, 7), 2, axis=axis) for axis in range(4)),
    *(case(f"smallest_{axis}", (2, 3, 5, 7), 2, axis=axis, largest=False) for axis in (-4, 1, 3)),
    case("rank_1", (300,), 5),
    case("rank_2", (3, 21), 4),
    case("rank_5", (2, 3, 2, 3, 5), 3, axis=1),
    case("rank_6", (2, 3, 2, 2, 3, 5), 5),
    case("all", (4, 9), 9),
    case("one", (4, 9), 1, largest=False),
    case("rows_of_5000", (2, 5000), 17),
    case("more_than_a_group", (300, 6), 3),
    *(case(f"rows_of_{n}", (5, n), 3) for n in (7, 8, 9, 255, 256, 257)),
    case("ties", [[1, 3, 3, 0, 3], [-1, -1, -2, -2, -1], [5, 5, 5, 5, 5]], 4),
    case("ties_smallest", [[1, 3, 3, 0, 0], [-1, -1, -2, -2, -1]], 4, largest=False),
    case("infinities", [[-np.inf, 1, np.inf, -np.inf], [-np.inf] * 4, [np.inf] * 4], 4),
    case("infinities_smallest", [[-np.inf, 1, np.inf, -np.inf], [np.inf] * 4], 4, largest=False),
    case("nan", [[np.nan, 1, -np.inf, 2], [np.nan] * 4, [3, np.nan, 4, np.nan]], 4),
    NodeCase("number_at_run_time", "top_k", (Input((3, 4)), Input((1,), "i32", low=1, high=2)),
             outputs=2, refused=True),
    NodeCase("too_many", "top_k", (Input((3, 4)), constant((5,), "i32")), outputs=2, refused=True),
]  # fmt: skip
