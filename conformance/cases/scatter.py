"""Updates by indices: SCATTER_ND and segments as the host's operators, and what ONNX has besides as
nodes, with indices of a run and constant ones, that repeat, count from the end or lie outside."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
REDUCTIONS = ("none", "add", "mul", "min", "max")


def new(name: str, indices: Shape, shape: Shape, numbers: str = "i32", **more: Any) -> Case:
    """Returns a SCATTER_ND; indices fit an axis of 3."""
    updates = (*indices[:-1], *shape[indices[-1] :])
    given = (Input(indices, "i32", low=0, high=3), Input(updates), constant(shape, "i32"))
    return Case(name, "SCATTER_ND", 1, given, "ScatterNdOptions", {}, **more)


def apart(name: str, width: int, shape: Shape, count: int, **more: Any) -> Case:
    """Returns a SCATTER_ND of constant indices, all different and in no order."""
    extents = shape[:width]
    places = np.random.default_rng(count).permutation(prod(extents))[:count]
    indices = np.stack(np.unravel_index(places, extents), axis=-1)
    given = (constant(indices, "i32"), Input((count, *shape[width:])), constant(shape, "i32"))
    return Case(name, "SCATTER_ND", 1, given, "ScatterNdOptions", {}, **more)


def segments(name: str, op: str, shape: Shape, ids: Any, count: int | None, **more: Any) -> Case:
    """Returns cases of constant ids, and of ids from -1 on (for SEGMENT_SUM only 0, as its ids must
    ascend)."""
    if isinstance(ids, tuple):
        given: Any = Input(ids, "i32", low=-1 if count else 0, high=count or 1)
    else:
        given = constant(ids, "i32")
    told = () if count is None else (constant(count, "i32"),)
    table = "SegmentSumOptions" if op == "SEGMENT_SUM" else None
    if told:
        table = "".join(word.capitalize() for word in op.split("_")) + "Options"
    number = count or int(np.max(ids)) + 1  # hosts take the shape from the model
    more["shapes"] = ((number, *shape[len(given.shape) :]),)
    return Case(name, op, 1, (Input(shape), given, *told), table, {}, **more)


UNSORTED = [f"UNSORTED_SEGMENT_{name}" for name in ("SUM", "PROD", "MIN", "MAX")]
CASES = [
    new("rows", (5, 1), (4, 7)),
    new("elements", (6, 2), (3, 5)),
    new("matrix_of_indices", (2, 3, 2), (3, 4, 6)),
    new("rank_4", (4, 1), (3, 2, 3, 5)),
    new("rank_1", (9, 1), (70,)),
    apart("apart_rank_1", 1, (70,), 40),
    apart("apart_everywhere", 2, (5, 7), 35),
    apart("apart_rows", 1, (30, 4, 5), 17),
    apart("apart_few", 1, (30, 4, 5), 16),
    apart("apart_many", 3, (1, 200, 90, 5), 17_000),
    Case("alike", "SCATTER_ND", 1, (constant([[k % 7] for k in range(20)], "i32"), Input((20, 3)),
         constant((9, 3), "i32")), "ScatterNdOptions", {}),
    Case("shape_of_a_run", "SCATTER_ND", 1, (Input((2, 1), "i32", low=0, high=3), Input((2,)),
         Input((1,), "i32", low=3, high=4)), "ScatterNdOptions", {}, refused=True),
    Case("too_many", "SCATTER_ND", 1, (Input((1 << 15, 1), "i32", low=0, high=3), Input((1 << 15,)),
         constant([1 << 14], "i32")), "ScatterNdOptions", {}, refused=True),
    segments("rows", "SEGMENT_SUM", (6, 5), [0, 0, 1, 2, 2, 2], None),
    segments("rank_1", "SEGMENT_SUM", (4,), [0, 1, 1, 2], None),
    segments("ids_of_a_run", "SEGMENT_SUM", (4, 3), (4,), None, refused=True),
    *(segments("rows", op, (9, 5), (9,), 4) for op in UNSORTED),
    *(segments("matrix_of_ids", op, (3, 4, 2), (3, 4), 5) for op in UNSORTED),
    *(segments("constant_ids", op, (5, 3), [2, 0, 2, 1, 0], 4) for op in UNSORTED),
]  # fmt: skip
CASES += integers(CASES, dict.fromkeys(("SCATTER_ND", "SEGMENT_SUM", *UNSORTED), "i32"),
                  low=-9, high=9)  # fmt: skip


# Integer inputs: small, so that sums stay small; and all bits of bfloat16.
ENDS: dict[str, dict[str, Any]] = {"i32": {"low": -5, "high": 5}, "bf16": {"low": 0, "high": 65536}}


def elements(
    name: str, shape: Shape, indices: Shape, axis: int, reduction: str, known: bool = False,
    dtype: str = "f32", **more: Any,
) -> NodeCase:  # fmt: skip
    extent = shape[axis]
    given = Input(indices, "i32", low=-extent - (not known), high=extent + (not known))
    if known:
        chance = np.random.default_rng(len(name))
        given = constant(chance.integers(-extent, extent, indices), "i32")
    ends = ENDS.get(dtype, {})
    reads = (Input(shape, dtype, **ends), given, Input(indices, dtype, **ends))
    attributes = {"axis": axis, "reduction": reduction, "wraps": True}
    return NodeCase(name, "scatter_elements", reads, attributes, output_type=dtype, **more)


def rows(
    name: str, shape: Shape, indices: Shape, reduction: str, known: bool = False,
    dtype: str = "f32", count: int | None = None, **more: Any,
) -> NodeCase:  # fmt: skip
    """Returns a case whose indices are on axes of one extent; indices of a run may be out of
    range. Only `count` updates are there, if it is given."""
    extent = shape[0]
    given = Input(indices, "i32", low=-extent - 1, high=extent + 1)
    if known:
        chance = np.random.default_rng(len(name))
        given = constant(chance.integers(-extent, extent, indices), "i32")
    ends = ENDS.get(dtype, {})
    updates = (*indices[:-1], *shape[indices[-1] :])
    reads = [Input(shape, dtype, **ends), given, Input(updates, dtype, **ends)]
    if count is not None:
        reads.append(Input((1,), "i32", low=count, high=count + 1))
    attributes = {"reduction": reduction, "wraps": True}
    return NodeCase(name, "scatter_nd", tuple(reads), attributes, output_type=dtype, **more)


NODES = [
    *(elements(f"{r}_axis_{a}", (3, 4, 5, 6), (3, 4, 5, 6), a, r) for r in REDUCTIONS
      for a in range(4)),
    *(elements(f"{r}_int32", (3, 5), (3, 9), 1, r, dtype="i32") for r in REDUCTIONS),
    elements("more_than_an_axis", (3, 4, 5), (3, 11, 5), 1, "add"),
    elements("corner", (4, 5, 6), (2, 3, 4), 1, "none"),
    elements("corner_of_constants", (4, 5, 6), (2, 3, 4), 1, "add", known=True),
    elements("constants", (4, 5), (4, 3), 1, "none", known=True),
    elements("many_constants", (4, 5, 3), (2, 20, 3), 1, "none", known=True),
    elements("many_constants_last", (4, 23), (3, 20), 1, "none", known=True),
    elements("rank_1", (300,), (5000,), 0, "add"),
    elements("rank_7", (2, 1, 3, 2, 1, 2, 3), (2, 1, 3, 2, 1, 2, 3), 2, "max"),
    elements("bool", (3, 5), (3, 4), 1, "none", dtype="bool"),
    elements("sum_of_bool", (3, 5), (3, 4), 1, "add", dtype="bool", refused=True),
    elements("bfloat16", (3, 5), (3, 4), 1, "none", dtype="bf16"),
    elements("sum_of_bfloat16", (3, 5), (3, 4), 1, "add", dtype="bf16", refused=True),
    elements("corner_of_rank_7", (2, 1, 3, 2, 1, 2, 3), (2, 1, 3, 2, 1, 2, 2), 2, "max",
             refused=True),
    *(rows(f"{r}_rows", (5, 7), (9, 1), r) for r in REDUCTIONS),
    *(rows(f"{r}_elements", (4, 4, 4), (2, 8, 3), r) for r in REDUCTIONS),
    *(rows(f"{r}_int32", (4, 4, 3), (6, 2), r, dtype="i32") for r in REDUCTIONS),
    *(rows(f"counted_{n}", (5, 7), (9, 1), "add", count=n) for n in (-1, 0, 4, 9, 12)),
    rows("counted_constants", (4, 4, 5), (30, 2), "none", known=True, count=20),
    rows("bfloat16", (5, 7), (9, 1), "none", dtype="bf16"),
    rows("many_constants_of_bfloat16", (5, 5), (20, 2), "none", known=True, dtype="bf16"),
    rows("largest_of_bfloat16", (5, 7), (9, 1), "max", dtype="bf16", refused=True),
    rows("images", (3, 3, 4, 5), (4, 2), "none"),
    rows("rank_6", (2, 2, 3, 2, 1, 5), (3, 2), "add"),
    rows("constants", (4, 5), (3, 1), "none", known=True),
    rows("many_constants", (4, 4, 5), (30, 2), "none", known=True),
    rows("many_constants_of_elements", (5, 5), (20, 2), "none", known=True),
    rows("many_constants_of_bool", (5, 5), (20, 2), "none", known=True, dtype="bool"),
    rows("too_many", (1 << 14, 1), (1 << 15, 1), "none", refused=True),
    NodeCase("outside", "scatter_nd", (Input((3, 3)), constant([[3]], "i32"), Input((1, 3))),
             {"reduction": "none"}, refused=True),
]  # fmt: skip
