"""SPLIT and SPLIT_V: every axis, parts that are whole channel slices and parts that are not, one
part; equal and uneven extents, and one that is the rest."""

from __future__ import annotations

import numpy as np

from conformance.cases import Case, Input, constant, integers

Shape = tuple[int, ...]


def split(name: str, shape: Shape, axis: int, parts: int, version: int = 1) -> Case:
    given = (constant(np.int32(axis), "i32"), Input(shape))
    return Case(name, "SPLIT", version, given, "SplitOptions", {"numSplits": parts}, outputs=parts)


def split_v(name: str, shape: Shape, axis: int, *extents: int, refused: bool = False,
            kind: str = "i32") -> Case:  # fmt: skip
    sizes = constant(np.array(extents), kind)
    inputs = (Input(shape), sizes, constant(np.int32(axis), "i32"))
    options = {"numSplits": len(extents)}
    return Case(name, "SPLIT_V", 1, inputs, "SplitVOptions", options, outputs=len(extents),
                refused=refused)  # fmt: skip


def unpack(name: str, shape: Shape, axis: int, dtype: str = "f32") -> Case:
    options = {"num": shape[axis], "axis": axis}
    return Case(name, "UNPACK", 1, (Input(shape, dtype),), "UnpackOptions", options,
                outputs=shape[axis], output_type=dtype)  # fmt: skip


CASES = [
    *(unpack(f"axis_{axis}", (3, 2, 4, 5), axis) for axis in range(-1, 3)),
    unpack("rank_1", (4,), 0),
    unpack("rank_2", (5, 3), 1),
    unpack("rank_5", (2, 3, 2, 3, 5), 1),
    unpack("one", (1, 7), 0),
    unpack("bool", (3, 4), 0, "bool"),
    split("rank_1", (12,), 0, 3),
    split("rank_2_rows", (6, 5), 0, 2),
    split("rank_2_columns", (6, 10), 1, 5),
    split("rank_3", (3, 4, 7), 1, 4),
    split("channels_in_quads", (1, 3, 5, 16), 3, 2),
    split("channels_3", (2, 3, 5, 9), 3, 3),
    split("channels_1", (1, 5, 5, 4), -1, 4),
    split("channels_17", (1, 2, 2, 34), 3, 2),
    split("height", (1, 6, 5, 5), 1, 3),
    split("width", (3, 2, 8, 4), 2, 4),
    split("batch_3", (3, 2, 2, 5), 0, 3),
    split("one_part", (1, 4, 4, 5), 3, 1),
    split("rank_5", (2, 3, 4, 5, 6), 4, 2),
    split_v("rank_1", (12,), 0, 3, 5, 4),
    split_v("rank_2_rows", (6, 5), 0, 1, 5),
    split_v("rank_2_columns", (6, 11), 1, 4, 4, 3),
    split_v("rank_3", (3, 7, 4), -2, 2, 5),
    split_v("equal", (1, 3, 5, 16), 3, 8, 8),
    split_v("quads_first", (1, 3, 5, 13), -1, 8, 5),
    split_v("quads_last", (2, 3, 5, 13), 3, 5, 8),
    split_v("channels_1", (1, 5, 5, 6), -1, 1, 2, 3),
    split_v("rest_first", (1, 4, 3, 10), 3, -1, 4),
    split_v("rest_between", (1, 9, 2, 5), 1, 2, -1, 3),
    split_v("rest_last", (3, 2, 7, 4), -2, 3, -1),
    split_v("all_is_rest", (2, 5), 1, -1),
    split_v("batch", (5, 2, 2, 3), 0, 2, 3),
    split_v("int64", (1, 4, 4, 9), 3, 4, 5, kind="i64"),
    split_v("rank_5", (2, 3, 4, 5, 6), 2, 1, 3),
    split_v("empty_part", (1, 4, 4, 5), 3, 5, 0, refused=True),
]
CASES += integers(CASES, {"SPLIT": "i32", "SPLIT_V": "i32 i64", "UNPACK": "i32"})
