"""Weights and tables in blocks of 4 or 8 bits: what their rows ask for, at each bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_nodes import MS, F, Input, Node, rows

FIT = "shapes that fit"


def bits(
    packed: Any = (3, 2, 8), scales: int = 6, *more: Input, kind: Any = np.uint8, **given: Any
) -> Node:
    """Three outputs, two blocks of 16 in 4 bits, the second one not full."""
    settings = {"K": 20, "N": 3, "block_size": 16, **given}
    return Node(
        f"{MS}:MatMulNBits", (2, 20), np.ones(packed, kind), rows(scales), *more, **settings
    )


def table(
    shape: Any = (3, 16), scales: Any = (3, 2), *more: Input, kind: Any = np.uint8, **given: Any
) -> Node:
    """Three rows of 32 numbers in 4 bits, two blocks each."""
    settings = {"block_size": 16, **given}
    ids = ("i64", (2,))
    held = np.ones(shape, kind)
    return Node(f"{MS}:GatherBlockQuantized", held, ids, rows(*scales), *more, **settings)


BOUNDS: list[tuple[Node, str]] = [
    (bits(), ""),
    (bits((3, 2, 16), bits=8), ""),
    (bits((3, 2, 4), bits=2), "4 or 8 bits"),
    (bits(block_size=0), "4 or 8 bits"),
    (bits((3, 3, 4), 9, block_size=8), "4 or 8 bits"),
    (bits((3, 1, 24), 3, block_size=48), "4 or 8 bits"),
    (bits((3, 1, 32), 3, block_size=64), ""),
    (bits(weight_prepacked=1), "4 or 8 bits"),
    (bits((3, 2, 8), 6, None, np.zeros(20, np.int32)), "g_idx"),
    (bits((3, 2, 9)), FIT),
    (bits((3, 2, 8), 5), FIT),
    (bits((3, 2, 8), 6, np.ones(3, np.uint8)), ""),
    (bits((3, 2, 8), 6, np.ones(6, np.uint8)), FIT),
    (bits((3, 2, 8), 6, np.ones(6, F)), ""),
    (bits((3, 2, 8), 6, np.ones(3, F)), FIT),
    (bits((3, 2, 16), 6, np.ones(6, np.uint8), bits=8), ""),
    (bits((3, 2, 16), 6, np.ones(3, np.uint8), bits=8), FIT),
    (table(), ""),
    (table((3, 32), kind=np.int8), ""),
    (table((3, 32)), ""),
    (table((3, 8), (3, 1)), "4 or 8 bits"),  # 8 or 16 numbers: either has one block
    (table((3, 32), bits=8), ""),
    (table((3, 16), bits=8), FIT),
    (table((3, 32), bits=2), "4 or 8 bits"),
    (table((3, 64), block_size=8, scales=(3, 8), bits=8), "4 or 8 bits"),
    (table((3, 34)), FIT),
    (table((3, 16), (3, 3)), FIT),
    (table((3, 16), (3, 2), np.ones((3, 1), np.uint8)), ""),
    (table((3, 16), (3, 2), np.ones((3, 2), np.uint8)), FIT),
    (table((3, 32), (3, 2), np.ones((3, 2), np.uint8), bits=8), ""),
    (table((3, 32), (3, 2), np.ones((3, 1), np.uint8), bits=8), FIT),
    (table((16, 3), (1, 3), quantize_axis=0, bits=8), ""),
]  # fmt: skip


@pytest.mark.parametrize(("node", "sentence"), BOUNDS)
def test_a_row_asks_for_what_it_needs_and_no_more(node: Node, sentence: str) -> None:
    assert sentence.lower() in node.reason.lower() and bool(sentence) == bool(node.reason)
