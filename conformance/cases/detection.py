"""Detections: over all classes together and for each class separately, fewer boxes than requested,
equal scores, with and without a column for the background, NaN. Over all classes, hosts leave
arbitrary memory after the last box, so these cases find as many boxes as they request; node cases
check what follows the last box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase
from tflgpu_plugin.ir import Array, Quantization

USUAL = {
    "max_detections": 10, "max_classes_per_detection": 1, "num_classes": 3,
    "nms_score_threshold": 0.3, "nms_iou_threshold": 0.5, "use_regular_nms": False,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip
NONE, FAR = np.nan, np.inf


def anchors(count: int) -> Array:
    random = np.random.default_rng(count)
    centres, sides = random.uniform(0, 1, (count, 2)), random.uniform(0.05, 0.4, (count, 2))
    return np.asarray(np.concatenate([centres, sides], 1), np.float32)


def apart(count: int) -> Array:
    """Returns anchors that do not overlap."""
    row = np.arange(count, dtype=np.float32)
    return np.stack([row, 0 * row, 0 * row + 0.5, 0 * row + 0.5], 1)


def host(name: str, boxes: Input | tuple[int, ...], scores: Input, around: Any = None,
         refused: bool = False, **options: Any) -> Case:  # fmt: skip
    """Returns a case of the host's operator; boxes that are given by their shape are between -1 and
    1."""
    boxes = boxes if isinstance(boxes, Input) else Input(boxes)
    around = constant(anchors(boxes.shape[1])) if around is None else around
    wanted = int(options.get("max_detections", 10) * options.get("max_classes_per_detection", 1))
    return Case(name, "CUSTOM TFLite_Detection_PostProcess", 1, (boxes, scores, around),
                "FlexBuffer", USUAL | options, outputs=4, refused=refused,
                shapes=((1, wanted, 4), (1, wanted), (1, wanted), (1,)))  # fmt: skip


def scored(*shape: int, step: float = 0.0) -> Input:
    return Input((1, *shape), low=0, step=step)


def fixed(scores: Sequence[Sequence[float]]) -> Input:
    return constant([scores])


def _stored(shape: tuple[int, ...], scale: float, zero: int) -> Input:
    return Input(shape, "u8", low=0, high=256, quantization=Quantization((scale,), (zero,)))


AROUND = Input((100, 4), "u8", np.asarray(anchors(100) * 100, np.uint8),
               quantization=Quantization((0.01,), (0,)))  # fmt: skip
# No two of them equal: of those of several classes hosts do not agree which comes first.
_MIXED = np.random.default_rng(8).permutation(200).reshape(1, 100, 2).astype(np.uint8)
LEVELS = Input((1, 100, 2), "u8", _MIXED,
               quantization=Quantization((1 / 256,), (0,)))  # fmt: skip
ODD = np.random.default_rng(5).uniform(0, 1, (40, 4)).astype(np.float32)
ODD[[0, 7, 9], [1, 2, 3]] = NONE
ODD[11] = NONE
ODD[12, 1:], ODD[13, 2], ODD[14, 0], ODD[15, 3] = -FAR, FAR, FAR, -0.0
ODD_BOXES = np.random.default_rng(6).uniform(-1, 1, (1, 60, 4)).astype(np.float32)
ODD_BOXES[0, [3, 8, 20, 33], [0, 2, 1, 3]] = 300
ODD_BOXES[0, 40, 2], ODD_BOXES[0, 41, 3], ODD_BOXES[0, 42, 0] = -FAR, FAR, FAR
FAST = [
    host("one_wanted", (1, 60, 4), scored(60, 4), max_detections=1),
    host("one_box", (1, 1, 4), fixed([[0, 0.1, 0.9, 0.2]]), max_detections=1),
    *(host(f"boxes_{n}", (1, n, 4), scored(n, 4), constant(apart(n)), max_detections=n,
           nms_score_threshold=0.0) for n in (2, 63, 65, 255, 256, 257, 300)),
    host("no_background", (1, 100, 4), scored(100, 3)),
    host("one_class", (1, 100, 4), scored(100, 1), num_classes=1, max_detections=9),
    host("one_class_and_background", (1, 100, 4), scored(100, 2), num_classes=1, max_detections=9),
    host("classes_90", (1, 1917, 4), scored(1917, 91, step=2.0**-10), num_classes=90,
         nms_score_threshold=1e-8, nms_iou_threshold=0.6),
    host("many_wanted", (1, 1917, 4), scored(1917, 8), num_classes=7, max_detections=100),
    host("equal_scores", (1, 200, 4), scored(200, 4, step=0.125), max_detections=20),
    host("one_score", (1, 70, 4), fixed([[0.5] * 4] * 70), max_detections=20),
    host("scores_below_zero", (1, 100, 4), Input((1, 100, 4), low=-2, high=-1),
         nms_score_threshold=-2.0, max_detections=20),
    host("zeros_of_both_signs", (1, 50, 4), Input((1, 50, 4), low=-1, high=0, step=0.5),
         nms_score_threshold=0.0, max_detections=9),
    host("threshold_is_met", (1, 100, 4), scored(100, 4, step=0.25), constant(apart(100)),
         nms_score_threshold=1.0),
    host("covered_only", (1, 100, 4), scored(100, 4), nms_iou_threshold=1.0, max_detections=30),
    host("hardly_any_overlap", (1, 300, 4), scored(300, 4), nms_iou_threshold=1e-3,
         max_detections=4),
    host("more_than_boxes", (1, 100, 6), scored(100, 4)),
    host("scales", (1, 100, 4), scored(100, 4), y_scale=1.0, x_scale=2.0, h_scale=3.0, w_scale=0.5),
    host("whole_scales", (1, 100, 4), scored(100, 4), y_scale=10, x_scale=10, h_scale=5, w_scale=5),
    host("anchors_at_run_time", (1, 100, 4), scored(100, 4), Input((100, 4), low=0)),
    host("odd_scores", (1, 40, 4), fixed(ODD.tolist()), max_detections=12),
    host("odd_boxes", constant(ODD_BOXES), scored(60, 4), max_detections=12),
    host("no_area", (1, 60, 4), scored(60, 4), constant(anchors(60) * [1, 1, 0, 1])),
    host("in_8_bits", _stored((1, 100, 4), 0.06, 128), _stored((1, 100, 4), 1 / 256, 0),
         AROUND),
]  # fmt: skip
REGULAR = [
    replace(case, name=f"by_class_{case.name}", options={**case.options, "use_regular_nms": True})
    for case in FAST
    if case.name in ("one_wanted", "one_box", "no_background", "one_class", "many_wanted",
                     "more_than_boxes", "odd_boxes")
]  # fmt: skip
REGULAR += [
    host("by_class_in_8_bits", _stored((1, 100, 4), 0.06, 128), LEVELS, AROUND, num_classes=2,
         use_regular_nms=True),
    host("by_class_few", (1, 100, 4), scored(100, 4), use_regular_nms=True, max_detections=30,
         nms_score_threshold=0.98),
    host("by_class_none", (1, 100, 4), scored(100, 4), use_regular_nms=True,
         nms_score_threshold=1.5),
    host("by_class_few_of_each", (1, 100, 4), scored(100, 4), use_regular_nms=True,
         detections_per_class=2),
    host("by_class_below_zero", (1, 100, 4), Input((1, 100, 4), low=-2, high=-1), num_classes=4,
         use_regular_nms=True, nms_score_threshold=-1.1, max_detections=90),
    host("by_class_classes_90", (1, 300, 4), scored(300, 91), num_classes=90,
         use_regular_nms=True, detections_per_class=5, max_detections=100),
]  # fmt: skip
REFUSED = [
    host("two_classes_of_a_box", (1, 9, 4), scored(9, 4), max_classes_per_detection=2,
         refused=True),
]  # fmt: skip
CASES = FAST + REGULAR + REFUSED


def node(name: str, boxes: int, scores: Input, **attributes: Any) -> NodeCase:
    usual = {"count": 10, "each": None, "classes": 3, "least": 0.3, "overlap": 0.5,
             "scales": (10.0, 10.0, 5.0, 5.0)}  # fmt: skip
    given = (Input((1, boxes, 4)), scores, constant(anchors(boxes)))
    return NodeCase(name, "detections", given, usual | attributes, outputs=4)


NODES = [
    node("all_classes", 70, scored(70, 4)),
    node("fewer_than_wanted", 70, scored(70, 4), least=0.97, count=30),
    node("none", 70, scored(70, 4), least=2.0),
    node("not_a_number", 70, scored(70, 4), least=NONE),
    node("each_class", 70, scored(70, 4), each=5),
    node("each_class_fewer", 70, scored(70, 4), least=0.97, count=30, each=3),
    node("each_class_equal_scores", 70, scored(70, 4, step=0.25), count=40, each=9),
]


def decoded(name: str, columns: int, best: bool, width: int = 4) -> NodeCase:
    given = (Input((1, 70, width)), constant(anchors(70)), scored(70, columns))
    attributes = {"classes": 6, "best": best, "scales": (10.0, 10.0, 5.0, 5.0)}
    return NodeCase(name, "class_boxes", given, attributes, outputs=3 if best else 1)


def chosen(
    name: str, boxes: int, columns: int, overlap_of_a_run: Input | None = None,
    number: Input | None = None, **attributes: Any
) -> NodeCase:  # fmt: skip
    usual = {"classes": columns, "count": 9, "least": 0.3, "overlap": 0.5, "rest": -7.0}
    corners = constant(np.random.default_rng(9).uniform(0, 1, (1, boxes, 4)))
    labelled = columns == 1 and not attributes.get("numbered")
    labels = Input((1, boxes, 1), low=0, high=5, step=1) if labelled else None
    given = (corners, scored(boxes, columns, step=1 / 16), labels, overlap_of_a_run, number)
    return NodeCase(name, "chosen_boxes", given, usual | attributes, outputs=4)


NODES += [
    decoded("boxes", 6, best=False),
    decoded("best", 6, best=True),
    decoded("best_after_background", 7, best=True),
    decoded("wider", 6, best=True, width=5),
    chosen("of_one_class", 70, 1),
    chosen("of_each_class", 70, 5),
    chosen("after_background", 70, 5, classes=4),
    chosen("of_512", 512, 2),
    chosen("of_513", 513, 2),
    chosen("more_than_there_are", 7, 2, count=13, least=0.5),
    chosen("whatever_they_cover", 70, 1, overlap=None, count=70),
    chosen("numbered", 70, 5, numbered=True),
    *(
        chosen(
            f"overlap_of_a_run_{columns}",
            70,
            columns,
            Input((1,), low=low, high=low + 0.3),
            overlap=None,
            numbered=True,
        )
        for columns, low in ((1, 0.2), (5, 0.5), (2, 0.0))
    ),
    chosen("largest_overlap_of_a_run", 70, 2, Input((1,), low=1.0, high=1.0), overlap=None),
    *(chosen(f"the_first_{n}", 70, 2, None, Input((1,), low=n, high=n)) for n in (0, 1, 41, 70)),
]
