"""Decision trees in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tflgpu_plugin.ops.decision_trees import FEATURE, MISSING, STARTS

Array = np.ndarray[Any, np.dtype[Any]]
COMPARE: tuple[Any, ...] = (
    np.less_equal,
    np.less,
    np.greater_equal,
    np.greater,
    np.equal,
    np.not_equal,
)
REDUCE: dict[str, Any] = {"sum": np.add, "minimum": np.minimum, "maximum": np.maximum}


def decision_trees(
    x: Array, nodes: Array, trees: Array, starts: Array, leaves: Array, *, classes: int,
    reduction: str = "sum", steps: int,
) -> Array:  # fmt: skip
    """Evaluates decision trees. Features are compared as float16, which cases use, so that a
    rounding error does not change the path."""
    rows = x.astype(np.float16).astype(np.float64)
    found = np.full((len(x), len(starts) - 1, 4), STARTS[reduction])
    for s in range(len(starts) - 1):
        for root, first in trees[starts[s] : starts[s + 1]]:
            said = leaves[[first - 1 - _leaf(row, nodes, int(root), steps) for row in rows]]
            found[:, s] = REDUCE[reduction](found[:, s], said)
    return np.asarray(found.reshape(len(x), -1)[:, :classes])


def _leaf(row: Array, nodes: Array, at: int, steps: int) -> int:
    """Returns -1 minus the number of the leaf that a row comes to."""
    for _ in range(steps):
        if at < 0:
            break
        bits, kind, first, second = (int(n) for n in nodes[at])
        v = row[kind // FEATURE]
        holds = COMPARE[kind % MISSING](v, np.int32(bits).view(np.float32))
        at = first if holds or (np.isnan(v) and kind & MISSING) else second
    return at
