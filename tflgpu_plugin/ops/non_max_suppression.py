"""`non_max_suppression(boxes [N, 4], scores [N], count, overlap, least)`, the last three constant:
the boxes (two corners, either way round) with scores above `least`, the best first, without those
whose intersection with one before is `overlap` of the union or more, up to `count`: their numbers,
zeros behind them, and how many there are.

As `NonMaxSuppression` of tensorflow/lite/kernels/internal/reference/non_max_suppression.h, ties
included: of equal scores the first one out of a heap of GNU's C++ library. As there, a box counts
as one before itself, so that one without an area is chosen again and again where overlap > 0.
"""

from __future__ import annotations

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Access, Lowering
from tflgpu_plugin.ops.table import Errors, Op, unplanned

MAX_COMPARISONS = 1 << 20  # one after another: a launch must not seem to hang


def _constant(graph: Graph, node: Node, position: int) -> float:
    """Raises ValueError where it is no constant number."""
    value = graph.constant(node.inputs[position])
    if value is None or value.size != 1:
        raise ValueError("its count and thresholds must be constant numbers")
    return float(value.reshape(-1)[0])


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Numbers, and how many."""
    wanted = int(_constant(graph, node, 2))
    if wanted < 0:
        raise ValueError(f"{wanted} boxes cannot be chosen")
    return [(wanted,), ()]


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Boxes and scores that are floats; a constant count and thresholds; up to 65,535 boxes,
    and 2^20 times 64 comparisons."""
    if found := unplanned(node.op, _settings, graph, node):
        return found
    if any(graph.tensors[node.operand(k)].dtype not in ("f32", "f16") for k in (0, 1)):
        return "Boxes and their scores must be floats."
    boxes, scores = graph.shape(node.operand()), graph.shape(node.operand(1))
    if len(boxes) != 2 or boxes[1] != 4 or scores != boxes[:1]:
        return f"Boxes of {list(boxes)} do not fit scores of {list(scores)}."
    count, wanted = boxes[0], shapes(graph, node)[0][0]
    if count > MAX_LOOP_ROUNDS or (count + wanted) * -(-wanted // WORKGROUP) > MAX_COMPARISONS:
        return f"{wanted:,} of {count:,} boxes are too many to choose."
    return None


def _settings(graph: Graph, node: Node) -> tuple[int, float, float]:
    """The count, overlap and least score."""
    (wanted,), _ = shapes(graph, node)
    return wanted, _constant(graph, node, 3), _constant(graph, node, 4)


def lower(low: Lowering, node: Node) -> None:
    """One launch of one workgroup."""
    graph = low.graph
    (count, _), (wanted, overlap, least) = graph.shape(node.operand()), _settings(graph, node)
    blocks, turns = -(-count // WORKGROUP), count + wanted + 1
    each, written = -(-wanted // WORKGROUP), -(-low.geometry(node.outputs[0]).slices // WORKGROUP)
    low.loops(node, count + 6 * blocks + turns * (2 + each) + 6 * written + 3)
    low.dispatch(
        "non_max_suppression",
        node,
        {"boxes": low.stored(node.operand()), "scores": Access(low.stored(node.operand(1)), 1)},
        {
            "indices": node.outputs[0],
            "found": node.outputs[1],
            "notes": Access(low.temporary(-(-(3 * count + wanted) // 4)), 0),
        },
        (1, 1, 1),
        {
            "count": count, "wanted": wanted, "turns": turns, "overlap": overlap, "least": least,
            "slices": low.geometry(node.outputs[0]).slices, "zero": 0,
        },
        {"levels": count.bit_length() - 1},
    )  # fmt: skip


def _work(graph: Graph, node: Node) -> int:
    (count, _), (wanted,) = graph.shape(node.operand()), shapes(graph, node)[0]
    return count * (wanted + count.bit_length())


OPS = (
    Op("non_max_suppression", refuse, shapes, lower, "exact", types=("f32", "i32"), work=_work,
       kind="choice", errors=Errors(choice=0)),
)  # fmt: skip
