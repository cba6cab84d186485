"""Convolution: x [B, H, W, C], weights [O, KH, KW, C / groups] -> [B, OH, OW, O]."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops import rounding, split_depth, stem, window, winograd, winograd_row
from tflgpu_plugin.ops.blocks import (
    Blocks,
    convolve,
    operands,
    refuse_epilogue,
    refuse_groups,
    shapes,
    windows,
    work,
)
from tflgpu_plugin.ops.fully_connected import multiply_rows
from tflgpu_plugin.ops.lowering import Lowering, Source
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import ROW, choose_tile, row_threads
from tflgpu_plugin.ops.window import Span


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Strides for all axes between batch and channels; groups that divide the channels; a window
    that fits; no fused tanh."""
    (x, weights), rank = operands(graph, node), len(node.attributes["strides"]) + 2
    if len(x) != rank or len(weights) != rank:
        return Refusal(
            "rank.unsupported", f"This convolution needs an input and weights of {rank} dimensions."
        )
    if min(prod(x), prod(weights)) < 1:
        return Refusal("shape.empty", "A convolution of empty tensors is not supported.")
    if node.attributes.get("filters_last") and x[-1] != weights[-1]:
        said = f"Weights for {weights[-1]} channels do not fit an input of {list(x)}."
        return Refusal("shape.mismatch", said)
    if refusal := refuse_groups(x, weights) or refuse_epilogue(graph, node, weights[0]):
        return refusal
    return window.refuse_window(x, weights[1:-1], node.attributes)


def lower(low: Lowering, node: Node) -> None:
    """The form that suits: a matrix product, Winograd's, 1x1, along rows, or any window. Volumes
    have no other form for windows than the last."""
    x, filters = operands(low.graph, node)
    axes = windows(low.graph, node)
    groups, taps, flat = x[-1] // filters[-1], prod(filters[1:-1]), len(axes) == 2
    turned = flat and x[2] == filters[2] == axes[1].positions == 1 and axes[1].stride == 1
    if turned:  # what goes along one axis, goes along rows, which kernels know to share
        x, filters = (x[0], 1, x[1], x[3]), (filters[0], 1, filters[1], filters[3])
        axes = axes[::-1]
    extent_in, extent_out = prod(x[1:-1]), prod(s.positions for s in axes)
    point = taps == 1 and not any(s.before for s in axes)
    if point and groups == extent_in == extent_out == 1:
        multiply_rows(low, node, rows=x[0], pixels=1)
        return
    for form in (winograd, winograd_row) if flat else ():
        if form.pays(low, node, x, filters, *axes):
            form.lower(low, node, x, filters, *axes)
            return
    slices = -(-(filters[0] // groups) // 4)
    stems = flat and stem.suits(low, filters, *axes)
    few = _few_channels(low, node, x, filters, turned, stems) if flat else None
    if few and stems:
        stem.lower(low, node, x, filters, axes, *few)
        return
    point = point and extent_in == extent_out and all(s.stride == 1 for s in axes) and not few
    columns, walks = axes[-1], flat and not point
    width = _row_width(low.target, columns, slices, few is not None) if walks else 0
    tile = choose_tile(low.target, slices, extent_out, width)
    if width and tile.weights == "memory":  # which holds weights of one tap
        tile = replace(tile, weights="global")
    if few:
        # A pipeline of its own, mostly for one node: with fewer pixels it compiles sooner.
        pixels, ahead = tile.pixels if width else min(tile.pixels, 4), min(tile.ahead, x[3])
        tile = replace(tile, step=1, pixels=pixels, ahead=ahead)
    blocks = Blocks(filters[0], taps, filters[-1], groups, tile.slices)
    parameters: dict[str, object] = {"x_pixel": 1, "y_pixel": 1, "w_batch": 0}
    if not point:
        parameters = {"tap_vectors": blocks.tap_vectors, **window.parameters(axes)}
    threads = None
    if width:
        phases = min(columns.stride, filters[2])
        parameters |= {"phases": phases, "lines": filters[1] * phases}
        threads = row_threads(extent_out, tile.pixels, width)
        parameters |= {"items": threads, "row_items": threads // axes[0].positions}
    kind = "point" if point else "rows" if width else "window" if flat else "volume"
    if not few and not width:
        split_depth.lower(
            low, node, blocks, tile, taps=kind, pixels=extent_out, planes=x[0], x_slice=extent_in,
            parameters=parameters, width=columns.kernel if kind == "window" else 1,
        )  # fmt: skip
        return
    x_slice = extent_in
    if few:
        _, (batch, row, pixel, x_slice) = few
        parameters |= {"x_batch": batch, "x_row": row, "x_pixel": pixel}
    convolve(
        low,
        node,
        blocks,
        tile,
        kernel="conv",
        taps=kind,
        threads=threads,
        pixels=extent_out,
        planes=x[0],
        x_slice=x_slice,
        parameters=parameters,
        source=few[0] if few else None,
        strided=few is not None,
    )


def _gated(graph: Graph, node: Node) -> bool:
    """Whether a thread reads every channel of its pixels once: 1x1, dense, of a map."""
    x, filters = operands(graph, node)
    axes = windows(graph, node)
    point = prod(filters[1:-1]) == 1 and all(s.stride == 1 and not s.before for s in axes)
    return point and len(axes) == 2 and filters[-1] == x[-1] >= 4 and prod(x[1:-1]) > 1


def _row_width(target: Target, columns: Span, slices: int, few: bool) -> int:
    """The extent of a row where a thread's pixels shall be neighbours in one (see conv.wgsl), so
    that taps of a row share what they load; else 0. On software adapters it pays where a load
    serves few products, in rows that take them all, and more than two taps share it."""
    wanted = target.tuning.get("rows")
    if columns.dilation > 1 or wanted == "never":
        return 0
    pays = target.software and (few or slices <= 4) and columns.positions >= ROW
    pays = pays and columns.kernel > 2 * columns.stride
    return columns.positions if pays or wanted == "always" else 0


def _few_channels(
    low: Lowering, node: Node, x: Shape, filters: Shape, turned: bool, stems: bool
) -> tuple[Source, tuple[int, ...]] | None:
    """An input of less than 4 channels as single floats: where it lies, and the distances between
    batches, rows, pixels and channels. A vec4 of it has empty lanes, which the dense kernel would
    multiply, too; and from the host's buffer it need not be packed. None when it does not pay.
    """
    source = node.operand()
    if x[3] >= 4 or filters[3] != x[3] or low.target.tuning.get("strided") == "never":
        return None
    if hosted := low.hosted.get(source):
        batch, row, pixel, channel = hosted.strides
        return hosted.raw, (batch, pixel, row, channel) if turned else hosted.strides
    several = low.target.software and prod(filters[1:3]) > 1
    if stems or several or "strided" in low.target.tuning:
        return source, (4 * x[1] * x[2], 4 * x[2], 4, 1)
    return None


ATTRIBUTES = "strides padding dilations activation filters_last"
OPS = (
    Op("conv_2d", refuse, shapes, lower, "accumulate", work=work, kind="product", fuses=True,
       weights=Weights(), padding=True, accumulates=False, rounding=rounding.LAYER,
       gated=_gated, operands=3),
)  # fmt: skip
