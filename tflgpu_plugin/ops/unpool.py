"""Maxima and their positions, x [B, H, W, C]: `max_pool_argmax(x): window, padding` returns the
largest element of each window and its index in the window, y * width + x; `max_unpool(x, indices):
window, padding` writes values back there, into zeros. Windows are adjacent. The first of equal
elements is taken, NaN only if it is the first of its window. Fractional indices are truncated;
values with an index outside of the window are dropped."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Kernel, Lowering
from tflgpu_plugin.ops.table import MOVED, Errors, Op, elements
from tflgpu_plugin.ops.window import Span, spans


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires 4 dimensions; adjacent windows of at most 65,535 elements that begin at the first
    element; indices that only unpoolings on the GPU read."""
    shape, window = graph.shape(node.operand()), node.attributes["window"]
    if len(shape) != 4 or prod(shape) == 0:
        said = f"Pooling with indices needs an image of 4 dimensions, not {list(shape)}."
        return Refusal("rank.unsupported", said)
    if min(window) < 1 or prod(window) > MAX_LOOP_ROUNDS:
        said = f"A window of {window[0]} x {window[1]} is not of 1 to {MAX_LOOP_ROUNDS:,} elements."
        return Refusal("shape.too_large", said)
    found = _spans(shape, node)
    if min(s.positions for s in found) < 1:
        said = f"A window of {window[0]} x {window[1]} does not fit {list(shape)}."
        return Refusal("shape.window_too_large", said)
    if max(s.before for s in found):
        said = "Windows that begin in the padding are not supported: hosts differ in their indices."
        return Refusal("host.ambiguous", said)
    return None


def refuse_back(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires 4 dimensions; adjacent windows; indices of a pooling on the GPU, in the shape of the
    values."""
    shape, window = graph.shape(node.operand()), node.attributes["window"]
    indices = graph.shape(node.operand(1))
    if len(shape) != 4 or prod(shape) == 0:
        return Refusal(
            "rank.unsupported", f"Unpooling needs an image of 4 dimensions, not {list(shape)}."
        )
    if indices != shape:
        said = f"Values of shape {list(shape)} and indices of {list(indices)} do not agree."
        return Refusal("shape.mismatch", said)
    if min(window) < 1 or prod(window) > MAX_LOOP_ROUNDS:
        said = f"A window of {window[0]} x {window[1]} is not of 1 to {MAX_LOOP_ROUNDS:,} elements."
        return Refusal("shape.too_large", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of both outputs, [B, positions ..., C]."""
    shape = graph.shape(node.operand())
    pooled = (shape[0], *(s.positions for s in _spans(shape, node)), shape[3])
    return [pooled, pooled]


def shapes_back(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shape with as many windows as there are values."""
    batch, height, width, channels = graph.shape(node.operand())
    rows, columns = node.attributes["window"]
    return [(batch, height * rows, width * columns, channels)]


def _spans(shape: Shape, node: Node) -> list[Span]:
    window = node.attributes["window"]
    return spans(shape, window, {**node.attributes, "strides": window})


def lower(low: Lowering, node: Node) -> None:
    """Records one launch for values and indices."""
    rows, columns = _spans(low.graph.shape(node.operand()), node)
    low.loops(node, rows.kernel * (2 + columns.kernel) + 1)
    low.each_vector(
        Kernel(
            "pool_argmax",
            {
                "out_width": columns.positions, "height": rows.extent, "width": columns.extent,
                "window_h": rows.kernel, "window_w": columns.kernel,
            },
        ),
        node,
        {"x": low.stored(node.operand())},
        writes=("out", "indices"),
    )  # fmt: skip


def lower_back(low: Lowering, node: Node) -> None:
    """Records one launch with four elements of the result per thread."""
    _, height, width, _ = low.graph.shape(node.operand())
    window_h, window_w = node.attributes["window"]
    low.each_vector(
        Kernel(
            "unpool",
            {
                "out_width": width * window_w, "in_width": width, "in_spatial": height * width,
                "window_h": window_h, "window_w": window_w,
            },
        ),
        node,
        {"x": low.stored(node.operand()), "indices": low.stored(node.operand(1))},
    )  # fmt: skip


ATTRIBUTES = "window[2]! padding[4]!=same|valid"
OPS = (
    Op("max_pool_argmax", refuse, shapes, lower, "exact", work=elements(), kind="choice",
       errors=Errors(choice=1), numbers_places="makes"),
    Op("max_unpool", refuse_back, shapes_back, lower_back, "exact", kind="movement", fuses=True,
       operands="xx", errors=MOVED, numbers_places="takes"),
)  # fmt: skip
