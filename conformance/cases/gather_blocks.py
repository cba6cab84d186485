"""Rows of tables of 4 and 8 bits in blocks: each size of a block, with zero points and without,
widths that fill no block and no vec4, indices of every rank, from both ends and outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
CASES: list[Case] = []
ROWS = 11


def case(name: str, indices: Shape, width: int, block: int = 32, bits: int = 4, zeros: bool = False,
         kind: str = "i32", rows: int = ROWS, **more: Any) -> NodeCase:  # fmt: skip
    draw, count = np.random.default_rng([*indices, width, block, bits]), -(-width // block)
    words = draw.integers(-(2**31), 2**31, (rows, count, block * bits // 32))
    scales = draw.uniform(0.5, 2, (rows, count)) * draw.choice((-1, 1), (rows, count))
    points = draw.integers(0, 2**bits, (rows, count))
    given: tuple[Any, ...] = (
        Input(indices, kind, low=-rows - 2, high=rows + 2),
        constant(words, "i32"),
        constant(scales),
    )
    given += (constant(points),) if zeros else (None,)
    attributes = {"bits": bits, "block": block, "width": width}
    return NodeCase(name, "gather_blocks", given, attributes, **more)


NODES = [
    *(case(f"block_{block}_bits_{bits}{'_zeros' * zeros}", (7,), 300, block, bits, zeros)
      for block in (16, 32, 64, 128, 256) for bits in (4, 8) for zeros in (False, True)),
    *(case(f"width_{width}_bits_{bits}", (2, 3), width, 16, bits, True)
      for width in (1, 3, 4, 5, 8, 15, 16, 17, 130) for bits in (4, 8)),
    case("scalar", (), 50, zeros=True),
    case("rank_2", (3, 5), 48),
    case("rank_3", (2, 3, 5), 49, bits=8),
    case("rank_4", (2, 3, 2, 5), 50, zeros=True),
    case("one_row", (5,), 64, rows=1),
    case("int64", (2, 9), 64, kind="i64"),
    case("rank_5", (2, 1, 3, 1, 5), 48, refused=True),
    case("nothing", (0,), 48, refused=True),
    case("block_48", (5,), 96, 48, refused=True),
    case("block_8", (5,), 64, 8, refused=True),
    case("bits_2", (5,), 64, 32, 2, refused=True),
    case("floats", (5,), 64, kind="f32", refused=True),
]  # fmt: skip
