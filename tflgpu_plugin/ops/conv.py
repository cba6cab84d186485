"""Convolution: x [B, H, W, C], weights [O, KH, KW, C / groups] -> [B, OH, OW, O]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Target
from tflgpu_plugin.ops import (
    byte_products,
    rounding,
    split_depth,
    stem,
    wide_total,
    window,
    winograd,
    winograd_row,
)  # fmt: skip
from tflgpu_plugin.ops.blocks import (
    operands,
    refuse_epilogue,
    refuse_groups,
    shapes,
    windows,
    work,
)
from tflgpu_plugin.ops.convolution import Convolution
from tflgpu_plugin.ops.forms import Form, Forms
from tflgpu_plugin.ops.fully_connected import PRODUCTS, Rows
from tflgpu_plugin.ops.product import Addressing, Product, multiply
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import ROW, choose_tile, row_threads


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires strides for all axes between batch and channels; groups that divide the channels; a
    window that fits; no fused tanh."""
    (x, weights), rank = operands(graph, node), len(node.attributes["strides"]) + 2
    if len(x) != rank or len(weights) != rank:
        return Refusal(
            "rank.unsupported", f"This convolution needs an input and weights of {rank} dimensions."
        )
    if 0 in (*x, *weights):
        return Refusal("shape.empty", "A convolution of empty tensors is not supported.")
    if node.attributes.get("filters_last") and x[-1] != weights[-1]:
        said = f"Weights for {weights[-1]} channels do not fit an input of {list(x)}."
        return Refusal("shape.mismatch", said)
    if refusal := refuse_groups(x, weights) or refuse_epilogue(graph, node, weights[0]):
        return refusal
    return window.refuse_window(x, weights[1:-1], node.attributes)


def _gated(graph: Graph, node: Node) -> bool:
    """Whether gates can be fused: a thread reads each channel of its pixels once (1x1, dense,
    2-D)."""
    x, filters = operands(graph, node)
    axes = windows(graph, node)
    point = prod(filters[1:-1]) == 1 and all(s.stride == 1 and not s.before for s in axes)
    return point and len(axes) == 2 and filters[-1] == x[-1] >= 4 and prod(x[1:-1]) > 1


# ---- forms ---------------------------------------------------------------------------------------


def _plain(c: Convolution) -> Product:
    """Returns the product with the addressing that every convolution of this kind supports."""
    return c.at_point if c.point else c.at_window if c.flat else c.at_volume


def _along_rows(c: Convolution) -> Product:
    """Returns a product whose threads have neighbouring pixels of a row, so that the taps of a row
    share loads (see conv.wgsl)."""
    columns, kernel = c.columns, c.filters[1:-1]
    tile = choose_tile(c.low.target, c.slices, c.pixels, columns.positions)
    tile = replace(tile, pixels=min(tile.pixels, columns.positions))  # guards that a row has them
    if tile.weights == "memory":  # workgroup memory holds the weights of one tap only
        tile = replace(tile, weights="global")
    blocks, phases = c.blocks(tile), min(columns.stride, kernel[1])
    threads = row_threads(c.pixels, tile.pixels, columns.positions)
    parameters: dict[str, object] = {
        "tap_vectors": blocks.tap_vectors,
        "phases": phases,
        "lines": kernel[0] * phases,
        "items": threads,
        "row_items": threads // c.axes[0].positions,
        **window.parameters(c.axes),
    }
    address = Addressing("rows", c.pixels, c.x[0], c.x_pixels, parameters, threads=threads)
    return Product(blocks, tile, address)


def _shares_rows(c: Convolution, few: bool = False) -> bool:
    """Whether sharing loads along rows pays: on software adapters, if a load serves few products,
    rows are long enough, and more than two taps share a load."""
    columns, target = c.columns, c.low.target
    pays = target.software and (few or c.slices <= 4) and columns.positions >= ROW
    return pays and columns.kernel > 2 * columns.stride and (few or not c.point)


def _strided(c: Convolution, product: Product, pixels: int) -> Product:
    """Returns the product changed to read its input as single floats. It needs a separate pipeline,
    often for one node only; with fewer pixels per thread, this compiles faster."""
    tile, (source, distances) = product.tile, c.singles
    tile = replace(tile, step=1, pixels=pixels, ahead=min(tile.ahead, c.x[3]))
    batch, row, pixel, channel = distances
    address = product.address.given(x_batch=batch, x_row=row, x_pixel=pixel)
    address = address._replace(x_slice=channel, strided=True, width=1)
    return product._replace(tile=tile, address=address, source=source)


def _strided_rows(c: Convolution) -> Product:
    product = _along_rows(c)
    return _strided(c, product, product.tile.pixels)


def _strided_window(c: Convolution) -> Product:
    product = c.at_window
    return _strided(c, product, min(product.tile.pixels, 4))


def _strides_pay(c: Convolution) -> bool:
    """Whether reading single floats pays: the host's buffer then needs no packing, and software
    adapters skip empty lanes."""
    return c.node.operand() in c.low.hosted or (c.low.target.software and c.taps > 1)


def _strided_rows_pay(c: Convolution) -> bool:
    wanted = _strides_pay(c) or c.low.target.prefers("strided_window")
    return wanted and _shares_rows(c, few=True)


def _launched(made: Callable[[Convolution], Product]) -> Callable[[Convolution], None]:
    return lambda c: multiply(c.low, c.node, made(c))


def _as_rows(c: Convolution) -> Rows | None:
    """Returns a convolution whose input and output have a single pixel as the matrix product that
    it is; None for any other."""
    one = c.x_pixels == c.pixels == c.groups == 1 and c.single
    return Rows(c.low, c.node, rows=c.x[0], pixels=1) if one else None


def _goes_along_rows(c: Convolution) -> bool:
    return c.flat and c.columns.dilation == 1


FORMS = Forms(
    Convolution.of,
    (
        *(form.adapted(_as_rows) for form in PRODUCTS),
        byte_products.form(lambda c: None if c.gated else (c.low, c.node, _plain(c))),
        Form("winograd_planes", winograd.suits, winograd.lower, winograd.pays),
        Form("winograd_rows", winograd_row.suits, winograd_row.lower, winograd_row.pays),
        Form("stem", stem.suits, stem.lower, stem.pays),
        Form("strided_rows", lambda c: c.few and _goes_along_rows(c), _launched(_strided_rows),
             _strided_rows_pay),
        Form("strided_window", lambda c: c.few, _launched(_strided_window), _strides_pay),
        Form("rows", lambda c: _goes_along_rows(c) and not c.gated, _launched(_along_rows),
             _shares_rows),
        split_depth.form(lambda c: (c.low, c.node, _plain(c))),
        Form("point", lambda c: c.point, _launched(lambda c: c.at_point)),
        Form("window", lambda c: c.flat and not c.gated, _launched(lambda c: c.at_window)),
        Form("volume", lambda c: not c.gated, _launched(lambda c: c.at_volume)),
    ),
)  # fmt: skip


ATTRIBUTES = "strides[2]! padding[4]!=same|valid dilations[2] activation"
OPS = (
    Op("conv_2d", refuse, shapes, FORMS, "accumulate", work=work, kind="product", fuses=True,
       weights=Weights(),
       int16=wide_total.layers(0), padding=True, accumulates=False, rounding=rounding.LAYER,
       gated=_gated, operands="xx?"),
)  # fmt: skip
