"""Pooling: `average_pool_2d` and `max_pool_2d` (x): window (h, w), strides, padding.

An average divides by the number of elements inside the image, as
tensorflow/lite/kernels/internal/reference/pooling.h.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.graph import Graph, Node, Shape
from tflgpu_plugin.lowering import Lowering
from tflgpu_plugin.ops import Op
from tflgpu_plugin.ops.reduce import LOWEST, MAXIMUM, REDUCTIONS, lower_spatial
from tflgpu_plugin.ops.window import Span, quads_per_thread, refuse_window, spans
from tflgpu_plugin.target import Target

GROUP = 64
ACTIVATIONS = ("none", "relu", "relu_n1_to_1", "relu6")  # the host's kernels ignore others
LONGEST = 65_535  # rounds of one loop that every driver runs to the end


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """4 dimensions; every window meets at least one element of the image."""
    shape = graph.shape(_input(node))
    if len(shape) != 4:
        return f"Pooling needs an input of rank 4, this one has rank {len(shape)}."
    if prod(shape) == 0:
        return f"An input of {list(shape)} has no elements."
    if node.attributes.get("activation", "none") not in ACTIVATIONS:
        return f"Pooling takes no {node.attributes['activation']} activation."
    refusal = refuse_window(shape, node.attributes["window"], node.attributes)
    if refusal:
        return refusal
    rows, columns = _spans(graph, node)
    if not (_meets(rows) and _meets(columns)):
        return "Some window lies in the padding altogether."
    if not _whole(rows, columns) and max(_longest(rows), _longest(columns)) > LONGEST:
        return f"A window longer than {LONGEST:,} elements must cover the whole image."
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Output [B, OH, OW, C]."""
    shape = graph.shape(_input(node))
    rows, columns = _spans(graph, node)
    return [(shape[0], rows.places, columns.places, shape[3])]


def lower(low: Lowering, node: Node) -> None:
    """One launch; a single window over the whole image is a reduction and runs as one."""
    average = node.op == "average_pool_2d"
    rows, columns = _spans(low.graph, node)
    if _whole(rows, columns):
        lower_spatial(low, node, REDUCTIONS["mean"] if average else MAXIMUM)
        return
    out = low.geometry(node.outputs[0])
    chunk = quads_per_thread(low.target, out)
    low.dispatch(
        "pool",
        node,
        {"x": _input(node)},
        {"out": node.outputs[0]},
        (-(-out.spatial // GROUP), -(-out.quads // chunk), out.batch),
        {
            "batch": out.batch,
            "quads": out.quads,
            "chunk": chunk,
            "spatial": out.spatial,
            "out_width": columns.places,
            "height": np.int32(rows.extent),
            "width": np.int32(columns.extent),
            "stride_h": np.int32(rows.stride),
            "stride_w": np.int32(columns.stride),
            "window_h": np.int32(rows.kernel),
            "window_w": np.int32(columns.kernel),
            "top": np.int32(rows.before),
            "left": np.int32(columns.before),
        },
        {
            "average": average,
            "start": "vec4f(0.0)" if average else LOWEST,
            "combine": "sum" if average else "max",
        },
    )


def _spans(graph: Graph, node: Node) -> tuple[Span, Span]:
    return spans(graph.shape(_input(node)), node.attributes["window"], node.attributes)


def _meets(span: Span) -> bool:
    """Every place of the window holds at least one element."""
    last = (span.places - 1) * span.stride - span.before
    return span.before < span.kernel and last < span.extent


def _longest(span: Span) -> int:
    return min(span.kernel, span.extent)


def _whole(rows: Span, columns: Span) -> bool:
    """There is one place, and its window covers the image."""
    return all(s.places == 1 and s.kernel - s.before >= s.extent for s in (rows, columns))


def _input(node: Node) -> int:
    assert node.inputs[0] is not None
    return node.inputs[0]


def _work(graph: Graph, node: Node) -> int:
    return prod(shapes(graph, node)[0]) * prod(map(_longest, _spans(graph, node)))


OPS = (
    Op("average_pool_2d", refuse, shapes, lower, "reduction", work=_work, fuses=True),
    Op("max_pool_2d", refuse, shapes, lower, "exact", work=_work, fuses=True),
)
