"""Transpose: every order of small ranks, channels that enter and leave the slices, groups of axes
at high rank, and storage that stays as it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase
from tflgpu_plugin.ops import views
from tflgpu_plugin.ops.views import View


def transpose(name: str, shape: tuple[int, ...], perm: tuple[int, ...], dtype: str = "f32") -> Case:
    """Returns a TFLite case with a constant order of axes."""
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
CASES += integers(CASES, {"TRANSPOSE": "i32 i64"})


def turned(name: str, shape: tuple[int, ...], perm: tuple[int, ...], dtype: str = "f32",
           refused: bool = False) -> NodeCase:  # fmt: skip
    """Returns a node case with fed values."""
    return NodeCase(name, "transpose", (Input(shape, dtype),), {"perm": perm}, output_type=dtype,
                    refused=refused)  # fmt: skip


def joined(name: str, shape: tuple[int, ...], *steps: View) -> NodeCase:
    """Returns a case of several views in sequence, over a fed value."""
    view = views.identity(shape)
    for step in steps:
        found = view.then(step)
        assert found is not None, f"{name} is no view"
        view = found
    return NodeCase(f"joined_{name}", "view", (Input(shape),), {"view": view})


def blocks(batch: int, height: int, width: int, block: int, depth: int) -> View:
    """Returns a case of depth to space for [B, H, W, block * block * depth]."""
    parts = (batch, height, width, block, block, depth)
    view = views.transposed(parts, (0, 1, 3, 2, 4, 5))
    return replace(view, shape=(batch, height * block, width * block, depth))


TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
JOINED = [
    joined("blocks_of_quads", (2, 3, 4, 32), blocks(2, 3, 4, 2, 8)),
    joined("blocks", (2, 3, 4, 12), blocks(2, 3, 4, 2, 3)),
    joined("shuffled_quads", (1, 3, 5, 24), views.transposed((15, 3, 8), (0, 2, 1))),
    joined(
        "shuffled",
        (2, 3, 5, 24),
        replace(views.transposed((30, 2, 3, 4), (0, 2, 1, 3)), shape=(2, 3, 5, 24)),
    ),
    joined("flat_to_image", (240,), replace(views.identity((240,)), shape=(2, 3, 5, 8))),
    joined("image_to_flat", (2, 3, 5, 8), replace(views.identity((240,)), shape=(240,))),
    joined(
        "turned_and_padded",
        (2, 3, 5, 6),
        views.transposed((2, 3, 5, 6), TO_LAST),
        views.padded((2, 5, 6, 3), [(0, 1), (1, 0), (2, 2), (1, 2)], 7.0),
    ),
    joined(
        "padded_quads", (2, 3, 4, 6), views.padded((2, 3, 4, 6), [(0, 0), (1, 1), (0, 0), (4, 3)])
    ),
    joined(
        "padded_and_turned",
        (2, 3, 4, 8),
        views.padded((2, 3, 4, 8), [(1, 0), (0, 1), (2, 0), (0, 0)], 0.5),
        views.transposed((3, 4, 6, 8), (2, 1, 0, 3)),
    ),
    joined(
        "cut_and_turned",
        (3, 5, 6, 9),
        views.region((3, 5, 6, 9), (2, 1, 5, 8), (3, 2, 3, 4), (-1, 2, -2, -2)),
        views.transposed((3, 2, 3, 4), (3, 0, 2, 1)),
    ),
    joined(
        "taken_and_padded",
        (3, 5, 8),
        views.taken((3, 5, 8), {1: np.array([4, 0, 0, 3]), 2: np.array([7, 1, 1])}),
        views.padded((3, 4, 3), [(0, 0), (1, 2), (1, 0)], -1.0),
    ),
    joined(
        "taken_twice",
        (2, 6, 8),
        views.taken((2, 6, 8), {1: np.array([5, 0, 3, 2])}),
        views.taken((2, 4, 8), {1: np.array([3, 3, 0])}),
    ),
    joined(
        "repeated_and_cut",
        (2, 3, 8),
        views.repeated((2, 3, 8), (2, 3, 2)),
        views.region((4, 9, 16), (2, 3, 8), (2, 6, 8)),
    ),
    joined(
        "all_padding",
        (2, 8),
        views.padded((2, 8), [(4, 0), (0, 0)], 3.0),
        views.region((6, 8), (1, 0), (2, 8)),
    ),
]
NODES = [
    *JOINED,
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
