"""Sums and products along an axis: every axis of each rank, exclusive, in reverse, by few and many
threads."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def cumsum(name: str, shape: Shape, axis: int, **attributes: Any) -> NodeCase:
    reads = (Input(shape, low=-1.5, high=1.5), constant((axis,), "i32"))
    return NodeCase(name, "cumsum", reads, attributes, terms=shape[axis])


def cumprod(name: str, shape: Shape, axis: int, low: float = -1.5, **more: Any) -> NodeCase:
    """Returns a case of cumulative products of long lines by factors around 1."""
    reads = (Input(shape, low=low, high=1.2), constant((axis,), "i32"))
    return NodeCase(name, "cumprod", reads, more, terms=shape[axis])


def whole_products(dtype: str) -> NodeCase:
    reads = (Input((3, 9, 5), dtype, low=-5, high=6), constant((1,), "i32"))
    return NodeCase(f"whole_{dtype}", "cumprod", reads, {"reverse": True}, output_type=dtype)


def host(name: str, shape: Shape, axis: int, flags: Any = (), dtype: str = "f32") -> Case:
    """Returns a case of the host's operator."""
    ends: dict[str, Any] = {"low": -9, "high": 9} if dtype != "f32" else {"low": -1.5, "high": 1.5}
    given = (Input(shape, dtype, **ends), constant(axis, "i32"))
    options = {flag: True for flag in flags}
    return Case(name, "CUMSUM", 1, given, "CumsumOptions", options, output_type=dtype)


CASES = [
    *(host(f"axis_{axis}", (2, 3, 5, 7), axis) for axis in range(4)),
    host("exclusive", (2, 3, 5, 7), 1, ("exclusive",)),
    host("reverse", (2, 3, 5, 7), -2, ("reverse",)),
    host("exclusive_in_reverse", (3, 300), 1, ("exclusive", "reverse")),
    host("rank_1", (5000,), 0),
    host("rank_5", (2, 3, 2, 3, 5), 2),
]  # fmt: skip
CASES += integers(CASES, {"CUMSUM": "i32 i64"}, low=-(2**18), high=2**18)
NODES = [
    *(cumsum(f"axis_{axis}", (2, 3, 5, 7), axis) for axis in range(4)),
    *(cumsum(f"reverse_{axis}", (2, 3, 5, 7), axis, reverse=True) for axis in (-4, 2, -1)),
    *(cumsum(f"exclusive_{axis}", (2, 3, 5, 7), axis, exclusive=True) for axis in (0, 1, 3)),
    cumsum("exclusive_in_reverse", (3, 40, 5), 1, exclusive=True, reverse=True),
    cumsum("rank_1", (300,), 0),
    cumsum("rank_1_of_5000", (5000,), -1, reverse=True),
    cumsum("rank_2_rows", (257, 6), 0),
    cumsum("rank_2_columns", (6, 257), 1, exclusive=True),
    cumsum("rank_5", (2, 3, 2, 3, 5), 2),
    cumsum("rank_6", (2, 3, 2, 2, 3, 5), 3),
    cumsum("more_than_a_group", (70, 15, 9), 1),
    cumsum("lines_of_few_threads", (5, 17, 4), 1),
    cumsum("one_element", (1, 1), 0, exclusive=True),
    *(cumsum(f"a_line_of_{n}", (1, n, 3), 1) for n in (15, 16, 255, 256)),
    *(cumprod(f"axis_{axis}", (2, 3, 5, 7), axis) for axis in range(4)),
    cumprod("reverse", (2, 3, 5, 7), 2, reverse=True),
    cumprod("exclusive", (2, 3, 5, 7), -1, exclusive=True),
    cumprod("exclusive_in_reverse", (3, 40, 5), 1, 0.8, exclusive=True, reverse=True),
    cumprod("rank_1", (300,), 0, 0.8),
    cumprod("rank_6", (2, 3, 2, 2, 3, 5), 3),
    cumprod("many_threads", (1, 256, 3), 1, 0.8),
    cumprod("one_element", (1, 1), 0, exclusive=True),
    *(whole_products(dtype) for dtype in ("i32", "i64")),
    NodeCase("axis_at_run_time", "cumsum", (Input((3, 4)), Input((1,), "i32", low=0, high=1)),
             refused=True),
]  # fmt: skip
