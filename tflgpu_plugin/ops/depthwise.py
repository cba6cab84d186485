"""Depthwise convolution: x [B, H, W, C], weights [1, KH, KW, O] -> [B, OH, OW, O].

Output channel o reads input channel o / multiplier, multiplier = O / C.
"""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from tflgpu_plugin.graph import Graph, Node, Shape
from tflgpu_plugin.lowering import Access, Lowering
from tflgpu_plugin.ops import Op, Refusal
from tflgpu_plugin.ops.blocks import operands, refuse_epilogue
from tflgpu_plugin.ops.window import Span, refuse_window, spans
from tflgpu_plugin.target import Target


def _kernel(graph: Graph, node: Node) -> tuple[int, int]:
    _, weights = operands(graph, node)
    return weights[1], weights[2]


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal:
    """4 dimensions; a whole number of filters per channel; a window that fits; no fused tanh."""
    x, weights = operands(graph, node)
    if len(x) != 4 or len(weights) != 4:
        return "A depthwise convolution needs an input and weights of 4 dimensions."
    if min(prod(x), prod(weights)) < 1 or weights[0] != 1:
        return f"Weights of shape {list(weights)} for an input of {list(x)} are not supported."
    multiplier = node.attributes.get("multiplier") or weights[3] // x[3]
    if weights[3] != x[3] * multiplier:
        return f"{weights[3]} filters are not {multiplier} for each of {x[3]} input channels."
    if refusal := refuse_epilogue(graph, node, weights[3]):
        return refusal
    return refuse_window(x, _kernel(graph, node), node.attributes)


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    x, weights = operands(graph, node)
    rows, columns = spans(x, _kernel(graph, node), node.attributes)
    return [(x[0], rows.places, columns.places, weights[3])]


def _work(graph: Graph, node: Node) -> int:
    """Multiply-adds: one per output element and tap."""
    return prod(_shapes(graph, node)[0]) * prod(_kernel(graph, node))


def _lower(low: Lowering, node: Node) -> None:
    graph = low.graph
    x, weights = operands(graph, node)
    rows, columns = spans(x, _kernel(graph, node), node.attributes)
    multiplied = weights[3] != x[3]
    form = "multiplied" if multiplied else _form(rows, columns)
    parameters: dict[str, object] = {
        "batch": x[0],
        "quads": -(-weights[3] // 4),
        "in_h": x[1],
        "in_w": x[2],
        "out_h": rows.places,
        "out_w": columns.places,
        "dilation_h": rows.dilation,
        "dilation_w": columns.dilation,
        "top": np.int32(rows.before),
        "left": np.int32(columns.before),
    }
    if form in ("rows", "rows2"):
        _walk_rows(low, node, form, rows, columns, parameters)
        return
    parameters |= {
        "places": rows.places * columns.places,
        "kernel_h": rows.kernel,
        "kernel_w": columns.kernel,
        "stride_h": rows.stride,
        "stride_w": columns.stride,
    }
    if multiplied:
        multiplier = weights[3] // x[3]
        parameters |= {"multiplier": multiplier, "channels": x[3], "x_quads": -(-x[3] // 4)}
    pixels = 2 if multiplied else 4
    lanes = 8 if low.target.software else 32
    _dispatch(low, node, form, pixels, lanes, rows.places * columns.places, parameters)


def _form(rows: Span, columns: Span) -> str:
    """The kernel form of a window without multiplier."""
    if rows.kernel == columns.kernel == 3:
        if rows.stride == columns.stride == 1:
            return "rows"
        if rows.stride == columns.stride == 2 and rows.dilation == columns.dilation == 1:
            return "rows2"
    return "taps"


def _walk_rows(
    low: Lowering,
    node: Node,
    form: str,
    rows: Span,
    columns: Span,
    parameters: dict[str, object],
) -> None:
    """One thread per `pixels` columns and as many rows as keep groups of 8 threads busiest."""
    software = low.target.software
    pixels = 2 if form == "rows" else 1
    column_groups = _groups(columns, pixels)
    lanes = 8 if software else 32
    # Input rows read per output row fall with the height; threads, which other GPUs need, too.
    extra = 2 if form == "rows" else 1
    heights = range(1, min(-(-rows.places // rows.dilation), 16 if software else 4) + 1)

    def cost(height: int) -> tuple[int, int]:
        items = column_groups * _groups(rows, height)
        return -(-items // lanes) * (height + extra), height

    height = min(heights, key=cost)
    items = column_groups * _groups(rows, height)
    parameters |= {"rows": height, "column_groups": column_groups, "items": items}
    _dispatch(low, node, form, pixels, lanes, items * pixels, parameters)


def _groups(along: Span, size: int) -> int:
    """Groups of `size` output places that lie `dilation` apart."""
    return along.dilation * ceil(ceil(along.places / along.dilation) / size)


def _dispatch(
    low: Lowering,
    node: Node,
    form: str,
    pixels: int,
    lanes: int,
    places: int,
    parameters: dict[str, object],
) -> None:
    weights, (batch, quads, _, _) = node.inputs[1], low.geometry(node.outputs[0])
    assert weights is not None and node.inputs[0] is not None
    low.dispatch(
        "depthwise",
        node,
        reads={
            "x": Access(node.inputs[0], view=1 if form == "multiplied" else 4),
            "w": low.stored(weights),
        },
        writes={"y": node.outputs[0]},
        grid=(-(-places // (lanes * pixels)), quads, batch),
        parameters=parameters,
        variant={
            "form": form,
            "pixels": pixels,
            "lanes": lanes,
            "shared": low.target.shuffles and form in ("rows", "rows2"),
        },
    )


OPS = (
    Op(
        "depthwise_conv_2d",
        _refuse,
        _shapes,
        _lower,
        accuracy="accumulate",
        work=_work,
        fuses=True,
    ),
)
