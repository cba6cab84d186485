"""Decision trees of ONNX, as nodes: every comparison, missing numbers, reductions, slices of
classes, trees of one leaf, and many trees, which threads share."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Input, constant
from conformance.node_cases import NodeCase
from tflgpu_plugin.ops.decision_trees import COMPARISONS, FEATURE, MISSING

EVERY = tuple(range(len(COMPARISONS)))
NOTHING = {"sum": 0.0, "minimum": np.inf, "maximum": -np.inf}


class Grower:
    """Grows random trees over `features`, with thresholds that features have."""

    def __init__(self, seed: int, features: int, comparisons: tuple[int, ...], missing: bool):
        self.random = np.random.default_rng(seed)
        self.features, self.comparisons, self.missing = features, comparisons, missing
        self.nodes: list[tuple[int, ...]] = []
        self.leaves = 0

    def grow(self, depth: int) -> int:
        """Returns the root of another tree of at most this depth, whose leaves count from 0."""
        self.leaves = 0
        return self._grown(depth)

    def _grown(self, depth: int) -> int:
        random = self.random
        if depth == 0 or random.random() < 0.1:
            self.leaves += 1
            return -self.leaves
        at = len(self.nodes)
        self.nodes.append(())
        bits = int(np.float32(random.integers(-4, 5) / 2).view(np.int32))
        kind = FEATURE * int(random.integers(self.features)) + int(random.choice(self.comparisons))
        kind += MISSING * int(self.missing and random.random() < 0.5)
        self.nodes[at] = (bits, kind, self._grown(depth - 1), self._grown(depth - 1))
        return at


def forest(
    name: str, rows: int, classes: int = 1, trees: int = 5, depth: int = 4, features: int = 5,
    comparisons: tuple[int, ...] = EVERY, missing: bool = False, reduction: str = "sum",
    data: Any = None,
) -> NodeCase:  # fmt: skip
    """Returns a case of random trees, of which every third says nothing about the first slice."""
    grower = Grower(len(name), features, comparisons, missing)
    grown = [(grower.grow(depth), grower.leaves) for _ in range(trees)]
    slices = -(-classes // 4)
    entries, leaves, starts = list[tuple[int, int]](), list[np.ndarray[Any, Any]](), [0]
    for s in range(slices):
        for k, (root, count) in enumerate(grown):
            if slices > 1 and s == 0 and k % 3 == 0:
                continue
            entries.append((root, sum(map(len, leaves))))
            leaves.append(grower.random.uniform(-1, 1, (count, 4)))
        starts.append(len(entries))
    held = np.concatenate(leaves)
    held[:, 2] = np.where(grower.random.random(len(held)) < 0.2, NOTHING[reduction], held[:, 2])
    x = Input((rows, features), low=-3, high=3, step=0.5) if data is None else constant(data)
    reads = (
        x, constant(grower.nodes or [(0, 0, -1, -1)], "i32"), constant(entries, "i32"),
        constant(starts, "i32"), constant(held),
    )  # fmt: skip
    attributes = {"classes": classes, "reduction": reduction, "steps": max(depth, 1)}
    return NodeCase(name, "decision_trees", reads, attributes, terms=trees)


UNKNOWN = np.random.default_rng(3).integers(-6, 7, (40, 5)).astype(np.float32) / 2
UNKNOWN.flat[::3], UNKNOWN.flat[1::11], UNKNOWN.flat[2::17] = np.nan, np.inf, -np.inf
LEAF = (constant([(0, 0, -1, -1)], "i32"), constant([(-1, 0)], "i32"), constant((0, 1), "i32"),
        constant([(1.0, 0, 0, 0)]))  # fmt: skip


def refused(name: str, *given: Input, classes: int = 1) -> NodeCase:
    attributes = {"classes": classes, "reduction": "sum", "steps": 1}
    return NodeCase(name, "decision_trees", given, attributes, refused=True)


NODES = [
    *(forest(f"comparison_{k}", 30, comparisons=(k,)) for k in EVERY),
    *(forest(f"unknown_{k}", 40, comparisons=(k,), data=UNKNOWN) for k in EVERY),
    *(forest(f"missing_{k}", 40, comparisons=(k,), missing=True, data=UNKNOWN) for k in EVERY),
    forest("missing_of_all", 40, missing=True, data=UNKNOWN),
    *(forest(f"{name}_{classes}", 20, classes, reduction=name)
      for name in ("sum", "minimum", "maximum") for classes in (1, 2, 4, 5, 11)),
    forest("one_row", 1, trees=90, depth=3),
    forest("one_row_of_nine_classes", 1, 9, trees=70, depth=3),
    forest("many_rows", 300, 3, trees=7),
    forest("single_leaves", 5, trees=3, depth=0),
    forest("deep", 9, trees=2, depth=11),
    forest("one_feature", 9, features=1),
    forest("many_features", 9, features=37, trees=20, depth=6),
    refused("values_of_a_run", Input((2, 3)), Input((1, 4), "i32"), *LEAF[1:]),
    refused("vector", Input((3,)), *LEAF),
    refused("no_rows", Input((0, 3)), *LEAF),
    refused("no_such_feature", Input((2, 3)), constant([(0, 48, -1, -1)], "i32"), *LEAF[1:]),
    refused("no_such_node", Input((2, 3)), constant([(0, 0, 1, -1)], "i32"), *LEAF[1:]),
    refused("no_such_leaf", Input((2, 3)), constant([(0, 0, -1, -2)], "i32"), *LEAF[1:]),
    refused("too_few_slices", Input((2, 3)), *LEAF, classes=5),
]  # fmt: skip
