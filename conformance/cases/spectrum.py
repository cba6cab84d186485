"""Transforms of rows, and of rows and columns: cut, filled up with zeros, the shortest; complex
numbers of any size, and views of them."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
CASES: list[Case] = []  # of TFLite none stands alone: conformance/models/spectrum_graphs.py


def rfft(name: str, shape: Shape, *lengths: int, dtype: str = "f32", **more: Any) -> NodeCase:
    terms = lengths[-1] * max(1, lengths[0])
    given = (Input(shape, dtype), constant(lengths, "i32"))
    return NodeCase(name, "rfft", given, output_type="c64", terms=terms, **more)


def of_complex(op: str, name: str, shape: Shape, low: float = -1.0, high: float = 1.0) -> NodeCase:
    return NodeCase(name, op, (Input(shape, "c64", low=low, high=high),))


NODES = [
    rfft("rows", (3, 1, 8), 1, 8),
    rfft("many_rows", (2, 40, 1, 64), 1, 64),
    rfft("long", (2, 1, 512), 1, 512),
    rfft("longest", (1, 1, 9), 1, 2048),
    rfft("shortest", (3, 1, 8), 1, 2),
    rfft("filled_up", (3, 1, 6), 1, 8),
    rfft("cut", (3, 1, 12), 1, 8),
    rfft("first_rows", (3, 4, 8), 1, 8),
    rfft("columns", (3, 4, 8), 4, 8),
    rfft("columns_filled_up", (3, 3, 8), 4, 8),
    rfft("columns_cut", (3, 5, 9), 4, 8),
    rfft("two_columns", (2, 2, 8), 2, 16),
    rfft("rank_2", (4, 8), 4, 4),
    rfft("one_row_filled_up", (3, 1, 4), 2, 4),
    rfft("rank_6", (2, 1, 2, 3, 4, 8), 4, 8),
    rfft("one_sample", (2, 1, 8), 1, 1, refused=True),
    rfft("no_rows", (2, 1, 8), 0, 8, refused=True),
    rfft("too_long", (1, 1, 9), 1, 4096, refused=True),
    rfft("too_high", (1, 1, 9), 4096, 8, refused=True),
    rfft("one_length", (2, 1, 8), 8, refused=True),
    rfft("vector", (8,), 1, 8, refused=True),
    rfft("of_complex", (2, 1, 8), 1, 8, dtype="c64", refused=True),
    *(
        of_complex(op, name, shape)
        for op in ("real", "imaginary", "complex_abs")
        for name, shape in (
            ("scalar", ()), ("rank_1", (7,)), ("rank_4", (2, 3, 5, 6)),
            ("rank_8", (2, 1, 2, 2, 1, 2, 3, 2)),
        )
    ),
    of_complex("complex_abs", "large", (5, 9), -1e38, 1e38),
    of_complex("complex_abs", "small", (5, 9), -1e-30, 1e-30),
    *(NodeCase("floats", op, (Input((3, 2)),), refused=True)
      for op in ("real", "imaginary", "complex_abs")),
]  # fmt: skip
