"""Transpose: every order of small ranks, channels that enter and leave the quads, groups of axes
at high rank, and storage that stays as it is."""

from __future__ import annotations

from itertools import permutations

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase


def transpose(name: str, shape: tuple[int, ...], perm: tuple[int, ...], dtype: str = "f32") -> Case:
    """A TFLite model with a constant order of axes."""
    values = (Input(shape, dtype), constant(perm, "i32"))
    version = 4 if len(shape) > 4 else 2 if dtype == "bool" else 1
    return Case(name, "TRANSPOSE", version, values, "TransposeOptions", {}, output_type=dtype)


CASES = [
    transpose("images to planes", (2, 5, 7, 3), (0, 3, 1, 2)),
    transpose("planes to images", (2, 3, 5, 7), (0, 2, 3, 1)),
    transpose("heights and widths", (1, 5, 7, 17), (0, 2, 1, 3)),
    transpose("reversed", (2, 3, 4, 5), (3, 2, 1, 0)),
    transpose("batch last", (3, 2, 4, 5), (1, 2, 3, 0)),
    transpose("same", (1, 3, 5, 4), (0, 1, 2, 3)),
    transpose("one place", (1, 1, 1, 8), (0, 3, 1, 2)),
    transpose("matrix", (5, 7), (1, 0)),
    transpose("long matrix", (2, 66_000), (1, 0)),
    transpose("rank 3", (3, 5, 8), (2, 0, 1)),
    transpose("rank 1", (7,), (0,)),
    transpose("rank 5", (2, 3, 2, 2, 3), (0, 4, 2, 1, 3)),
    transpose("bool", (1, 3, 5, 4), (0, 3, 1, 2), "bool"),
]


def turned(name: str, shape: tuple[int, ...], perm: tuple[int, ...], dtype: str = "f32",
           refused: bool = False) -> NodeCase:  # fmt: skip
    """A node case with fed values."""
    return NodeCase(name, "transpose", (Input(shape, dtype),), {"perm": perm}, output_type=dtype,
                    refused=refused)  # fmt: skip


TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
NODES = [
    *(turned(f"rank_3_{''.join(map(str, p))}", (3, 5, 7), p) for p in permutations(range(3))),
    *(turned(f"rank_4_{''.join(map(str, p))}", (2, 3, 5, 6), p) for p in permutations(range(4))),
    turned("scalar", (), ()),
    turned("rank_1", (7,), (0,)),
    turned("rank_2", (5, 9), (1, 0)),
    turned("rank_2_one_row", (1, 9), (1, 0)),
    turned("negative", (5, 9, 2), (-1, 0, -2)),
    *(turned(f"to_first_{c}", (1, 4, 6, c), TO_FIRST) for c in (1, 3, 4, 5, 8, 17)),
    *(turned(f"to_last_{c}", (3, c, 4, 6), TO_LAST) for c in (1, 3, 4, 5, 8, 17)),
    turned("one_pixel", (1, 1, 1, 9), TO_FIRST),
    turned("one_pixel_back", (2, 9, 1, 1), TO_LAST),
    turned("long", (1, 66_000, 1, 2), TO_FIRST),
    turned("rank_5_last", (2, 3, 4, 5, 6), (0, 2, 3, 4, 1)),
    turned("rank_5_first", (2, 3, 4, 5, 6), (0, 4, 1, 2, 3)),
    turned("rank_5_reversed", (2, 3, 4, 5, 6), (4, 3, 2, 1, 0)),
    turned("rank_6_shuffle", (1, 1, 3, 3, 5, 4), (0, 1, 4, 2, 5, 3)),
    turned("rank_6_shuffle_batch", (2, 3, 2, 2, 3, 4), (0, 1, 4, 2, 5, 3)),
    turned("rank_6_joined", (2, 3, 2, 2, 3, 4), (2, 3, 4, 5, 0, 1)),
    turned("rank_6_reversed", (2, 3, 2, 2, 3, 2), (5, 4, 3, 2, 1, 0), refused=True),
    turned("bool", (2, 3, 5), (0, 2, 1), "bool"),
    turned("no_permutation", (2, 3, 5), (0, 2, 2), refused=True),
]  # fmt: skip
