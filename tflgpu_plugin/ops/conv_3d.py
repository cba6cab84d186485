"""Convolution of volumes: `conv_3d(x [B, D, H, W, C], weights [O, KD, KH, KW, C / groups], bias |
None)`: strides and dilations (d, h, w), padding "same", "valid" or (before, after) of each axis one
after another -> [B, OD, OH, OW, O]. With the attribute `filters_last` weights are [KD, KH, KW, C,
O].
"""

from __future__ import annotations

from tflgpu_plugin.ir.graph import Node
from tflgpu_plugin.ops import rounding
from tflgpu_plugin.ops.blocks import shapes, work
from tflgpu_plugin.ops.conv import lower, refuse
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.table import Op, Weights

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


OPS = (
    Op("conv_3d", refuse, shapes, lower, "accumulate", work=work, kind="product", fuses=True,
       decompose=_decompose, weights=Weights(), accumulates=False, rounding=rounding.PRODUCT),
)  # fmt: skip
