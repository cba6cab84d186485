"""Convolution of volumes: `conv_3d(x [B, D, H, W, C], weights [O, KD, KH, KW, C / groups], bias |
None)`: strides and dilations (d, h, w), padding "same", "valid" or (before, after) of each axis one
after another -> [B, OD, OH, OW, O]. With the attribute `filters_last` weights are [KD, KH, KW, C,
O].
"""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import blocks, rounding
from tflgpu_plugin.ops.blocks import Blocks, convolve, refuse_epilogue
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.table import Op, Refusal, Weights
from tflgpu_plugin.ops.tiles import choose_tile
from tflgpu_plugin.ops.window import Span, bounded, span

LETTERS = "dhw"
FIRST = (4, 0, 1, 2, 3)  # brings filters that are last to the front


def operands(graph: Graph, node: Node) -> tuple[Shape, Shape]:
    """Shapes of the input and of the weights, filters first."""
    x, weights = blocks.operands(graph, node)
    if node.attributes.get("filters_last") and len(weights) == 5:
        weights = tuple(weights[axis] for axis in FIRST)
    return x, weights


def _decompose(steps: Decomposition, node: Node) -> bool:
    """Filters that are last come to the front."""
    if not node.attributes.get("filters_last"):
        return False
    x, weights, *bias = node.inputs
    data = steps.data(weights)
    if data is None:
        first = steps.add("transpose", weights, perm=FIRST)
    else:
        first = steps.number(data.transpose(FIRST))
    attributes = {k: v for k, v in node.attributes.items() if k != "filters_last"}
    steps.last("conv_3d", x, first, *bias, **attributes)
    return True


def _spans(graph: Graph, node: Node) -> list[Span]:
    x, weights = operands(graph, node)
    padding = node.attributes["padding"]
    dilations = node.attributes.get("dilations", (1, 1, 1))
    found = []
    for k in range(3):
        sides = padding if isinstance(padding, str) else (padding[2 * k], padding[2 * k + 1])
        strides = node.attributes["strides"]
        found.append(bounded(span(x[k + 1], weights[k + 1], strides[k], dilations[k], sides)))
    return found


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal:
    """5 dimensions; groups that divide the channels; a window that fits; no fused tanh."""
    x, weights = operands(graph, node)
    if len(x) != 5 or len(weights) != 5:
        return "A convolution of volumes needs an input and weights of 5 dimensions."
    if min(prod(x), prod(weights)) < 1:
        return "A convolution of empty tensors is not supported."
    if node.attributes.get("filters_last") and x[4] != weights[4]:
        return f"Weights for {weights[4]} channels do not fit an input of {list(x)}."
    if x[4] % weights[4] or weights[0] % (x[4] // weights[4]):
        return f"{x[4]} channels and weights of {list(weights)} do not make groups."
    numbers = (*node.attributes["strides"], *node.attributes.get("dilations", (1, 1, 1)))
    if min(numbers) < 1 or min(s.places for s in _spans(graph, node)) < 1:
        return f"The window of {list(weights[1:4])} does not fit an input of {list(x)}."
    return refuse_epilogue(graph, node, weights[0])


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    x, weights = operands(graph, node)
    return [(x[0], *(s.places for s in _spans(graph, node)), weights[0])]


def _work(graph: Graph, node: Node) -> int:
    """Multiply-adds: one per output element and weight of a filter."""
    return prod(_shapes(graph, node)[0]) * prod(operands(graph, node)[1][1:])


def _lower(low: Lowering, node: Node) -> None:
    x, filters = operands(low.graph, node)
    axes = _spans(low.graph, node)
    groups = x[4] // filters[4]
    extent_in, extent_out = prod(x[1:4]), prod(s.places for s in axes)
    tile = choose_tile(low.target, -(-(filters[0] // groups) // 4), extent_out)
    order = Blocks(filters[0], prod(filters[1:4]), filters[4], groups, tile.quads)
    parameters: dict[str, object] = {
        "batch": x[0],
        "places": extent_out,
        "x_batch": -(-x[4] // 4) * extent_in,
        "y_batch": -(-filters[0] // 4) * extent_out,
        "y_quad": extent_out,
        "tap_vectors": order.tap_vectors,
        "out_h": axes[1].places,
        "out_w": axes[2].places,
        "front": np.int32(axes[0].before),
        "top": np.int32(axes[1].before),
        "left": np.int32(axes[2].before),
    }
    for letter, s in zip(LETTERS, axes, strict=True):
        parameters |= {f"in_{letter}": s.extent, f"kernel_{letter}": s.kernel}
        parameters |= {f"stride_{letter}": s.stride, f"dilation_{letter}": s.dilation}
    convolve(
        low,
        node,
        order,
        tile,
        kernel="conv",
        taps="volume",
        places=extent_out,
        planes=x[0],
        x_quad=extent_in,
        parameters=parameters,
    )


OPS = (
    Op("conv_3d", _refuse, _shapes, _lower, "accumulate", work=_work, kind="product", fuses=True,
       decompose=_decompose, weights=Weights(), accumulates=False, rounding=rounding.PRODUCT),
)  # fmt: skip
