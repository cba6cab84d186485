"""ONE_HOT: every axis, indices outside, values of a run; from both ends as nodes."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def one_hot(name: str, shape: Shape, depth: int, axis: int = -1, **more: Any) -> Case:
    """Returns a case whose indices are given at run time, some of them below or above the range."""
    values = constant(2.5), constant(-0.5)
    given = (Input(shape, "i32", low=-2, high=depth + 2), constant(depth, "i32"), *values)
    return Case(name, "ONE_HOT", 1, given, "OneHotOptions", {"axis": axis}, **more)


TRUTHS = (Input((5,), "i32", low=0, high=4), constant(4, "i32"), Input((), "bool"),
          Input((), "bool"))  # fmt: skip
COUNTED = (Input((5,), "i64", low=-4, high=4), constant(4, "i32"), Input(()), Input(()))
DEEP = (Input((5,), "i32", low=0, high=3), Input((), "i32", low=3, high=4), Input(()), Input(()))
CASES = [
    *(one_hot(f"axis_{axis}", (2, 3, 5), 7, axis) for axis in (0, 1, 2, 3, -1)),
    one_hot("scalar", (), 6),
    one_hot("rows", (70,), 9),
    one_hot("depth_1", (4,), 1),
    one_hot("rank_5", (2, 3, 2, 3), 5, 2),
    Case("truths", "ONE_HOT", 1, TRUTHS, "OneHotOptions", {"axis": -1}, output_type="bool"),
    Case("values_of_a_run", "ONE_HOT", 1, COUNTED, "OneHotOptions", {"axis": 0}),
]
CASES += integers(CASES, {"ONE_HOT": "i32 i64"}, ("values_of_a_run",))


def from_both_ends(name: str, shape: Shape, depth: int, axis: int) -> NodeCase:
    given = Input(shape, "i32", low=-depth - 2, high=depth + 2)
    reads = (given, constant((depth,), "i32"), Input((1,)), Input((1,)))
    return NodeCase(name, "one_hot", reads, {"axis": axis, "wraps": True})


NODES = [
    from_both_ends("wraps_first", (3, 5), 4, 0),
    from_both_ends("wraps_last", (3, 5), 3, -1),
    from_both_ends("rank_7", (2, 1, 3, 2, 1, 2), 3, 4),
]
