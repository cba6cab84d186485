"""Where flags are true: none, some, all; lists of one, around whole vectors and workgroups, long
ones."""

from __future__ import annotations

from conformance.cases import Input
from conformance.node_cases import NodeCase

SIZES = (1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 70_001)


def node(name: str, n: int, low: float = 0, high: float = 2, dtype: str = "bool",
         shape: tuple[int, ...] | None = None, refused: bool = False) -> NodeCase:  # fmt: skip
    """Returns a node case whose flags are random integers from `low` to `high`."""
    given = Input((n,) if shape is None else shape, dtype, low=low, high=high, step=1)
    return NodeCase(name, "nonzero", (given,), outputs=2, output_types=("i32", "i32"),
                    refused=refused)  # fmt: skip


def places(n: int, sum_: int) -> NodeCase:
    """Returns a case of n equal sums of flags: the first one set, none, or too many."""
    given = Input((n,), "i32", low=sum_, high=sum_ + 1, step=1)
    return NodeCase(f"{n}_of_{sum_}", "nonzero_places", (given,), output_type="i32")


NODES = [
    *(node(f"flags_{n}", n) for n in SIZES),
    *(node(f"all_{n}", n, low=1) for n in (1, 4, 257)),
    *(node(f"none_{n}", n, high=1) for n in (1, 4, 257)),
    node("matrix", 1, shape=(3, 4), refused=True),
    node("numbers", 7, dtype="i32", refused=True),
    node("empty", 0, refused=True),
    *(places(n, sum_) for n in (1, 7, 64, 65) for sum_ in (0, 1, 5, 65)),
]
