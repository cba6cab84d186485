"""RESHAPE, SQUEEZE, EXPAND_DIMS: shapes whose storage agrees (nothing moves) and shapes whose
storage differs, both directions."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def reshape(name: str, shape: Shape, wanted: Shape, dtype: str = "f32", **more: Any) -> Case:
    """Returns a case whose new shape is a constant input."""
    given = (Input(shape, dtype), constant(wanted, "i32"))
    return Case(name, "RESHAPE", 1, given, output_type=dtype, **more)


def by_options(name: str, shape: Shape, wanted: Shape) -> Case:
    """Returns a case whose new shape is in the options."""
    return Case(name, "RESHAPE", 1, (Input(shape),), "ReshapeOptions", {"newShape": list(wanted)})


def squeeze(name: str, shape: Shape, axes: Shape, dtype: str = "f32") -> Case:
    options = {"squeezeDims": list(axes)}
    return Case(
        name, "SQUEEZE", 1, (Input(shape, dtype),), "SqueezeOptions", options, output_type=dtype
    )


def expand_dims(name: str, shape: Shape, axis: int | Shape, dtype: str = "f32") -> Case:
    given = (Input(shape, dtype), constant(axis, "i32"))
    return Case(name, "EXPAND_DIMS", 1, given, "ExpandDimsOptions", output_type=dtype)


CASES = [
    reshape("flatten", (1, 3, 5, 7), (1, 105)),
    reshape("flatten_free", (3, 3, 5, 7), (3, -1)),
    reshape("flatten_quads", (1, 4, 4, 8), (1, 128)),
    reshape("to_rank_1", (2, 3, 5), (30,)),
    reshape("from_rank_1", (30,), (2, 3, 5)),
    reshape("map_to_vector", (1, 1, 1, 17), (1, 17)),
    reshape("vector_to_map", (3, 17), (3, 1, 1, 17)),
    reshape("merge_space", (2, 3, 5, 4), (2, 15, 4)),
    reshape("split_space", (2, 15, 5), (2, 3, 5, 5)),
    reshape("join_channels", (1, 4, 4, 3), (1, 4, 2, 6)),
    reshape("split_channels", (1, 4, 4, 6), (1, 8, 4, 3)),
    reshape("split_whole_quads", (1, 4, 4, 8), (1, 4, 8, 4)),
    reshape("batch_to_space", (6, 2, 2, 5), (2, 6, 2, 5)),
    reshape("space_to_batch", (1, 6, 2, 5), (3, 2, 2, 5)),
    reshape("box_coordinates", (1, 19, 19, 12), (1, -1, 4)),
    reshape("primes", (7, 11), (11, 7)),
    reshape("to_rank_5", (2, 3, 4, 5), (2, 3, 2, 2, 5)),
    reshape("from_rank_5", (2, 3, 2, 2, 5), (2, 3, 4, 5)),
    reshape("rank_5_to_rank_1", (2, 3, 2, 2, 5), (120,)),
    reshape("rank_5_to_5", (2, 3, 2, 2, 5), (5, 2, 2, 3, 2)),
    reshape("to_scalar", (1, 1), ()),
    reshape("scalar_to_map", (), (1, 1, 1, 1)),
    reshape("same", (1, 3, 5, 7), (1, 3, 5, 7)),
    reshape("one_element", (1,), (1, 1, 1)),
    reshape("free_only", (2, 3, 5), (-1,)),
    reshape("long", (1, 70_001, 1, 1), (70_001, 1)),
    reshape("long_flat", (3, 22_003), (66_009,)),
    reshape("bool", (1, 3, 5, 3), (3, 15), "bool"),
    by_options("options", (1, 3, 5, 7), (3, 35)),
    by_options("options_free", (1, 3, 5, 7), (-1, 7)),
    squeeze("all", (1, 5, 1, 3), ()),
    squeeze("two", (1, 1, 1, 17), (1, 2)),
    squeeze("negative", (3, 5, 1, 7, 1), (-1,)),
    squeeze("to_rank_1", (1, 1, 13), (0, 1)),
    *[expand_dims(f"rank_{len(shape)}_axis_{axis}", shape, axis)
      for shape, axis in (((), 0), ((7,), 0), ((7,), -1), ((3, 5), 1), ((2, 3, 5), -2),
                          ((2, 3, 5), 3), ((2, 3, 5, 6), 0), ((2, 3, 5, 6), -1), ((1, 5, 7, 5), 2),
                          ((2, 3, 5, 6), -5))],
    expand_dims("bool", (3, 5), 1, "bool"),
    expand_dims("axis_of_one", (3, 5), (1,)),
    Case("axis_at_run_time", "EXPAND_DIMS", 1, (Input((3, 5)), Input((), "i32", low=0, high=1)),
         "ExpandDimsOptions", refused=True),
    squeeze("bool", (1, 5, 1, 3), (0, 2), "bool"),
]  # fmt: skip
CASES += integers(CASES, {"RESHAPE": "i32 i64", "SQUEEZE": "i32", "EXPAND_DIMS": "i64"})


def of_complex(name: str, extents: Shape, **attributes: Any) -> NodeCase:
    return NodeCase(name, "reshape", (Input(extents, "c64"),), attributes, output_type="c64")


NODES = [
    of_complex("complex", (2, 3, 4), shape=(4, -1)),
    of_complex("complex_to_scalar", (1, 1), shape=()),
    of_complex("complex_squeezed", (2, 1, 1), squeeze=()),
    of_complex("complex_expanded", (2, 2), expand=-1),
    of_complex("complex_rank_8", (2, 3, 4), shape=(2, 1, 1, 3, 1, 2, 1, 2)),
]
