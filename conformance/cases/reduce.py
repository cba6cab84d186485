"""MEAN, SUM and the like: every set of axes of every rank, kept and dropped, negative and repeated,
and sums of many elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase


def mean(
    name: str,
    shape: tuple[int, ...],
    axes: int | tuple[int, ...],
    keep: bool = False,
    low: float = -1.0,
    high: float = 1.0,
    **more: Any,
) -> Case:
    """Returns a case with constant axes; an int makes them a scalar."""
    image = Input(shape, low=low, high=high)
    inputs = (image, constant(axes, "i32"))
    return Case(name, "MEAN", 1, inputs, "ReducerOptions", {"keepDims": keep}, **more)


def reducer(op: str) -> list[Case]:
    """Returns a few of the cases of MEAN, whose kernels find elements in the same way."""
    low = 0.5 if op == "REDUCE_PROD" else -1.0
    return [
        replace(case, op=op, inputs=(replace(case.inputs[0], low=low), case.inputs[1]))
        for case in MEANS
        if case.name in FEW and case.inputs[0] is not None
    ]


FEW = {
    *("image_keep_channels_4", "image_drop_channels_17_batch_3", "image_axes_swapped_negative"),
    *("image_axes_repeated", "rows", "columns_drop", "channels_keep", "channels_drop"),
    *("channels_drop_channels_1", "batch_drop", "batch_and_channels", "rows_and_channels_keep"),
    *("all_of_rank_4", "all_of_rank_4_keep", "no_axes", "axis_scalar", "scalar_no_axes", "rank_1"),
    *("rank_2_first", "rank_2_last", "rank_3_middle_keep", "rank_3_first_and_last"),
    *("rank_5_image", "rank_5_every_other", "rank_5_to_4"),
}


MEANS = [
    mean("image_keep_channels_4", (1, 7, 7, 4), (1, 2), True),
    mean("image_drop_channels_17_batch_3", (3, 7, 5, 17), (1, 2)),
    mean("image_drop_channels_3", (1, 3, 5, 3), (1, 2)),
    mean("image_keep_1x1", (2, 1, 1, 5), (1, 2), True),
    mean("image_axes_swapped_negative", (2, 6, 5, 8), (-2, 1), True),
    mean("image_axes_repeated", (2, 6, 5, 8), (1, 2, 1, -3), True),
    mean("image_positive_70000", (1, 280, 250, 3), (1, 2), low=0.5, high=1.5),
    mean("image_16x16_batch_3", (3, 16, 16, 5), (1, 2)),
    mean("rows", (2, 6, 5, 7), (1,), True),
    mean("rows_drop", (2, 6, 5, 7), (1,)),
    mean("columns_drop", (2, 6, 5, 7), (2,)),
    mean("columns_1x_rows", (2, 1, 5, 7), (2,)),
    mean("channels_keep", (2, 6, 5, 7), (3,), True),
    mean("channels_drop", (2, 6, 5, 7), (-1,)),
    mean("channels_drop_channels_1", (2, 3, 5, 1), (3,)),
    mean("channels_1001", (1, 1, 3, 1001), (3,), True),
    mean("batch_keep", (3, 4, 5, 6), (0,), True),
    mean("batch_drop", (3, 4, 5, 6), (0,)),
    mean("batch_and_image", (3, 4, 5, 6), (0, 1, 2)),
    mean("batch_and_channels", (3, 4, 5, 6), (0, 3)),
    mean("batch_and_columns_of_2", (4, 3, 2, 5), (0, 2)),
    mean("rank_5_every_other_alike", (4, 3, 6, 2, 4), (0, 2, 4)),
    mean("rows_and_channels_keep", (3, 4, 5, 6), (1, 3), True),
    mean("batch_and_columns", (3, 4, 5, 6), (0, 2)),
    mean("image_and_channels", (3, 4, 5, 6), (1, 2, 3)),
    mean("all_of_rank_4", (3, 4, 5, 6), (0, 1, 2, 3), low=-1.5, high=1.5),
    mean("all_of_rank_4_keep", (3, 4, 5, 6), (0, 1, 2, 3), True, low=-1.5, high=1.5),
    mean("all_positive_66049", (1, 257, 257, 1), (0, 1, 2, 3), low=0.5, high=1.5),
    mean("all_positive_1000003", (1_000_003,), (0,), low=0.5, high=1.5),
    mean("no_axes", (2, 3, 4, 5), ()),
    mean("axis_scalar", (2, 3, 4, 5), 2),
    mean("scalar_no_axes", (), ()),
    mean("scalar_axis_0", (), (0,), True),
    mean("rank_1", (7,), (0,)),
    mean("rank_1_keep", (70_001,), (0,), True, low=-0.5),  # around zero no sum has digits
    mean("rank_2_first", (5, 7), (0,)),
    mean("rank_2_last", (5, 7), (1,), True),
    mean("rank_2_last_long", (3, 4099), (-1,)),
    mean("rank_2_both", (5, 7), (0, 1)),
    mean("rank_3_middle", (2, 9, 6), (1,)),
    mean("rank_3_middle_keep", (2, 9, 6), (1,), True),
    mean("rank_3_first_and_last", (2, 9, 6), (0, 2)),
    mean("rank_3_last", (2, 9, 6), (2,)),
    mean("rank_5_middle", (2, 3, 4, 5, 3), (2,)),
    mean("rank_5_image", (2, 3, 4, 5, 3), (2, 3), True),
    mean("rank_5_every_other", (2, 3, 4, 5, 3), (0, 2, 4)),
    mean("rank_5_every_other_kept", (2, 3, 4, 5, 3), (1, 3)),
    mean("rank_5_to_4", (2, 3, 4, 5, 6), (1,)),
    mean("rank_5_last_to_4", (2, 3, 4, 5, 6), (-1,)),
    mean("rank_5_all_keep", (2, 3, 4, 5, 6), (0, 1, 2, 3, 4), True),
    mean("rank_6", (2, 2, 3, 2, 3, 2), (1, 3)),
    mean("large_magnitude", (1, 5, 5, 3), (1, 2), low=-1e30, high=1e30),
    mean("sum_over_65504", (1, 64, 64, 3), (1, 2), low=0, high=1000),
    mean("sum_over_65504_channels", (1, 2, 2, 4096), (3,), low=0, high=1000),
]
CASES = [
    *MEANS,
    *(case for op in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD") for case in reducer(op)),
    replace(mean("positive_66049", (1, 257, 257, 1), (1, 2), low=0.5, high=1.5), op="SUM"),
    *(replace(mean("long", (3, 4099), (-1,)), op=op) for op in ("REDUCE_MAX", "REDUCE_MIN")),
]  # fmt: skip
CASES += [
    Case(name, op, 1, (Input(shape, "bool"), constant(axes, "i32")), "ReducerOptions",
         {"keepDims": keep}, output_type="bool")
    for op in ("REDUCE_ANY", "REDUCE_ALL")
    for name, shape, axes, keep in (
        ("last", (3, 4, 2), (-1,), False), ("image_keep", (2, 2, 1, 5), (1, 2), True),
        ("all", (2, 2), (0, 1), False), ("first", (2, 17), (0,), True),
        ("rank_1", (3,), (0,), True),
    )
]  # fmt: skip
BOTH = "i32 i64"
CASES += [
    *integers(CASES, {"MEAN": BOTH}, {*FEW, "rank_2_last_long", "sum_over_65504_channels"}),
    *(
        replace(case, refused=True)
        for case in integers(CASES, {"MEAN": BOTH}, {"image_positive_70000"})
    ),
    *integers(CASES, {"SUM": BOTH}, low=-(2**17), high=2**17),
    *integers(CASES, {"REDUCE_MAX": BOTH, "REDUCE_MIN": BOTH}),
    *integers(CASES, {"REDUCE_PROD": BOTH}, low=-1, high=3),
]


def reduction(op: str, name: str, shape: tuple[int, ...], axes: tuple[int, ...],
              keep: bool = False, low: float = -1.5, high: float = 1.5) -> NodeCase:  # fmt: skip
    """Returns a node case with constant axes."""
    terms = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    return NodeCase(name, op, (Input(shape, low=low, high=high), constant(axes, "i32")),
                    {"keep_dims": keep}, terms=terms)  # fmt: skip


SUMS = ("reduce_sum", "reduce_l1", "reduce_l2", "reduce_sum_square", "reduce_mean_square")
ENDS = ("reduce_max", "reduce_min")
NODES = [
    *(
        case
        for op in (*SUMS, *ENDS, "reduce_prod")
        for case in (
            reduction(op, "image", (2, 3, 5, 6), (1, 2), True),
            reduction(op, "channels", (2, 3, 5, 6), (3,)),
            reduction(op, "rank_5", (2, 3, 2, 2, 5), (0, 2, 4)),
            reduction(op, "all", (3, 7), (0, 1)),
        )
    ),
    NodeCase(
        "image_centred", "reduce_mean_square",
        (Input((2, 9, 8, 5), low=99, high=101), constant((1, 2), "i32"),
         Input((2, 1, 1, 5), low=99, high=101)),
        {"keep_dims": True}, terms=72,
    ),
    *(reduction(op, "long", (1, 300, 3, 3), (1,)) for op in (*SUMS, *ENDS)),
    *(reduction(op, "result_over_65504", (1, 64, 64, 3), (1, 2), True, 0, 400) for op in SUMS),
    *(reduction("reduce_log_sum_exp", name, (2, 3, 5, 6), axes, keep, low, high)
      for name, axes, keep, low, high in (
          ("image", (1, 2), True, -2, 2), ("channels", (3,), False, -2, 2),
          ("large", (1,), False, 90, 99), ("all", (0, 1, 2, 3), False, -99, -90))),
    NodeCase("infinite", "reduce_log_sum_exp", (constant(np.array([[-np.inf, -np.inf], [1, np.inf],
             [0, -np.inf]])), constant((1,), "i32")), {"keep_dims": False}),
    *(reduction(op, "rank_8", (2, 3, 1, 2, 2, 1, 3, 5), (1, 3, 7)) for op in (*SUMS, *ENDS)),
    reduction("reduce_log_sum", "image", (2, 3, 5, 6), (1, 2), low=0.1),
    *(NodeCase("special", op, (constant(np.array([[1, np.inf, 3, -np.inf], [2, 1, np.nan, 2]])),
               constant((1,), "i32")), {"keep_dims": False}) for op in ENDS),
    NodeCase("infinite", "mean", (constant(np.array([[1, np.inf, 3, 2], [2, 1, -np.inf, 2],
             [np.inf, 0, 1, -np.inf]])), constant((1,), "i32")),
             {"keep_dims": False}),
    NodeCase("infinite", "reduce_max", (constant(np.full((2, 3), -np.inf)), constant((1,), "i32")),
             {"keep_dims": True}),
    *(
        NodeCase(f"whole_{dtype}", op, (Input((3, 4, 5, 6), dtype, low=-999, high=999),
                 constant((1, 2), "i32")), {"keep_dims": False}, output_type=dtype)
        for op in ("mean", "reduce_l1", "reduce_sum_square", "reduce_sum", *ENDS)
        for dtype in ("i32", "i64")
    ),
]  # fmt: skip
