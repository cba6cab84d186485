"""Rotary positions: halves and neighbours, angles of values and of pairs, heads on a separate axis
and heads side by side, parts of a head, and pairs that do not fill vec4."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
CASES: list[Case] = []


def case(name: str, x: Shape, angles: Shape, refused: bool = False, **attributes: Any) -> NodeCase:
    given = (Input(x), Input(angles), Input(angles))
    return NodeCase(name, "rotary", given, attributes, terms=2, refused=refused)


X, PACKED = (2, 3, 5, 16), (2, 5, 48)
FORMS = ((False, False), (False, True), (True, False), (True, True))  # together, paired


def each(name: str, x: Shape, *outer: int, width: int = 16, **attributes: Any) -> list[NodeCase]:
    """Returns a case for each form of the operator; `width` values of a head are rotated."""
    return [
        case(f"{name}{'_together' * together}{'_paired' * paired}", x,
             (*outer, width // 2 if paired else width), together=together, paired=paired,
             **attributes)
        for together, paired in FORMS
    ]  # fmt: skip


NODES = [
    *each("rank_4", X, 2, 1, 5),
    *each("rank_3", PACKED, 1, 1, 5, heads=3),
    *each("rank_3_apart", PACKED, 2, 1, 5, heads=3, joined=False),
    *each("joined", X, 1, 1, 5, joined=True),
    *each("part", (2, 3, 5, 22), 2, 1, 5),
    *each("part_rank_3", (2, 5, 72), 1, 1, 5, heads=3),
    *each("pairs_of_2", (2, 3, 5, 12), 1, 1, 5, width=12),
    *each("pairs_of_3", (2, 3, 5, 10), 2, 1, 5, width=6),
    *each("pairs_of_3_rank_3", (2, 5, 30), 5, width=6, heads=3),
    *each("uneven_rank_3", (2, 5, 30), 5, width=8, heads=3),
    *each("uneven_joined", (2, 3, 5, 10), 5, width=8, joined=True),
    case("one_place", (1, 4, 1, 64), (1, 1, 1, 64)),
    case("one_head_rank_3", (2, 5, 18), (5, 16)),
    case("angles_of_all", X, (16,)),
    case("angles_of_heads", X, (3, 1, 16)),
    case("angles_of_each", X, (2, 3, 5, 8), paired=True),
    case("many", (1, 3, 70, 32), (70, 32)),
    case("too_wide", X, (5, 20), refused=True),
    case("other_places", X, (4, 16), refused=True),
    case("odd", X, (5, 15), refused=True),
    case("no_heads", (2, 5, 20), (5, 8), heads=3, refused=True),
]
