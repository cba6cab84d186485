"""Products with weights of 2, 4 and 8 bits in blocks: each size of a block, with zero points and
without, inputs that fill no block, outputs and rows that fill no group."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
CASES: list[Case] = []


def case(name: str, x: Shape, outputs: int, block: int = 32, bits: int = 4, zeros: bool = False,
         refused: bool = False) -> NodeCase:  # fmt: skip
    draw, count = np.random.default_rng([*x, outputs, block, bits]), -(-x[-1] // block)
    words = draw.integers(-(2**31), 2**31, (outputs, count, block * bits // 32))
    scales = draw.uniform(0.5, 2, (outputs, count)) * draw.choice((-1, 1), (outputs, count))
    points = draw.integers(0, 2**bits, (outputs, count))
    given: tuple[Any, ...] = (Input(x), constant(words, "i32"), constant(scales))
    given += (constant(points),) if zeros else (None,)
    attributes = {"bits": bits, "block": block}
    return NodeCase(name, "matmul_blocks", given, attributes, terms=x[-1], refused=refused)


NODES = [
    *(case(f"block_{block}_bits_{bits}{'_zeros' * zeros}", (1, 300), 13, block, bits, zeros)
      for block in (16, 32, 64, 128, 256) for bits in (2, 4, 8) for zeros in (False, True)),
    *(case(f"inputs_{k}", (2, k), 9, 16, zeros=True) for k in (1, 3, 4, 15, 16, 17, 130)),
    *(case(f"inputs_{k}_bits_8", (2, k), 9, 16, 8, zeros=True) for k in (1, 17, 130)),
    *(case(f"inputs_{k}_bits_2", (2, k), 9, 16, 2, zeros=True) for k in (1, 15, 17, 130)),
    *(case(f"rows_{n}_bits_2", (n, 72), 10, 32, 2, zeros=True) for n in (2, 3, 5, 70)),
    *(case(f"outputs_{n}", (1, 64), n) for n in (1, 3, 4, 33, 130)),
    *(case(f"rows_{n}", (n, 48), 10, zeros=True) for n in (2, 3, 4, 5, 9, 70)),
    case("rank_1", (48,), 10),
    case("rank_3", (2, 5, 48), 10),
    case("rank_4", (2, 3, 5, 48), 10, bits=8),
    case("rank_5", (2, 1, 3, 5, 48), 10),
    case("long", (1, 4100), 5, 128),
    case("long_rows", (3, 1100), 9, zeros=True),
    case("long_rows_bits_8", (5, 2100), 6, 16, 8),
    case("long_whole", (1, 4096), 6, 128),
    case("long_whole_rows", (3, 2048), 9, zeros=True),
    case("long_whole_bits_8", (2, 1024), 7, bits=8, zeros=True),
    case("block_48", (1, 96), 4, 48, refused=True),
    case("block_8", (1, 64), 4, 8, refused=True),
    case("bits_1", (1, 64), 4, 32, 1, refused=True),
]  # fmt: skip
