"""Convolution of an input with less than 4 channels: windows become channels of a 1x1 convolution.

A vec4 of such an input has empty lanes, which the dense kernel would multiply, too. The 1x1 kernel
is in every network anyway, so there is one large kernel less to compile.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.graph import Node, Shape
from tflgpu_plugin.lowering import Access, Lowering
from tflgpu_plugin.ops.blocks import LONGEST, VECTOR_BYTES, Blocks, convolve
from tflgpu_plugin.ops.tiles import choose_tile
from tflgpu_plugin.ops.window import Span

GROUP = 64


def pays(low: Lowering, node: Node, x: Shape, filters: Shape, rows: Span, columns: Span) -> bool:
    """Whether the convolution can run in this form, and should: on software adapters, where loads
    of empty lanes cost as much as others. Elsewhere the larger tensor costs more."""
    taps, places = rows.kernel * columns.kernel, rows.places * columns.places
    if x[3] >= 4 or taps == 1 or low.graph.constant(node.inputs[1]) is None:
        return False
    depth = taps * x[3]
    bytes_ = x[0] * -(-depth // 4) * places * VECTOR_BYTES
    limit = min(low.target.max_binding_bytes, low.target.max_buffer_bytes)
    if bytes_ > limit or depth > LONGEST:
        return False
    forced = low.target.tuning.get("patches")
    return forced == "always" if forced else low.target.software


def lower(low: Lowering, node: Node, x: Shape, filters: Shape, rows: Span, columns: Span) -> None:
    """Two launches; the tensor in between is [batch][quads of the window][places]."""
    places, depth = rows.places * columns.places, prod(filters[1:])
    quads, outputs = -(-depth // 4), -(-filters[0] // 4)
    source = node.inputs[0]
    assert source is not None
    windows = low.temporary(x[0] * quads * places)
    low.dispatch(
        "patches",
        node,
        reads={"x": Access(source, view=1)},
        writes={"y": windows},
        grid=(-(-places // GROUP), 1, x[0]),
        parameters={
            "batch": x[0],
            "places": places,
            "quads": quads,
            "channels": x[3],
            "x_batch": 4 * x[1] * x[2],
            "x_place": 4,
            "in_h": x[1],
            "in_w": x[2],
            "out_w": columns.places,
            "kernel_h": rows.kernel,
            "kernel_w": columns.kernel,
            "stride_h": rows.stride,
            "stride_w": columns.stride,
            "dilation_h": np.int32(rows.dilation),
            "dilation_w": np.int32(columns.dilation),
            "top": np.int32(rows.before),
            "left": np.int32(columns.before),
        },
        fused=False,
    )
    tile = choose_tile(low.target, outputs, places)
    convolve(
        low,
        node,
        Blocks(filters[0], 1, depth, 1, tile.quads),
        tile,
        kernel="conv",
        taps="point",
        places=places,
        planes=x[0],
        x_quad=places,
        parameters={
            "batch": x[0],
            "places": places,
            "x_batch": quads * places,
            "x_place": 1,
            "y_batch": outputs * places,
            "y_quad": places,
            "y_place": 1,
            "w_batch": 0,
        },
        source=windows,
    )
