"""Products of integers in 64 bits: shifts below, at and above the width of a word, numbers of
either sign, halves, results that wrap around, and one number."""

from __future__ import annotations

from conformance.cases import Case, Input
from conformance.node_cases import NodeCase

TWO_TO_15 = 2.0**15


def case(name: str, shape: tuple[int, ...], factor: int, right: int, reach: float = TWO_TO_15,
         refused: bool = False) -> NodeCase:  # fmt: skip
    given = Input(shape, "i32", low=-reach, high=reach, step=1.0)
    attributes = {"numbers": (float(factor), float(right))}
    return NodeCase(name, "wide_product", (given,), attributes, output_type="i32", refused=refused)


CASES: list[Case] = []
NODES = [
    *(case(f"shift_{right}", (4, 15), 0x7FFF, right, 300) for right in (8, 15, 16, 22)),
    *(case(f"shift_{right}", (2, 700), 0x7FFF, right) for right in (31, 32, 33, 46)),
    *(case(f"wraps_{right}", (5, 9), 0x5432, right) for right in (1, 9)),
    case("halves", (2, 3000), 1, 1, 8), case("one", (1, 6), 0x4000, 15),
    case("long", (900, 5), 0x7FFF, 17, 9), case("single", (3, 1), 21234, 17),
    case("many", (3, 2100), 25000, 20, 2000), case("no_factor", (3, 4), 0, 15),
    case("no_shift", (3, 4), 5, 0, refused=True), case("no_numbers", (0, 4), 5, 9, refused=True),
    case("rank_3", (2, 4, 3), 5, 9, refused=True),
]  # fmt: skip
