"""Convolution of volumes: `conv_3d(x [B, D, H, W, C], weights [O, KD, KH, KW, C / groups], bias |
None)`: strides and dilations (d, h, w), padding "same", "valid" or (before, after) of each axis one
after another -> [B, OD, OH, OW, O]. With the attribute `filters_last` weights are [KD, KH, KW, C,
O].
"""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir.graph import Node
from tflgpu_plugin.ops import rounding, window
from tflgpu_plugin.ops.blocks import Blocks, convolve, operands, shapes, windows, work
from tflgpu_plugin.ops.conv import refuse
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import choose_tile

FIRST = (4, 0, 1, 2, 3)  # brings filters that are last to the front


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


def _lower(low: Lowering, node: Node) -> None:
    x, filters = operands(low.graph, node)
    axes = windows(low.graph, node)
    groups = x[4] // filters[4]
    extent_in, extent_out = prod(x[1:4]), prod(s.places for s in axes)
    tile = choose_tile(low.target, -(-(filters[0] // groups) // 4), extent_out)
    order = Blocks(filters[0], prod(filters[1:4]), filters[4], groups, tile.quads)
    parameters: dict[str, object] = {
        "tap_vectors": order.tap_vectors,
        "out_h": axes[1].places,
        "out_w": axes[2].places,
        **window.parameters(axes),
    }
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
    Op("conv_3d", refuse, shapes, _lower, "accumulate", work=work, kind="product", fuses=True,
       decompose=_decompose, weights=Weights(), accumulates=False, rounding=rounding.PRODUCT),
)  # fmt: skip
