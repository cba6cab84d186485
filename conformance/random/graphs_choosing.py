"""Further operators of random graphs: those that choose elements by their values, as detectors do.
Hosts must choose the same elements, so their inputs are computed without rounding (`Maker.exact`);
some of the values are equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.cases import detection
from conformance.random.graphs_maker import Maker


def _exact(m: Maker) -> int:
    """Adds a tensor with an axis, whose values are not affected by rounding."""
    found = [t for t in m.tensors if t in m.exact and m.shape(t)]
    return m.choose.choice(found[-6:] if m.choose.random() < 0.7 else found)


def _whole(m: Maker, found: int) -> None:
    """Converts integers to floats, which other operators can read."""
    made = m.many("CAST", [found], "CastOptions", inDataType="INT32", outDataType="FLOAT32")
    m.exact.update(made)


def _place(m: Maker) -> None:
    x, which = _exact(m), m.choose.choice(("Max", "Min"))
    axis = m.model.constant(np.int32(m.choose.randrange(-len(m.shape(x)), len(m.shape(x)))))
    made = m.many(f"ARG_{which.upper()}", [x, axis], f"Arg{which}Options", ("i32",),
                  outputType="INT32")  # fmt: skip
    if made:
        _whole(m, *made)


def _largest(m: Maker) -> None:
    x = _exact(m)
    count = m.model.constant(np.int32(m.choose.randint(1, m.shape(x)[-1])))
    made = m.many("TOPK_V2", [x, count], "TopKV2Options", ("f32", "i32"))
    m.exact.update(made[:1])
    if made and m.choose.random() < 0.5:
        _whole(m, made[1])


def _rows(m: Maker, name: str, count: int, width: int) -> int:
    """Adds a new input [1, count, width], sometimes as two maps of pixels that are joined."""
    if m.choose.random() < 0.4:
        return _input(m, name, 1, count, width)
    parts = [count // 3 * 2, count - count // 3 * 2]
    maps = [_input(m, f"{name}_{k}", 1, 1, n, width) for k, n in enumerate(parts)]
    flat = [_reshaped(m, part, 1, n, width) for part, n in zip(maps, parts, strict=True)]
    (made,) = m.many("CONCATENATION", flat, "ConcatenationOptions", axis=1)
    return made


def _input(m: Maker, name: str, *shape: int) -> int:
    made = m.model.input(f"{name}_{len(m.model.tensors)}", shape)
    m.exact.add(made)
    return made


def _reshaped(m: Maker, x: int, *shape: int) -> int:
    (made,) = m.many("RESHAPE", [x, m.integers(*shape)], "ReshapeOptions", newShape=list(shape))
    return made


def _suppressed(m: Maker) -> None:
    """Adds a selection of boxes by their scores, and a gather of these boxes and scores by the
    result."""
    count = m.choose.choice((9, 40, 70))
    boxes = _reshaped(m, _rows(m, "boxes", count, 4), count, 4)
    scores = _reshaped(m, _rows(m, "scores", count, 1), count)
    wanted = m.model.constant(np.int32(m.choose.randint(1, count)))
    limits = [0.3, m.choose.choice((-0.5, 0.1))]
    op, dtypes = "NON_MAX_SUPPRESSION_V4", ["i32", "i32"]
    if m.choose.random() < 0.5:
        op, dtypes = "NON_MAX_SUPPRESSION_V5", ["i32", "f32", "i32"]
        limits.append(m.choose.choice((0.0, 0.5)))
    reads = [boxes, scores, wanted, *(m.model.constant(np.float32(n)) for n in limits)]
    table = "".join(word.title() for word in op.split("_"))
    chosen, *_ = m.many(op, reads, f"{table}Options", dtypes)
    for value in (boxes, scores):
        m.add("GATHER", [value, chosen], "GatherOptions", axis=0)


def _detected(m: Maker) -> None:
    """Adds a detection. Over all classes, hosts leave arbitrary values after the last box, so it
    finds as many boxes as it requests: anchors are pairs at the same position, of which one is
    found. Class by class there is a single class, because hosts disagree about the order of classes
    with equal scores."""
    classes, count = m.choose.choice((1, 3)), 2 * m.choose.choice((3, 20, 35))
    regular = m.choose.random() < 0.5
    classes = 1 if regular else classes
    around = detection.anchors(count) if regular else detection.apart(count)[np.arange(count) // 2]
    wanted = m.choose.randint(1, count // 2)
    options: dict[str, Any] = {"num_classes": classes, "max_detections": wanted,
                               "use_regular_nms": regular,
                               "nms_score_threshold": 0.1 if regular else -2.0}  # fmt: skip
    boxes = _rows(m, "boxes", count, 4)
    scores = _rows(m, "scores", count, classes + m.choose.choice((0, 1)))
    m.many(DETECTED, [boxes, scores, m.model.constant(around)], "FlexBuffer", ("f32",) * 4,
           **detection.USUAL | options)  # fmt: skip


DETECTED = "CUSTOM TFLite_Detection_PostProcess"
MAKERS: tuple[Callable[[Maker], None], ...] = (_place, _largest, _suppressed, _detected)
