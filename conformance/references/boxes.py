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


def lesser(a: Array, b: Array) -> Array:
    """std::min, which takes the first where one is NaN."""
    return np.where(b < a, b, a)


def greater(a: Array, b: Array) -> Array:
    """std::max, likewise."""
    return np.where(a < b, b, a)


def overlap(a: Array, b: Array) -> Any:
    """The intersection of two boxes over their union."""
    (low, high), (low_b, high_b) = (
        (lesser(c[:2], c[2:]), greater(c[:2], c[2:])) for c in (a, b)
    )  # fmt: skip
    areas = [np.prod(high - low), np.prod(high_b - low_b)]
    sides = lesser(high, high_b) - greater(low, low_b)
    shared = np.prod(greater(sides, np.zeros_like(sides)))
    united = areas[0] + areas[1] - shared
    if any(area <= 0 for area in areas) or united == 0:
        return a.dtype.type(0)
    return shared / united


def non_max_suppression(
    boxes: Array, scores: Array, count: Array, limit: Array, least: Array
) -> tuple[Array, Array]:
    """Numbers of boxes, zeros behind them, and how many there are."""
    chosen, _, found = soft_non_max_suppression(boxes, scores, count, limit, least, np.zeros(()))
    return chosen, found


def soft_non_max_suppression(
    boxes: Array, scores: Array, count: Array, limit: Array, least: Array, sigma: Array
) -> tuple[Array, Array, Array]:
    """The same with scores, of which overlaps take a part where sigma is over 0. Whether two
    overlap enough is a matter of float32."""
    waiting, chosen, held = Heap(), list[int](), list[Any]()
    near = boxes.astype(np.float32)
    for box, score in enumerate(scores):
        if score > np.float32(least):
            waiting.push(Candidate(box, score))
    wanted = min(int(count), len(waiting))
    while len(chosen) < wanted and waiting:
        best = waiting.take()
        score = best.score
        for one in reversed(chosen[best.seen :]):
            if overlap(near[best.box], near[one]) >= np.float32(limit):
                break
            if sigma > 0:
                score *= np.exp(-0.5 / sigma * overlap(boxes[best.box], boxes[one]) ** 2)
            if score <= np.float32(least):
                break
        else:
            if score > np.float32(least):
                waiting.push(Candidate(best.box, score, len(chosen)))
            if score == best.score:
                chosen.append(best.box)
                held.append(score)
    rest = [0] * (int(count) - len(chosen))
    return np.array(chosen + rest), np.array(held + rest), np.array(len(chosen))
