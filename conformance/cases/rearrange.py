"""Patterns: repeated and broadcast axes of every rank, lists of indices on every axis, blocks that
move between channels and image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase
from tflgpu_plugin.ops import views

Shape = tuple[int, ...]


def blocks(op: str, name: str, shape: Shape, block: int) -> Case:
    options = "DepthToSpaceOptions" if op == "DEPTH_TO_SPACE" else "SpaceToDepthOptions"
    return Case(name, op, 1, (Input(shape),), options, {"blockSize": block})


def gather(name: str, shape: Shape, indices: Any, axis: int) -> Case:
    given = (Input(shape), constant(np.array(indices, np.int32), "i32"))
    return Case(name, "GATHER", 1, given, "GatherOptions", {"axis": axis})


def computed(name: str, shape: Shape, places: Shape, axis: int) -> Case:
    """Returns a case whose indices are given at run time."""
    given = (Input(shape), Input(places, "i32", low=0, high=shape[axis]))
    return Case(name, "GATHER", 1, given, "GatherOptions", {"axis": axis})


def of_batches(
    name: str, shape: Shape, places: Shape, axis: int, batch: int, told: bool = True
) -> Case:
    """Returns a case with indices for each batch, constant or given at run time."""
    given: Any = Input(places, "i32", low=0, high=shape[axis])
    if not told:
        given = constant(np.arange(np.prod(places)).reshape(places) * 7 % shape[axis], "i32")
    options = {"axis": axis, "batchDims": batch}
    return Case(name, "GATHER", 5, (Input(shape), given), "GatherOptions", options)


def tile(name: str, shape: Shape, repeats: Shape, dtype: str = "f32", numbers: str = "i32") -> Case:
    given = (Input(shape, dtype), constant(repeats, numbers))
    return Case(name, "TILE", 1, given, "TileOptions", output_type=dtype)


def reverse(name: str, shape: Shape, *axes: int, dtype: str = "f32", **more: Any) -> Case:
    given = (Input(shape, dtype), constant(axes, "i32"))
    return Case(name, "REVERSE_V2", 1, given, "ReverseV2Options", output_type=dtype, **more)


def broadcast(
    name: str, shape: Shape, wanted: Shape, numbers: str = "i32", dtype: str = "f32"
) -> Case:
    given = (Input(shape, dtype), constant(wanted, numbers))
    return Case(name, "BROADCAST_TO", 2, given, "BroadcastToOptions", output_type=dtype)


def filled(name: str, shape: Shape, numbers: str = "i32", dtype: str = "f32") -> Case:
    given = (constant(shape, numbers), Input((), dtype))
    return Case(name, "FILL", 1, given, "FillOptions", output_type=dtype)


def looked_up(name: str, rows: int | Sequence[int], shape: Shape) -> Case:
    """Returns a case of rows of a table; the indices are constant, or this many are given at run
    time."""
    told = Input((rows,), "i32", low=0, high=shape[0]) if isinstance(rows, int) else None
    given = (told or constant(tuple(rows), "i32"), Input(shape))  # type: ignore[arg-type]
    return Case(name, "EMBEDDING_LOOKUP", 1, given)


TILES: dict[str, tuple[Shape, Shape]] = {
    "channels": ((2, 3, 5, 3), (1, 1, 1, 3)),
    "channels_quads": ((1, 3, 5, 8), (1, 1, 1, 2)),
    "batch": ((2, 3, 5, 4), (3, 1, 1, 1)),
    "image": ((1, 3, 5, 6), (1, 2, 2, 1)),
    "every_axis": ((2, 3, 2, 3), (2, 2, 3, 2)),
    "once": ((2, 3, 5), (1, 1, 1)),
    "rank_1": ((5,), (3,)),
    "rank_2": ((3, 5), (2, 2)),
    "rank_5": ((1, 2, 1, 3, 2), (2, 1, 2, 1, 1)),
    "rank_5_every_axis": ((2, 3, 2, 3, 2), (2, 2, 3, 2, 2)),
    "rank_5_one_axis": ((2, 3, 2, 3, 5), (1, 2, 1, 1, 1)),
}


def batches(op: str, name: str, shape: Shape, blocks: Shape, margins: Sequence[Shape]) -> Case:
    """Returns a case of SPACE_TO_BATCH_ND with paddings, or BATCH_TO_SPACE_ND with crops."""
    given = (Input(shape), constant(blocks, "i32"), constant(margins, "i32"))
    version = 1 if len(shape) == 4 else 3
    table = "SpaceToBatchNDOptions" if op == "SPACE_TO_BATCH_ND" else "BatchToSpaceNDOptions"
    return Case(name, op, version, given, table)


def named(shape: Shape, blocks: Shape, margins: Sequence[Shape]) -> str:
    """Returns the name of a case of `batches`."""
    parts = ("x".join(map(str, part)) for part in (shape, blocks, (n for m in margins for n in m)))
    return "_".join(parts)


NONE, TWO = ((0, 0), (0, 0)), ((1, 1), (2, 0))
BATCHES: list[tuple[str, tuple[Shape, Shape, Sequence[Shape]]]] = [
    ("SPACE_TO_BATCH_ND", ((1, 4, 6, 3), (2, 2), NONE)),
    ("SPACE_TO_BATCH_ND", ((3, 4, 6, 8), (2, 3), NONE)),
    ("SPACE_TO_BATCH_ND", ((1, 5, 7, 5), (3, 3), ((2, 2), (1, 1)))),
    ("SPACE_TO_BATCH_ND", ((2, 4, 4, 5), (3, 2), TWO)),
    ("SPACE_TO_BATCH_ND", ((2, 5, 5, 4), (1, 1), TWO)),
    ("SPACE_TO_BATCH_ND", ((1, 33, 33, 8), (4, 4), ((4, 7), (4, 7)))),
    ("SPACE_TO_BATCH_ND", ((2, 6, 5), (3,), ((2, 1),))),
    ("BATCH_TO_SPACE_ND", ((4, 2, 3, 3), (2, 2), NONE)),
    ("BATCH_TO_SPACE_ND", ((12, 2, 3, 8), (2, 3), NONE)),
    ("BATCH_TO_SPACE_ND", ((18, 3, 3, 5), (3, 3), ((2, 2), (1, 1)))),
    ("BATCH_TO_SPACE_ND", ((12, 3, 4, 5), (3, 2), TWO)),
    ("BATCH_TO_SPACE_ND", ((2, 5, 5, 4), (1, 1), TWO)),
    ("BATCH_TO_SPACE_ND", ((6, 4, 5), (3,), ((2, 1),))),
]

CASES = [
    computed("of_a_run_table", (40, 16), (1, 9), 0),
    computed("of_a_run_scalar", (4, 6), (), 1),
    computed("of_a_run_channels", (1, 3, 5, 7), (4,), 3),
    computed("of_a_run_matrix", (2, 9, 5), (3, 2), 1),
    blocks("DEPTH_TO_SPACE", "channels_8", (1, 3, 5, 8), 2),
    blocks("DEPTH_TO_SPACE", "channels_27_batch_3", (3, 2, 3, 27), 3),
    blocks("SPACE_TO_DEPTH", "channels_3", (1, 4, 6, 3), 2),
    blocks("SPACE_TO_DEPTH", "channels_5_batch_3", (3, 9, 3, 5), 3),
    gather("rows", (7, 5), (3, 0, 0, 6), 0),
    gather("channels", (1, 3, 4, 6), (5, 1, 2), 3),
    gather("table", (9, 6), ((1, 2, 3), (8, 0, 4)), 0),
    gather("scalar", (4, 3, 5), 2, 1),
    of_batches("batch", (3, 5, 7), (3, 4), 1, 1),
    of_batches("batch_of_constants", (3, 5, 7), (3, 4), 1, 1, told=False),
    of_batches("batch_axis_2", (2, 3, 5, 4), (2, 6), 2, 1),
    of_batches("batches_2", (2, 3, 5, 4), (2, 3, 2, 2), 2, 2),
    of_batches("batches_all_but_one", (2, 3, 5), (2, 3, 4), -1, -1),
    of_batches("batches_last_axis", (2, 3, 5), (2, 4), 2, 1),
    gather("rows_over_2048", (4099, 3), (2049, 4097, 4098, 2051), 0),
    gather("places_over_2048", (1, 2051, 5), (2049, 2050, 3), 1),
    *[tile(name, *given) for name, given in TILES.items()],
    tile("bool", (2, 3, 5), (1, 2, 3), "bool"),
    *[reverse(f"axis_{axis}", (2, 3, 5, 7), axis) for axis in (0, 1, 2, 3, -1)],
    reverse("rank_1", (9,), 0),
    reverse("rank_5", (2, 3, 2, 2, 5), 4),
    reverse("two_axes", (2, 3, 5, 8), 1, 2, refused=True),
    reverse("one_element", (3, 1, 5), 1),
    reverse("bool", (2, 3, 5), 2, dtype="bool"),
    broadcast("rows", (3, 1), (3, 7)),
    broadcast("new_axes", (5,), (2, 3, 5)),
    broadcast("scalar", (), (2, 3)),
    broadcast("both", (2, 1, 3, 1), (2, 4, 3, 5), "i64"),
    broadcast("same", (2, 3), (2, 3)),
    broadcast("bool", (2, 1, 3), (2, 4, 3), dtype="bool"),
    filled("image", (2, 3, 5, 6)),
    filled("rank_5", (2, 1, 3, 2, 4), "i64"),
    filled("row", (7,)),
    filled("scalar", ()),
    filled("bool", (3, 4), dtype="bool"),
    looked_up("of_a_run", 4, (9, 5)),
    looked_up("constant", (8, 0, 3, 3), (9, 6)),
    looked_up("rank_3", 3, (7, 2, 5)),
    tile("int64", (2, 3, 5), (2, 1, 3), numbers="i64"),
    *[batches(op, name, *given) for op, given in BATCHES for name in [named(*given)]],
]
MOVED = ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "GATHER", "TILE", "SPACE_TO_BATCH_ND", "REVERSE_V2",
         "BROADCAST_TO", "FILL")  # fmt: skip
CASES += integers(CASES, dict.fromkeys((*MOVED, "BATCH_TO_SPACE_ND"), "i32 i64"))


def node(op: str, name: str, shape: Shape, second: Any = None, **attributes: Any) -> NodeCase:
    """Returns a node case; `second` is a constant input."""
    inputs = (Input(shape), *(() if second is None else (constant(second, "i32"),)))
    return NodeCase(name, op, inputs, attributes)


def take(name: str, shape: Shape, rows: Mapping[int, Sequence[int]]) -> NodeCase:
    """Returns a case that gathers rows of indices along an axis."""
    view = views.taken(shape, {axis: np.array(row) for axis, row in rows.items()})
    return NodeCase(f"taken_{name}", "view", (Input(shape),), {"view": view})


NODES = [
    node("tile", "channels", (2, 3, 5, 3), (1, 1, 1, 3)),
    node("tile", "one_channel", (2, 3, 5, 1), (1, 1, 1, 9)),
    node("tile", "batch", (2, 3, 5, 4), (3, 1, 1, 1)),
    node("tile", "image", (1, 3, 5, 6), (1, 2, 2, 1)),
    node("tile", "rank_1", (5,), (3,)),
    node("tile", "rank_2", (3, 5), (2, 2)),
    node("tile", "nothing", (3, 5), (1, 1)),
    node("tile", "rank_5", (1, 2, 1, 3, 2), (2, 1, 2, 1, 1)),
    node("expand", "channels", (2, 3, 5, 1), (2, 3, 5, 9)),
    node("expand", "rank", (5, 1), (2, 3, 5, 6)),
    node("expand", "ones_in_shape", (2, 3, 5, 4), (1, 3, 1, 1)),
    node("expand", "scalar", (), (2, 3, 5)),
    node("expand", "rank_5", (2, 1, 3), (2, 3, 2, 4, 3)),
    *(take(f"axis_{a}", (3, 4, 5, 6), {a: (2, 0, 1, 2, 2)}) for a in range(4)),
    *(take(f"axis_{a}_quads", (3, 4, 5, 8), {a: (2, 0, 1, 2, 2)}) for a in range(4)),
    take("reversed", (3, 4, 5, 6), {3: (5, 4, 3, 2, 1, 0)}),
    take("every_other", (3, 4, 5, 9), {3: (0, 2, 4, 6, 8)}),
    node("gather", "negative", (7,), (-1, 3, -7), axis=0),
    take("rank_2", (5, 9), {1: (8, 1, 1, 0, 5)}),
    take("rank_5", (2, 3, 2, 4, 7), {4: (6, 0, 3)}),
    take("image", (2, 4, 5, 7), {1: (3, 3, 0, 1), 2: (1, 0, 1, 4, 4, 2)}),
    take("image_quads", (2, 4, 5, 8), {2: (1, 0, 1, 4, 4, 2), 1: (3, 3, 0, 1)}),
    take("image_and_channels", (2, 4, 5, 7), {1: (3, 3, 0), 2: (4, 4, 2), 3: (6, 1, 1, 0, 5)}),
    take("image_some_in_steps", (2, 4, 5, 8), {1: (3, 3, 0), 2: (4, 3, 2), 3: (4, 5, 6, 7)}),
    take("all_of_rank_5", (2, 3, 2, 4, 7), {a: (1, 0, 0) for a in range(5)}),
    node("gather", "scalar", (3, 4, 5, 6), 2, axis=1),
    node("gather", "scalar_last", (3, 4, 6), -1, axis=2),
    node("gather", "matrix", (3, 4, 6), ((0, 3), (2, 2)), axis=1),
    node("gather", "row", (3, 4, 6), (0, 3, 1), axis=1),
    *(node("depth_to_space", f"block_{n}_{mode}", (2, 3, 4, 2 * n * n), block=n, mode=mode)
      for n in (2, 3) for mode in ("DCR", "CRD")),
    *(node("space_to_depth", f"block_{n}_{mode}", (2, 2 * n, 3 * n, 3), block=n, mode=mode)
      for n in (2, 3) for mode in ("DCR", "CRD")),
    node("depth_to_space", "one_channel", (1, 5, 6, 9), block=3, mode="CRD"),
    *(NodeCase("bool", op, (Input(shape, "bool"),), {"block": 2, "mode": "DCR"}, output_type="bool")
      for op, shape in (("depth_to_space", (2, 3, 4, 8)), ("space_to_depth", (2, 4, 6, 3)))),
    NodeCase("bool", "gather", (Input((3, 4, 6), "bool"), constant((0, 3, 1), "i32")), {"axis": 1},
             output_type="bool"),
    *(replace(node("gather", f"outside_{k}", (3, 4), (k,), axis=1), refused=True) for k in (4, -5)),
    node("gather", "rank_8", (2, 3, 1, 2, 2, 1, 3, 5), (1, 0, 0), axis=4),
    node("tile", "rank_8", (2, 3, 1, 2, 2, 1, 3, 5), (1, 2, 1, 1, 2, 3, 1, 2)),
    replace(node("tile", "every_axis_of_8", (2,) * 8, (2,) * 8), refused=True),
    node("expand", "rank_8", (3, 1, 2, 1, 1, 3, 5), (2, 3, 1, 2, 2, 1, 3, 5)),
    node("reverse", "rank_8", (2, 3, 1, 2, 2, 1, 3, 5), (0, 3, 7)),
    NodeCase("run_time", "tile", (Input((3, 4)), Input((2,), "i32")), refused=True),
]  # fmt: skip
