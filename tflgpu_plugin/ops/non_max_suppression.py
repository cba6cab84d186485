"""`non_max_suppression(boxes [N, 4], scores [N], count, overlap, least)`, the last three constant,
returns the indices of up to `count` boxes, padded with zeros, and their number. Boxes are two
opposite corners in any order. Those with scores above `least` are selected, the best first; one
whose intersection over union with a selected one is at least `overlap` is dropped.

`soft_non_max_suppression(boxes, scores, count, overlap, least, sigma)` also returns scores, after
the indices. If sigma > 0, a selected box with a smaller overlap multiplies the scores of others by
exp(-overlap^2 / (2 sigma)), and so reorders them (N. Bodla and others, "Soft-NMS", 2017).

Both follow `NonMaxSuppression` of tensorflow/lite/kernels/internal/reference/non_max_suppression.h,
even in ties: of equal scores the first out of a heap of GNU's C++ library. As there, a box is
compared with itself, so one without an area is selected repeatedly if overlap > 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Graph, Node, NotConstant, Refusal, Shape, Target
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Access, Kernel, Lowering, Source
from tflgpu_plugin.ops.table import Errors, Op, unplanned

MAX_COMPARISONS = 1 << 20  # sequential ones; longer launches may hit a driver's timeout


def _constant(graph: Graph, node: Node, position: int) -> float:
    """Returns the constant number of an input. Raises ValueError if it is not constant."""
    value = graph.constant(node.inputs[position])
    if value is None or value.size != 1:
        raise NotConstant("its count and thresholds must be constant numbers")
    return float(value.reshape(-1)[0])


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of indices, scores and number."""
    wanted = int(_constant(graph, node, 2))
    if wanted < 0:
        raise ValueError(f"{wanted} boxes cannot be chosen")
    return [(wanted,)] * (len(node.outputs) - 1) + [()]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires float boxes and scores; a constant count and thresholds; at most 65,535 boxes, and
    2^26 comparisons (2^20 with sigma)."""
    for needed in (shapes, _settings):
        if found := unplanned(node.op, needed, graph, node):
            return found
    if any(graph.tensors[node.operand(k)].dtype not in ("f32", "f16") for k in (0, 1)):
        return Refusal("dtype.unsupported", "Boxes and their scores must be floats.")
    boxes, scores = graph.shape(node.operand()), graph.shape(node.operand(1))
    if len(boxes) != 2 or boxes[1] != 4 or scores != boxes[:1]:
        return Refusal(
            "shape.mismatch", f"Boxes of {list(boxes)} do not fit scores of {list(scores)}."
        )
    count, (wanted, _, _, sigma) = boxes[0], _settings(graph, node)
    if sigma < 0:
        return Refusal("attribute.invalid", f"A sigma of {sigma:g} is below 0.")
    at_once = 1 if sigma else WORKGROUP
    if count > MAX_LOOP_ROUNDS or (count + wanted) * -(-wanted // at_once) > MAX_COMPARISONS:
        said = f"Selecting {wanted:,} of {count:,} boxes takes too many comparisons."
        return Refusal("shape.too_large", said)
    return None


class Settings(NamedTuple):
    """The constants of a node."""

    wanted: int
    overlap: float
    least: float
    sigma: float


def _settings(graph: Graph, node: Node) -> Settings:
    wanted, *limits = (_constant(graph, node, k) for k in range(2, len(node.inputs)))
    return Settings(int(wanted), *[*limits, 0.0][:3])


def lower(low: Lowering, node: Node) -> None:
    """Records one launch of one workgroup."""
    (count, _), settings = low.graph.shape(node.operand()), _settings(low.graph, node)
    wanted, soft, scored = settings.wanted, settings.sigma > 0, len(node.outputs) == 3
    slices = low.geometry(node.outputs[0]).slices
    blocks, written = (-(-many // WORKGROUP) for many in (count, slices))
    # Each box is considered once, and again after each comparison that lowered its score.
    turns = count + wanted + 1 + (count * wanted if soft else 0)
    each = turns + count * wanted if soft else turns * (1 + -(-wanted // WORKGROUP))
    low.loops(node, count + 6 * blocks + turns + each + 6 * written + 3)
    words = 2 * count + wanted * (len(node.outputs) - 1)
    writes: dict[str, Source | Access] = {
        "indices": node.outputs[0],
        "found": node.outputs[-1],
        "notes": Access(low.temporary(-(-words // 4)), 0),
    }
    if scored:
        writes["scores_out"] = node.outputs[1]
    low.dispatch(
        Kernel(
            "non_max_suppression",
            {
                "count": count, "wanted": wanted, "turns": turns, "overlap": settings.overlap,
                "least": settings.least, "slices": slices, "zero": 0,
                "scale": float(np.float32(-0.5) / np.float32(settings.sigma)) if soft else 0.0,
            },
            {"levels": count.bit_length() - 1, "soft": soft, "scored": scored},
        ),
        node,
        {"boxes": low.stored(node.operand()), "scores": Access(low.stored(node.operand(1)), 1)},
        writes,
        (1, 1, 1),
    )  # fmt: skip


def _work(graph: Graph, node: Node) -> int:
    (count, _), (wanted, *_) = graph.shape(node.operand()), shapes(graph, node)[0]
    return count * (wanted + count.bit_length())


OPS = (
    Op("non_max_suppression", refuse, shapes, lower, "exact", types=("f32", "i32"), work=_work,
       kind="choice", operands="xxxxx", errors=Errors(choice=0)),
    Op("soft_non_max_suppression", refuse, shapes, lower, "transcendental", types=("f32", "i32"),
       work=_work, kind="choice", operands="xxxxx?", errors=Errors(choice=0)),
)  # fmt: skip
