"""GATHER_ND: indices on the first axes, as constants and from a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def gather_nd(name: str, shape: Shape, indices: Any, **more: Any) -> Case:
    """Returns a case; `indices` are constants, or the shape of those that are given at run time
    (all axes have 3 elements)."""
    given = (
        Input(indices, "i32", low=0, high=3)
        if isinstance(indices, tuple)
        else constant(np.array(indices), "i32")
    )
    return Case(name, "GATHER_ND", 1, (Input(shape), given), "GatherNdOptions", {}, **more)


CASES = [
    gather_nd("rows", (5, 7), [[4], [0], [4]]),
    gather_nd("elements", (3, 4, 5), [[0, 1, 4], [2, 3, 0]]),
    gather_nd("images", (3, 4, 5, 6), [[0, 3], [2, 0], [1, 1]]),
    gather_nd("of_a_run_1", (3, 5), (4, 1)),
    gather_nd("of_a_run_2", (3, 3, 6, 5), (7, 2)),
    gather_nd("of_a_run_3", (3, 3, 3, 17), (2, 3, 3)),
    gather_nd("of_a_run_4", (3, 3, 3, 3), (5, 4)),
    gather_nd("channels_quads", (3, 3, 8), (6, 2)),
]
CASES += integers(CASES, {"GATHER_ND": "i32 i64"})


def pick(name: str, shape: Shape, indices: Shape, axis: int, **more: Any) -> NodeCase:
    """Returns a case with indices from 0 to 2."""
    given = (Input(shape), Input(indices, "i32", low=0, high=3))
    return NodeCase(name, "pick", given, {"axis": axis}, **more)


def from_both_ends(name: str, shape: Shape, indices: Shape, batch: int = 0) -> NodeCase:
    """Returns a case of gather_nd with constant indices, some of which count from the end."""
    extents = shape[batch : batch + indices[-1]]
    chance = np.random.default_rng(len(name))
    columns = [chance.integers(-n, n, indices[:-1]) for n in extents]
    reads = (Input(shape), constant(np.stack(columns, -1).astype(np.int32), "i32"))
    return NodeCase(name, "gather_nd", reads, {"batch": batch, "wraps": True})


def elements(name: str, shape: Shape, indices: Shape, axis: int, **more: Any) -> NodeCase:
    """Returns a case with indices that are given at run time and count from either end."""
    given = (Input(shape), Input(indices, "i32", low=-shape[axis], high=shape[axis]))
    return NodeCase(name, "gather_elements", given, {"axis": axis, "wraps": True}, **more)


OUTSIDE = (Input((3, 3)), constant(np.array([[3]], np.int32), "i32"))
NODES = [
    from_both_ends("wraps", (5, 3, 7), (6, 2)),
    *(from_both_ends(f"batch_{n}", (2, 3, 5, 6), (*(2, 3)[:n], 4, 2), n) for n in (1, 2)),
    from_both_ends("batch_of_places", (3, 4, 5), (3, 4, 1), 2),
    NodeCase(
        "truths",
        "gather_nd",
        (Input((3, 4), "bool"), constant([[2], [0]], "i32")),
        output_type="bool",
    ),
    NodeCase("constant_outside", "gather_nd", OUTSIDE, {"wraps": True}, refused=True),
    NodeCase(
        "other_batch", "gather_nd", (Input((2, 3)), Input((3, 1))), {"batch": 1}, refused=True
    ),
    *(pick(f"axis_{axis}", (3, 3, 3, 3), (5, 1), axis) for axis in range(4)),
    *(elements(f"axis_{axis}", (3, 4, 5, 6), (2, 3, 4, 5), axis) for axis in range(4)),
    *(
        elements(f"longer_{axis}", (3, 4, 5), (*(3, 4, 5)[:axis], 9, *(3, 4, 5)[axis + 1 :]), axis)
        for axis in range(3)
    ),
    elements("rank_1", (7,), (70,), 0),
    elements("rank_7", (2, 1, 3, 2, 1, 2, 3), (2, 1, 3, 2, 1, 2, 3), 2),
    elements("one_of_several", (3, 4, 5), (1, 4, 1), 1),
    elements("of_more", (3, 4), (4, 4), 1, refused=True),
    NodeCase(
        "truths",
        "gather_elements",
        (Input((2, 3), "bool"), constant([[2, 0], [1, 1]], "i32")),
        {"axis": 1},
        output_type="bool",
    ),
    NodeCase("outside", "gather_elements", OUTSIDE, {"axis": 1}, refused=True),
    pick("more_than_a_group", (3, 4), (65, 1), 0),
    pick("two_axes", (2, 3, 3, 6), (4, 2), 1),
    pick("channels_21", (3, 4, 21), (7, 1), 0),
    pick("image_and_channels", (1, 3, 3, 3), (9, 3), 1),
    pick("rank_5", (2, 3, 2, 3, 5), (4, 1), 1),
    pick("rank_6", (2, 3, 1, 3, 1, 3), (4, 1), 1),
    pick("rank_8", (2, 2, 1, 3, 3, 2, 2, 5), (4, 2), 3),
    pick("too_many_axes", (3, 3), (5, 3), 0, refused=True),
]
