"""What the choice of boxes means, in float32 as hosts compute it, in the order of their queue."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Candidate(NamedTuple):
    box: int
    score: Any
    seen: int = 0


class Heap(list[Candidate]):
    """By std::push_heap and std::pop_heap of libstdc++ (bits/stl_heap.h), which say what comes
    first of equal scores."""

    def rise(self, hole: int, new: Candidate) -> None:
        while hole and self[(hole - 1) // 2].score < new.score:
            self[hole] = self[(hole - 1) // 2]
            hole = (hole - 1) // 2
        self[hole] = new

    def push(self, new: Candidate) -> None:
        self.append(new)
        self.rise(len(self) - 1, new)

    def take(self) -> Candidate:
        first, last, hole = self[0], super().pop(), 0
        while (child := 2 * hole + 2) <= len(self):
            if child == len(self) or self[child].score < self[child - 1].score:
                child -= 1
            self[hole] = self[child]
            hole = child
        if self:
            self.rise(hole, last)
        return first


def overlap(a: Array, b: Array) -> Any:
    """The intersection of two boxes over their union."""
    a, b = (np.stack([np.minimum(c[:2], c[2:]), np.maximum(c[:2], c[2:])]) for c in (a, b))
    areas = [np.prod(c[1] - c[0], dtype=np.float32) for c in (a, b)]
    sides = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    shared = np.prod(np.maximum(sides, np.float32(0)), dtype=np.float32)
    united = areas[0] + areas[1] - shared
    return np.float32(0) if min(areas) <= 0 or united == 0 else shared / united


def non_max_suppression(
    boxes: Array, scores: Array, count: Array, limit: Array, least: Array
) -> tuple[Array, Array]:
    """Numbers of boxes, zeros behind them, and how many there are."""
    boxes, scores = boxes.astype(np.float32), scores.astype(np.float32)
    waiting, chosen = Heap(), list[int]()
    for box, score in enumerate(scores):
        if score > np.float32(least):
            waiting.push(Candidate(box, score))
    wanted = min(int(count), len(waiting))
    while len(chosen) < wanted and waiting:
        best = waiting.take()
        near = (overlap(boxes[best.box], boxes[one]) for one in chosen[best.seen :])
        if not any(share >= np.float32(limit) for share in near):
            waiting.push(best._replace(seen=len(chosen)))
            chosen.append(best.box)
    rest = [0] * (int(count) - len(chosen))
    return np.array(chosen + rest), np.array(len(chosen))
