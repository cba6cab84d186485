"""ARG_MAX and ARG_MIN: every axis of each rank, both integer types, ties, one element, many."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase
from tflgpu_plugin.ir import Array

Shape = tuple[int, ...]
TYPES = {"i32": "INT32", "i64": "INT64"}


def arg(op: str, name: str, shape: Shape, axis: int, dtype: str = "i32", **ends: Any) -> Case:
    given = (Input(shape, **ends), constant(np.int32(axis), "i32"))
    table = "ArgMaxOptions" if op == "ARG_MAX" else "ArgMinOptions"
    return Case(name, op, 1, given, table, {"outputType": TYPES[dtype]}, output_type=dtype)


CASES = [
    *(arg(op, f"axis_{axis}", (2, 3, 5, 7), axis) for op in ("ARG_MAX", "ARG_MIN")
      for axis in range(4)),
    arg("ARG_MAX", "channels_21", (1, 9, 8, 21), 3, "i64"),
    arg("ARG_MAX", "channels_64_batch_3", (3, 5, 4, 64), -1),
    arg("ARG_MIN", "rank_1", (17,), 0, "i64"),
    arg("ARG_MAX", "rank_1_of_65000", (65_000,), 0),
    *(arg("ARG_MAX", f"rank_2_rows_{n}", (n, 6), 0, "i64") for n in (1, 3, 6)),
    arg("ARG_MAX", "more_than_a_group", (260, 3), 1),
    arg("ARG_MAX", "rank_5", (2, 3, 2, 3, 5), 2),
    arg("ARG_MAX", "one_element", (1, 1), 1),
    arg("ARG_MAX", "equal_elements", (3, 9), 1, low=0.25, high=0.25),
    Case("another_type", "ARG_MIN", 1, (Input((3, 9)), constant(np.int32(1), "i32")),
         "ArgMinOptions", {"outputType": "INT64"}, output_type="i32", refused=True),
]  # fmt: skip
CASES += integers(CASES, {"ARG_MAX": "i32", "ARG_MIN": "i32"})


def node(op: str, name: str, values: Any, axis: int = 1, **attributes: Any) -> NodeCase:
    reads = (constant(np.float32(values)), constant((axis,), "i32"))
    return NodeCase(name, op, reads, {"keep_dims": False, **attributes}, output_type="i32")


TIES = [[1, 3, 3, 0], [-1, -1, -2, -2], [5, 5, 5, 5]]


def far(count: int) -> NodeCase:
    """Returns rows whose largest element is at each end of the blocks that the kernel goes
    through."""
    places = sorted({0, 1, 4095, 4096, 4097, 8191, 8192, count - 1})
    return node("arg_max", f"blocks_of_{count}", np.eye(count, dtype=np.float32)[places])


def far_rows() -> Array:
    return np.eye(8_193, dtype=np.float32)[[0, 4095, 4096, 8191, 8192]]


def alike(count: int) -> Array:
    """Returns rows of 0, 1 and -1, each at several positions, which are distributed over threads
    that share a row; one begins with NaN."""
    rows = np.random.default_rng(count).integers(-1, 2, (6, count)).astype(np.float32)
    rows[4, 0] = np.nan
    return rows


NODES = [
    far(8_193),
    far(12_290),
    *(node(op, f"ties_{last}", TIES, last=last)
      for op in ("arg_max", "arg_min") for last in (False, True)),
    *(node(op, f"alike_{count}_{last}", alike(count), last=last)
      for op in ("arg_max", "arg_min") for last in (False, True) for count in (17, 40, 300, 1_000)),
    *(node(op, "infinities", [[-np.inf, 1, np.inf], [-np.inf] * 3, [np.inf] * 3])
      for op in ("arg_max", "arg_min")),
    node("arg_max", "kept", TIES, keep_dims=True),
    *(
        NodeCase("refused_" + "_".join(map(str, shape)), "arg_min",
                 (Input(shape), constant((0,), "i32")), {"keep_dims": False}, refused=True)
        for shape in ((0, 3), (3, 0), (1 << 28,), ((1 << 28) + 1, 1))
    ),
    *(NodeCase(f"rank_8_axis_{axis}", "arg_max",
               (Input((2, 3, 1, 2, 2, 1, 3, 5)), constant((axis,), "i32")), {"keep_dims": False},
               output_type="i32")
      for axis in (1, 4, 7)),
    *(node(op, f"{name}_axis_{axis}_{last}", np.nan_to_num(alike(count)).reshape(shape), axis,
           last=last)
      for op in ("arg_max", "arg_min") for last in (False, True)
      for name, count, shape, axis in (
          ("planes", 400, (2, 300, 4), 1), ("planes_of_5", 400, (2, 240, 5), 1),
          ("across_vectors", 399, (2, 399, 3), 1), ("images", 400, (60, 5, 8), 0),
          ("images_of_7", 350, (75, 4, 7), 0), ("channels_of_3", 300, (3, 2, 300), 2),
      )),
    node("arg_max", "planes_of_blocks", far_rows().T, axis=0),
    NodeCase("two_axes", "arg_max", (Input((3, 4)), constant((0, 1), "i32")),
             {"keep_dims": False}, refused=True),
]  # fmt: skip
