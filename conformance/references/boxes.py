"""Non-maximum suppression in float32, as hosts compute it, in the order of their queue."""

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
    """A heap that behaves like std::push_heap and std::pop_heap of libstdc++ (bits/stl_heap.h),
    which determine the order of equal scores."""

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
    """Returns std::min, which is the first operand where one is NaN."""
    return np.where(b < a, b, a)


def greater(a: Array, b: Array) -> Array:
    """Returns std::max, which is the first operand where one is NaN."""
    return np.where(a < b, b, a)


def overlap(a: Array, b: Array) -> Any:
    """Returns the intersections of a box, or of several, with others over their unions: zero where
    one of them has no area."""
    (low, high), (low_b, high_b) = (
        (lesser(c[..., :2], c[..., 2:]), greater(c[..., :2], c[..., 2:])) for c in (a, b)
    )  # fmt: skip
    areas = [np.prod(high - low, -1), np.prod(high_b - low_b, -1)]
    sides = lesser(high, high_b) - greater(low, low_b)
    shared = np.prod(greater(sides, np.zeros_like(sides)), -1)
    united = areas[0] + areas[1] - shared
    none = (areas[0] <= 0) | (areas[1] <= 0) | (united == 0)
    return np.where(none, 0, shared / np.where(none, 1, united)).astype(a.dtype)


def non_max_suppression(
    boxes: Array, scores: Array, count: Array, limit: Array, least: Array
) -> tuple[Array, Array]:
    """Returns indices of boxes, zeros after them, and their number."""
    chosen, _, found = soft_non_max_suppression(boxes, scores, count, limit, least, np.zeros(()))
    return chosen, found


def soft_non_max_suppression(
    boxes: Array, scores: Array, count: Array, limit: Array, least: Array, sigma: Array
) -> tuple[Array, Array, Array]:
    """Selects boxes and scores as NonMaxSuppression does; with sigma above 0, overlaps lower
    scores. Whether two boxes overlap enough is decided in float32."""
    waiting, chosen, held = Heap(), list[int](), list[Any]()
    near = boxes.astype(np.float32)
    for box, score in enumerate(scores):
        if score > np.float32(least):
            waiting.push(Candidate(box, score))
    wanted = min(int(count), len(waiting))
    while len(chosen) < wanted and waiting:
        best = waiting.take()
        score, rest = best.score, chosen[best.seen :]
        if sigma <= 0:  # no score changes: all at once
            if np.any(overlap(near[best.box], near[rest]) >= np.float32(limit)):
                continue
            rest = []
        for one in reversed(rest):
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


def detections(
    encodings: Array, scores: Array, anchors: Array, count: int, each: int | None, classes: int,
    least: float, overlap: float, scales: tuple[float, ...],
) -> tuple[Array, ...]:  # fmt: skip
    """Returns boxes, classes, scores and their number."""
    found = class_boxes(encodings, anchors, scores, scales, classes, each is None)
    if each is not None:
        chosen = chosen_boxes(found[0], scores, None, classes=classes, count=each, least=least,
                              overlap=overlap, rest=np.nan)  # fmt: skip
        extents = ((1, classes * each, last) for last in (4, 1, 1))
        parts = (chosen[0], chosen[2], chosen[1])
        found = tuple(a.reshape(shape) for a, shape in zip(parts, extents, strict=True))
    share = overlap if each is None else None
    made = chosen_boxes(*found, classes=1, count=count, least=least, overlap=share, rest=0.0)
    return (*made[:3], made[3].reshape(1))


def class_boxes(
    encodings: Array, anchors: Array, scores: Array, scales: tuple[float, ...], classes: int,
    best: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Returns corners computed with float32 intermediates, the largest of the last scores, and its
    index."""
    encoded = encodings[0, :, :4] / np.array(scales, np.float32)
    middle = np.float32(encoded[:, :2] * anchors[:, 2:] + anchors[:, :2])
    sides = np.float32(0.5 * np.exp(encoded[:, 2:]) * anchors[:, 2:])
    boxes, given = np.concatenate([middle - sides, middle + sides], 1), scores[0, :, -classes:]
    if not best:
        return (boxes[None],)
    first = [max(range(classes), key=_order(row).__getitem__) for row in given]
    values = [row[c] for row, c in zip(given, first, strict=True)]
    return boxes[None], *(np.array(a, np.float64).reshape(1, -1, 1) for a in (values, first))


def chosen_boxes(
    boxes: Array, scores: Array, labels: Array | None, limit: Array | None = None,
    number: Array | None = None, *, classes: int, count: int, least: float, overlap: float | None,
    rest: float, numbered: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """Returns boxes, labels, scores and their number, for each of the last columns of scores."""
    made = (
        np.zeros((classes, count, 4)),
        np.zeros((classes, count)),
        np.full((classes, count), rest),
    )
    found = np.zeros((classes, 1))
    overlap = overlap if limit is None else float(limit[0])
    for c, column in enumerate(scores[0].T[-classes:]):
        held = len(column) if number is None else int(number[0])
        chosen = _apart(boxes[0, :held], _order(column[:held]), count, least, overlap)
        found[c] = len(chosen)
        for k, box in enumerate(chosen):
            label = (box if numbered else c) if labels is None else labels[0, box, 0]
            made[0][c, k], made[1][c, k], made[2][c, k] = boxes[0, box], label, column[box]
    return (*made, found)


def _order(scores: Array) -> Array:
    """Returns the scores as they are compared: equal ones must stay equal despite rounding."""
    return np.asarray(np.round(scores * 2.0**22) / 2.0**22)


def _apart(boxes: Array, scores: Array, count: int, least: float, limit: float | None) -> list[int]:
    """Returns the numbers of boxes that no box before them overlaps."""
    chosen = list[int]()
    for box in np.argsort(-scores, kind="stable"):
        if len(chosen) == count or not scores[box] >= np.float32(least):
            continue
        near = overlap(boxes[box], boxes[chosen])
        if limit is None or not (near > np.float32(limit)).any():
            chosen.append(int(box))
    return chosen
