"""STRIDED_SLICE and SLICE: each mask, negative indices and strides, whole and broken channel
slices, ranks 1 to 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.cases import Case, Input, constant, integers

Ints = Sequence[int]
MASKS = {"keep_begin": "beginMask", "keep_end": "endMask", "ellipsis": "ellipsisMask",
         "new": "newAxisMask", "shrink": "shrinkAxisMask"}  # fmt: skip


def cut(
    name: str,
    shape: tuple[int, ...],
    begin: Ints,
    end: Ints,
    strides: Ints | None = None,
    dtype: str = "f32",
    offset: bool = False,
    refused: bool = False,
    **masks: int,
) -> Case:
    """Returns a case; masks are bit sets named keep_begin, keep_end, ellipsis, new, shrink."""
    options: dict[str, Any] = {field: masks.get(mask, 0) for mask, field in MASKS.items()}
    options["offset"] = offset
    # The converter writes 6 for ellipsis and new-axis masks and 8 for offset, but the reference
    # kernels of tflite-runtime 2.14, which read all of these, are registered up to version 5.
    version = 4 if len(shape) > 4 else 1
    given = (
        Input(shape, dtype),
        *(constant(v, "i32") for v in (begin, end, strides or [1] * len(begin))),
    )
    version = max(version, 3) if dtype == "bool" else version
    return Case(
        name,
        "STRIDED_SLICE",
        version,
        given,
        "StridedSliceOptions",
        options,
        output_type=dtype,
        refused=refused,
    )


def sliced(
    name: str, shape: tuple[int, ...], begin: Ints, size: Ints, dtype: str = "f32",
    bounds: str = "i32", **more: Any,
) -> Case:  # fmt: skip
    """Returns a case of SLICE."""
    given = (Input(shape, dtype), constant(begin, bounds), constant(size, bounds))
    version = 5 if len(shape) > 4 else 1
    return Case(name, "SLICE", version, given, "SliceOptions", output_type=dtype, **more)


FOUR = (1, 5, 7, 8)
SLICES: dict[str, tuple[tuple[int, ...], Ints, Ints]] = {
    "slice_space": (FOUR, (0, 1, 2, 0), (1, 3, 4, 8)),
    "slice_channels": (FOUR, (0, 0, 0, 3), (1, 5, 7, 2)),
    "slice_rest": ((3, 5, 7, 5), (1, 0, 2, 1), (-1, -1, 3, -1)),
    "slice_all": ((2, 3, 5, 5), (0, 0, 0, 0), (-1, 3, 5, -1)),
    "slice_one_element": ((2, 3, 5, 5), (1, 2, 4, 4), (1, 1, 1, 1)),
    "slice_rank_1": ((17,), (3,), (9,)),
    "slice_rank_2": ((5, 9), (1, 4), (3, 5)),
    "slice_rank_3": ((2, 9, 5), (0, 2, 1), (2, 7, 3)),
    "slice_rank_5": ((2, 3, 4, 5, 6), (1, 0, 1, 2, 3), (1, 3, 2, -1, 3)),
}
ODD = (3, 5, 7, 5)

CASES = [
    cut("space", FOUR, [0, 1, 2, 0], [1, 4, 6, 8]),
    cut("space_odd_batch_3", ODD, [0, 1, 2, 0], [3, 4, 6, 5]),
    cut("space_steps", ODD, [0, 0, 1, 0], [3, 5, 7, 5], [1, 2, 3, 1]),
    cut("step_over_extent", ODD, [0, 1, 0, 0], [3, 5, 7, 5], [1, 9, 9, 9]),
    cut("batch", ODD, [1, 0, 0, 0], [3, 5, 7, 5]),
    cut("one_of_batch", ODD, [1, 0, 0, 0], [2, 5, 7, 5]),
    cut("first_channels", FOUR, [0, 0, 0, 0], [1, 5, 7, 3]),
    cut("second_quad", FOUR, [0, 0, 0, 4], [1, 5, 7, 8]),
    cut("second_quad_odd", ODD, [0, 0, 0, 4], [3, 5, 7, 5]),
    cut("across_quads", FOUR, [0, 0, 0, 3], [1, 5, 7, 7]),
    cut("last_channel", ODD, [0, 0, 0, -1], [3, 5, 7, 5]),
    cut("channel_steps", (1, 3, 3, 17), [0, 0, 0, 1], [1, 3, 3, 17], [1, 1, 1, 3]),
    cut("reverse_channels", ODD, [0, 0, 0, -1], [3, 5, 7, -6], [1, 1, 1, -1]),
    cut("reverse_space", ODD, [0, -1, -1, 0], [3, -6, -8, 5], [1, -1, -2, 1]),
    cut("reverse_all", ODD, [-1] * 4, [-9] * 4, [-1] * 4),
    cut("reverse_masked", ODD, [0] * 4, [0] * 4, [-1, -2, -3, -1], keep_begin=15, keep_end=15),
    cut("negative_indices", ODD, [-2, -4, -6, -3], [-1, -1, -2, -1]),
    cut("clamped", ODD, [-99, -99, 2, 1], [99, 99, 99, 99]),
    cut("clamped_reverse", ODD, [99, 0, 0, 0], [-99, 5, 7, 5], [-1, 1, 1, 1]),
    cut("begin_mask", ODD, [2, 3, 4, 0], [3, 4, 6, 5], keep_begin=6),
    cut("end_mask", ODD, [1, 3, 4, 2], [2, 1, 1, 1], keep_end=14),
    cut("fewer_entries", ODD, [1, 2], [3, 5]),
    cut("everything", ODD, [0] * 4, [3, 5, 7, 5]),
    cut("shrink_batch", ODD, [1, 0, 0, 0], [2, 5, 7, 5], shrink=1),
    cut("shrink_height", ODD, [0, 2, 0, 0], [3, 3, 7, 5], shrink=2),
    cut("shrink_width", ODD, [0, 0, -1, 0], [3, 5, 0, 5], shrink=4),
    cut("shrink_channels", ODD, [0, 0, 0, 3], [3, 5, 7, 4], shrink=8),
    cut("shrink_channel_of_quads", FOUR, [0, 0, 0, 4], [1, 5, 7, 5], shrink=8),
    cut("shrink_two", ODD, [2, 1, 0, 0], [3, 2, 7, 5], shrink=3),
    cut("shrink_all", ODD, [2, 1, 3, 4], [3, 2, 4, 5], shrink=15),
    cut("shrink_one_row", (1, 5), [0, 0], [1, 5], shrink=1),
    cut("shrink_and_begin_mask", ODD, [2, 1, 0, 0], [3, 2, 7, 5], shrink=3, keep_begin=1),
    cut("ellipsis_front", ODD, [0, 2], [0, 4], ellipsis=1),
    cut("ellipsis_middle", ODD, [1, 0, 2], [2, 0, 4], [1, 1, 1], ellipsis=2),
    cut("ellipsis_end", ODD, [1, 0], [3, 0], ellipsis=2),
    cut("ellipsis_one_axis", (3, 5, 7), [1, 0, 2], [2, 0, 6], ellipsis=2),
    cut("ellipsis_and_shrink", ODD, [0, 2], [0, 3], ellipsis=1, shrink=2),
    cut("new_axis_front", (5, 7, 3), [0, 1, 0, 0], [1, 4, 7, 3], new=1),
    cut("new_axis_middle", (5, 7, 3), [1, 0, 0, 0], [4, 0, 7, 3], new=2),
    cut("new_axis_end", (3, 5, 7), [0, 0, 0, 0], [3, 5, 7, 0], new=8),
    cut("new_axis_to_rank_5", ODD, [0] * 5, [3, 5, 7, 5, 0], new=16),
    cut("new_axis_and_ellipsis", (5, 7, 3), [0, 0], [0, 0], ellipsis=1, new=2),
    cut("new_axis_and_shrink", (5, 7, 3), [0, 2, 0, 0], [0, 3, 7, 3], new=1, shrink=2),
    cut("offset", ODD, [1, 2, 3, 1], [1, 2, 3, 4], offset=True),
    cut("offset_masked", ODD, [1, 2, 3, 1], [1, 2, 3, 4], offset=True, keep_begin=2),
    cut("rank_1", (17,), [3], [15], [2]),
    cut("rank_1_reverse", (17,), [-1], [-18], [-1]),
    cut("rank_1_element", (17,), [5], [6], shrink=1),
    cut("rank_2", (3, 17), [0, 4], [3, 17], [2, 1]),
    cut("rank_3", (3, 5, 7), [0, 1, 2], [3, 4, 6]),
    cut("rank_5", (2, 3, 4, 2, 5), [0, 1, 0, 0, 1], [2, 3, 4, 2, 5], [1, 1, 2, 1, 2]),
    cut("rank_5_reverse", (2, 3, 4, 2, 5), [-1] * 5, [-9] * 5, [-1] * 5),
    cut("rank_5_shrink_to_4", (2, 3, 4, 2, 5), [0, 1, 0, 0, 0], [2, 2, 4, 2, 5], shrink=2),
    cut("long", (1, 70_001, 1, 2), [0, 1, 0, 0], [1, 70_000, 1, 2]),
    cut("bool", (1, 5, 7, 5), [0, 1, 2, 1], [1, 4, 6, 5], dtype="bool"),
    cut("empty", ODD, [0, 2, 0, 0], [3, 2, 7, 5]),
    *[sliced(name, *given) for name, given in SLICES.items()],
    sliced("bool", (1, 5, 7, 5), (0, 1, 2, 1), (1, 3, -1, 3), "bool"),
    sliced("int64", (3, 5), (1, 2), (-1, 2), bounds="i64"),
]  # fmt: skip
CASES += integers(CASES, {"STRIDED_SLICE": "i32 i64", "SLICE": "i32 i64"})
