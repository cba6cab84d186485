"""`detections(encodings [1, N, 4 or more], scores [1, N, columns], anchors [N, 4]): count, each,
classes, least, overlap, scales` returns boxes [1, count, 4], classes and scores [1, count], padded
with zeros, and the number of detections [1], as TFLite_Detection_PostProcess
(tensorflow/lite/kernels/detection_postprocess.cc) with one class per box.

It decomposes into two ops. `class_boxes(encodings, anchors, scores): scales, classes, best` decodes
boxes to corners, from centres y / scale * h + y and sides exp(h / scale) * h of anchors (y, x, h,
w) (S. Ren and others, "Faster R-CNN", 2015, equation 2). With `best` it also returns the highest of
the last `classes` scores of each box, and its class (the first of equal ones).

`chosen_boxes(boxes [1, N, 4], scores [1, N, columns], labels [1, N, 1] | None, overlap [1] | None,
number [1] | None): classes, count, least, overlap, rest, numbered` is a non-maximum suppression for
each of the last `classes` columns: it selects boxes with scores of at least `least`, the best first
(of equal ones the first), and drops those whose intersection over union with a selected one exceeds
`overlap` (an attribute, or a positive operand; None: drops none). With a `number` it only sees that
many boxes. It returns boxes [classes, count, 4], labels (default: the class, or with `numbered` the
number of the box) and scores [classes, count], with the score `rest` where no box is left, and the
number of boxes [classes, 1].

Without `each`, boxes of all classes suppress each other. With it only boxes of one class do: `each`
boxes per class are selected, then the best of all. Of equal scores the lower class comes first."""

from __future__ import annotations

from math import inf, nan

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.lowering import WORKGROUP, Access, Kernel, Lowering, Source
from tflgpu_plugin.ops.table import Errors, Op

THREADS = 256  # threads that select from many boxes of a class
MAX_VISITS = 1 << 20  # boxes that a thread reads: longer launches may hit a driver's timeout


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires one image; an anchor for each box; as many scores per box as classes, or one more
    for the background; an overlap above 0 and up to 1; at most 2^28 comparisons of boxes per
    class."""
    boxes, scores, anchors = (graph.shape(node.operand(k)) for k in range(3))
    if len(boxes) != 3 or boxes[0] != 1 or boxes[2] < 4 or anchors != (boxes[1], 4):
        return Refusal(
            "shape.mismatch", f"Boxes of {list(boxes)} do not fit anchors of {list(anchors)}."
        )
    given, classes = node.attributes, int(node.attributes["classes"])
    if len(scores) != 3 or scores[:2] != boxes[:2]:
        return Refusal(
            "shape.mismatch", f"Boxes of {list(boxes)} do not fit scores of {list(scores)}."
        )
    if classes < 1 or scores[2] - classes not in (0, 1):
        return Refusal(
            "shape.mismatch", f"{scores[2]} scores per box do not match {classes} classes."
        )
    if not 0 < given["overlap"] <= 1:
        return Refusal(
            "attribute.invalid",
            f"An overlap threshold of {given['overlap']:g} is not supported: it must be above 0 "
            "and at most 1.",
        )
    each, count = given["each"], given["count"]
    if count < 1 or (each is not None and each < 1):
        return Refusal("shape.empty", "There are no boxes to select from.")
    last = 0 if each is None else visits(classes * each, count)
    if max(visits(boxes[1], each or count), last) > MAX_VISITS:
        return Refusal(
            "shape.too_large",
            f"Selecting {count:,} of {boxes[1]:,} boxes takes too many comparisons.",
        )
    return None


def visits(boxes: int, count: int) -> int:
    """Returns how many boxes a thread reads to select this many."""
    return -(-boxes // THREADS) * (count + 1)


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of boxes, classes, scores and the number of detections."""
    count = node.attributes["count"] * node.attributes.get("several", 1)
    return [(1, count, 4), (1, count), (1, count), (1,)]


def decompose(steps: Decomposition, node: Node) -> bool:
    """Selects boxes of all classes together or, with `each`, per class and then the best of all."""
    encodings, scores, anchors = (node.operand(k) for k in range(3))
    given = node.attributes
    each, classes = given["each"], given["classes"]
    decoded = steps.many(
        "class_boxes", encodings, anchors, scores, outputs=(), scales=given["scales"],
        classes=classes, best=each is None,
    )  # fmt: skip
    limits = {"least": given["least"], "overlap": given["overlap"]}
    if each is not None:
        found = steps.many("chosen_boxes", decoded[0], scores, None, outputs=(), classes=classes,
                           count=each, rest=nan, **limits)  # fmt: skip
        extents = ((1, classes * each, last) for last in (4, 1, 1))
        decoded = tuple(map(steps.reshape, (found[0], found[2], found[1]), extents))
        limits["overlap"] = None
    last = steps.many("chosen_boxes", *decoded, outputs=node.outputs[:3], classes=1,
                      count=given["count"], rest=0.0, **limits)  # fmt: skip
    steps.put(node.outputs[3], "reshape", last[3], None, shape=(1,))
    return True


def _work(graph: Graph, node: Node) -> int:
    (_, boxes, columns), count = graph.shape(node.operand(1)), int(node.attributes["count"])
    return boxes * (columns + count)


# ---- boxes of a class ----------------------------------------------------------------------------


def box_shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shape of the boxes and, with `best`, of scores and classes."""
    count = graph.shape(node.operand())[1]
    each = [(1, count, last) for last in (1, 1) if node.attributes["best"]]
    return [(1, count, 4), *each]


def lower_boxes(low: Lowering, node: Node) -> None:
    """Records one launch with a thread per box."""
    graph, best = low.graph, node.attributes["best"]
    (_, count, columns) = graph.shape(node.operand(2))
    reads: dict[str, Source | Access] = {
        "encodings": low.stored(node.operand()), "anchors": low.stored(node.operand(1)),
    }  # fmt: skip
    writes = dict(zip(("boxes", "best", "labels"), node.outputs, strict=False))
    parameters: dict[str, object] = dict(
        zip("yxhw", map(float, node.attributes["scales"]), strict=True)
    )
    if best:
        slices = low.geometry(node.operand(2)).slices
        low.loops(node, slices + 1)
        reads["scores"] = low.stored(node.operand(2))
        parameters |= {
            "slices": slices, "columns": columns, "first": columns - node.attributes["classes"],
        }  # fmt: skip
    low.dispatch(
        Kernel("detection_boxes", {"count": count} | parameters, {"best": best}),
        node,
        reads,
        writes,
        (-(-count // WORKGROUP), 1, 1),
    )


# ---- selection -----------------------------------------------------------------------------------


def _fit(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Accepts every node, since only `detections` makes them."""
    return None


def chosen_shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of boxes, labels, scores and the number of boxes per class."""
    classes, count = node.attributes["classes"], node.attributes["count"]
    return [(classes, count, 4), (classes, count), (classes, count), (classes, 1)]


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with a workgroup per class."""
    graph, given = low.graph, node.attributes
    _, count, columns = graph.shape(node.operand(1))
    overlap, (*_, labels, limit, number) = given["overlap"], (*node.inputs, *[None] * 3)[:5]
    written = low.geometry(node.outputs[1]).slices
    lanes = THREADS if count > 8 * WORKGROUP else WORKGROUP
    held, ends = (-(-many // lanes) for many in (count, max(written, given["count"])))
    low.loops(node, (held + 2) * given["count"] + 6 * (ends + 1))
    reads: dict[str, Source | Access] = {
        "boxes": low.stored(node.operand()), "scores": Access(low.stored(node.operand(1)), 1),
    }  # fmt: skip
    if labels is not None:
        reads["labels"] = Access(low.stored(labels), 1)
    if limit is not None:
        reads["limit"] = Access(low.stored(limit), 1)
    if number is not None:
        reads["number"] = Access(low.stored(number), 1)
    # The kernel drops boxes at or above the limit: the next number above `overlap`.
    above = inf if overlap is None else float(np.nextafter(np.float32(overlap), np.float32(inf)))
    words = given["classes"] * (count + given["count"])
    low.dispatch(
        Kernel(
            "detection",
            {
                "count": count, "wanted": given["count"], "slices": written,
                "first": columns - given["classes"], "least": float(given["least"]),
                "overlap": above, "rest": float(given["rest"]), "zero": 0,
            },
            {
                "label": "load_labels(4u * i)" if labels is not None
                else "f32(i)" if given.get("numbered") else "f32(group)",
                "lanes": lanes, "limited": limit is not None, "among": number is not None,
            },
        ),
        node,
        reads,
        dict(zip(("chosen", "classes", "kept", "found"), node.outputs, strict=True))
        | {"notes": Access(low.temporary(-(-words // 4)), 0)},
        (given["classes"], 1, 1),
    )  # fmt: skip


ATTRIBUTES = {
    "detections": "classes! count! each?! least! overlap! scales[4]!",
    "class_boxes": "classes! best! scales[4]!",
    "chosen_boxes": "classes! count! least! numbered overlap?! rest!",
}  # fmt: skip
OPS = (
    Op("detections", refuse, shapes, lower_decomposed, "transcendental", work=_work,
       kind="composite", operands="xxx", decompose=decompose, errors=Errors(choice=1)),
    Op("class_boxes", _fit, box_shapes, lower_boxes, "transcendental", kind="choice",
       operands="xxx"),
    Op("chosen_boxes", _fit, chosen_shapes, lower, "exact", kind="choice",
       operands="xx???", errors=Errors(choice=1)),
)  # fmt: skip
