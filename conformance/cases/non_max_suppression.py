"""Boxes chosen by score: few and thousands of them, equal scores and boxes, corners either way
round, boxes without area, numbers that are none, overlaps some roundings from the threshold.
Hosts' answers are numbers of boxes, so all are compared exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase

LEVELS = Input((200,), low=0, step=0.125)  # scores as few as quantized models have
GRID = Input((200, 4), low=0, high=5, step=1)  # boxes that are the same, or meet in halves
NONE, FAR = np.nan, np.inf


def v4(name: str, boxes: Any, scores: Any, count: int = 20, overlap: float = 0.4,
       least: float = 0.1, refused: bool = False) -> Case:  # fmt: skip
    """Returns a case; shapes stand for inputs that are not constant, between 0 and 1."""
    limits = (constant(np.int32(count), "i32"), constant(overlap), constant(least))
    return host(name, _given(boxes), _given(scores), *limits, refused=refused)


def host(name: str, *given: Input, refused: bool = False) -> Case:
    return Case(name, "NON_MAX_SUPPRESSION_V4", 1, given, "NonMaxSuppressionV4Options",
                outputs=2, output_type="i32", refused=refused)  # fmt: skip


def v5(name: str, boxes: Any, scores: Any, sigma: float, count: int = 20, overlap: float = 0.6,
       least: float = 0.1) -> Case:  # fmt: skip
    limits = (constant(np.int32(count), "i32"), *map(constant, (overlap, least, sigma)))
    return Case(name, "NON_MAX_SUPPRESSION_V5", 1, (_given(boxes), _given(scores), *limits),
                "NonMaxSuppressionV5Options", outputs=3,
                output_types=("i32", "f32", "i32"))  # fmt: skip


def node(name: str, *given: Input, count: int = 20, overlap: float = 0.4) -> NodeCase:
    limits = (constant(count, "i32"), constant(overlap), constant(0.1))
    return NodeCase(name, "non_max_suppression", (*given, *limits), outputs=2, output_type="i32")


def _given(value: Any) -> Input:
    if isinstance(value, Input):
        return value
    return Input(value, low=0) if isinstance(value, tuple) else constant(value)


def near(overlap: float, count: int = 300) -> Any:
    """Returns pairs of boxes whose overlap is this fraction, up to a few rounding errors in either
    direction."""
    random = np.random.default_rng(14)
    width = random.uniform(0.5, 2, count).astype(np.float32)
    part = (width * np.float32(overlap)).view(np.int32) + random.integers(-2, 3, count)
    row = np.arange(count, dtype=np.float32)
    first = np.stack([row, 0 * row, row + 1, width], 1)
    second = np.stack([row, 0 * row, row + 1, part.astype(np.int32).view(np.float32)], 1)
    return np.concatenate([first, second])


_ODD = [
    [NONE, 0, 1, 1], [0, 0, 1, 1], [0, NONE, 2, 1], [0, 0, FAR, 1], [0, 0, 1, NONE],
    [-FAR, 0, FAR, FAR], [0, 0, FAR, 1], [FAR, 0, FAR, 1], [0, 0, 2, FAR], [0, 0, 1, 0.9],
    [3e19, -3e19, -3e19, 3e19], [0, 0, 3e19, 2e19],
]  # fmt: skip
CASES = [
    v4("one_box", (1, 4), (1,)),
    v4("two_boxes", (2, 4), (2,)),
    *(v4(f"boxes_{n}", (n, 4), (n,)) for n in (3, 31, 63, 64, 65, 96, 127, 128, 300)),
    v4("thousands", (3549, 4), (3549,), 100),
    v4("one_of_thousands", (3549, 4), (3549,), 1, 0.45),
    v4("all", (300, 4), (300,), 300, 0.9, -1),
    v4("equal_scores", (200, 4), LEVELS, 60, 0.3),
    v4("one_score", (70, 4), [0.5] * 70, 60, 0.5),
    v4("equal_boxes", GRID, LEVELS, 150, 0.5),
    v4("thirds", GRID, (200,), 150, 1 / 3),
    v4("none_above", (9, 4), (9,), least=1.5),
    v4("above_means_more", (200, 4), LEVELS, 200, least=0.5),
    v4("any_overlap", GRID, LEVELS, overlap=0),
    v4("negative_overlap", GRID, LEVELS, overlap=-1),
    v4("same_boxes_only", GRID, (200,), 150, 1),
    v4("no_overlap_is_enough", GRID, LEVELS, overlap=1.5),
    v4("overlap_is_no_number", GRID, LEVELS, overlap=NONE),
    v4("infinite_overlap", GRID, LEVELS, overlap=FAR),
    v4("least_is_no_number", (9, 4), (9,), least=NONE),
    v4("least_is_infinite", (9, 4), (9,), least=-FAR),
    v4("no_area", [[0, 0, 1, 1], [1, 1, 1, 3], [0, 0, 1, 1.5], [2, 2, 2, 2]], (4,), 9),
    v4("odd_scores", (12, 4), [NONE, 1, FAR, 0.2, -FAR, NONE, FAR, 0.3, 0, -0.0, 0.1, 0.5], 12),
    v4("odd_boxes", _ODD, (12,), 30),
    v4("odd_boxes_any_overlap", _ODD, (12,), 30, 0),
    *(v4(f"near_{share}", near(share), (600,), 600, share, -1)
      for share in (0.4, 0.6, 0.5, 0.25, 0.3, 0.9999999, 1e-6)),
    v4("no_boxes", (0, 4), (0,), refused=True),
    v4("none_wanted", (9, 4), (9,), 0, refused=True),
]  # fmt: skip
_LIMITS = (constant(np.int32(3), "i32"), constant(0.5), constant(0.1))
CASES += [
    host(f"{what}_at_run_time", Input((9, 4)), Input((9,)), *_LIMITS[:k],
         Input((), _LIMITS[k].dtype, low=1, high=5), *_LIMITS[k + 1 :], refused=True)
    for k, what in ((1, "overlap"), (2, "least"))  # a run may decide the count
]  # fmt: skip
# Pairs that share a third of their union, apart from others: which of equal ones comes first does
# not change the scores.
_TWINS = [[3 * k, half, 3 * k + 1, half + 1] for half in (0, 0.5) for k in range(35)]
_WIDE = np.array([[0, 0, 3, 3 + k / 8] for k in range(40)])
CASES += [
    v5("hard", (200, 4), (200,), 0, 60),
    v5("hard_equal_scores", (200, 4), LEVELS, 0, 60, 0.3),
    v5("hard_odd_boxes", _ODD, (12,), 0, 30),
    v5("soft", (100, 4), (100,), 0.5, 30),
    v5("soft_one_box", (1, 4), (1,), 0.5),
    v5("soft_one_wanted", (100, 4), (100,), 0.5, 1),
    v5("soft_without_hard", (70, 4), (70,), 0.5, 60, 1, -1),
    v5("soft_wide", _WIDE, (40,), 0.3, 40, 1, 0.05),
    v5("soft_equal_scores", _TWINS, [0.5] * 70, 0.5, 60, 0.5),
    v5("soft_narrow", _WIDE, (40,), 1e-3, 40, 1),
    v5("soft_hardly", (70, 4), (70,), 1e6, 60, 0.7),
    v5("soft_not_at_all", (70, 4), (70,), 1e30, 60, 0.7),
    v5("soft_odd_boxes", _ODD[:10], (10,), 0.5, 30),
]
NODES = [
    NodeCase(
        "boxes",
        "soft_non_max_suppression",
        (
            Input((50, 4), low=0),
            Input((50,), low=0),
            constant(30, "i32"),
            constant(0.7),
            constant(0.1),
            constant(0.5),
        ),
        outputs=3,
        output_types=("i32", "f32", "i32"),
    ),
    node("boxes", Input((70, 4), low=0), Input((70,), low=0)),
    node("equal_scores", Input((70, 4), low=0), Input((70,), low=0, step=0.125), overlap=0.3),
    node("more_wanted", Input((9, 4), low=0), Input((9,), low=0), count=30),
]
