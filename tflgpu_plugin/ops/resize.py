"""`resize_bilinear(x, size i32[2] constant): align_corners, half_pixel_centers`, and
`resize_nearest`.

Where each output place reads is worked out on the CPU in float32, in the order of
`ComputeInterpolationValues` of tensorflow/lite/kernels/internal/reference/resize_bilinear.h, so
that no rounding of the GPU moves a neighbour.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import rounding
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.lowering import WORKGROUP, Constant, Lowering
from tflgpu_plugin.ops.table import MOVED, Op
from tflgpu_plugin.ops.window import quads_per_thread


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """4 dimensions; a constant size; not align_corners and half_pixel_centers at once."""
    shape, size = graph.shape(node.operand()), graph.constant(node.inputs[1])
    if len(shape) != 4:
        return f"Resizing needs an input of rank 4, this one has rank {len(shape)}."
    if prod(shape) == 0:
        return f"An input of {list(shape)} has no elements."
    if size is None:
        return "The size to resize to must be constant."
    if size.size != 2 or size.min() < 1:
        return "The size to resize to must be two positive numbers, height and width."
    if node.attributes["align_corners"] and node.attributes["half_pixel_centers"]:
        return "align_corners and half_pixel_centers exclude each other."
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Output [B, size[0], size[1], C]."""
    shape, (height, width) = graph.shape(node.operand()), _size(graph, node)
    return [(shape[0], height, width, shape[3])]


def lower(low: Lowering, node: Node) -> None:
    """One launch with a table of places."""
    source, size = node.operand(), node.operand(1)
    _, height, width, _ = low.graph.shape(source)
    align, half = (
        bool(node.attributes["align_corners"]),
        bool(node.attributes["half_pixel_centers"]),
    )
    out_height, out_width = _size(low.graph, node)

    def table(_: Array) -> Array:
        axes = ((height, out_height), (width, out_width))
        find = places_int8 if stored else places
        return np.concatenate([find(extent, out, align, half) for extent, out in axes])

    given, result = (low.graph.tensors[t] for t in (source, node.outputs[0]))
    stored = given.dtype == "i8"
    key = ("bilinear", height, width, align, half, stored)
    whole = given if quantization.quantized(given) and quantization.alike(given, result) else None
    between(low, node, low.constant(size, *key, vectors=out_height + out_width, pack=table), whole)


def between(low: Lowering, node: Node, table: Constant, stored: Tensor | None = None) -> None:
    """The launch that takes each place from the four around it. `table` holds for each output row,
    then for each column, (lower input index, upper, fraction between them, 0). `stored` is an 8-bit
    tensor over whose stored numbers hosts interpolate."""
    scale, zero = (1.0, 0.0) if stored is None else quantization.parameters(stored)
    source = node.operand()
    _, height, width, _ = low.graph.shape(source)
    _, out_height, out_width, _ = low.graph.shape(node.outputs[0])
    out = low.geometry(node.outputs[0])
    chunk = quads_per_thread(low.target, out)
    low.dispatch(
        "resize",
        node,
        {"x": source, "places": table},
        {"out": node.outputs[0]},
        (-(-out.spatial // WORKGROUP), -(-out.quads // chunk), out.batch),
        {
            "batch": out.batch,
            "quads": out.quads,
            "chunk": chunk,
            "spatial": out.spatial,
            "height": height,
            "width": width,
            "out_height": out_height,
            "out_width": out_width,
            **({"scale": scale, "zero": zero} if stored else {}),
        },
        {"whole": stored.dtype if stored else ""},
    )


def places(extent: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """float32 [out, 4]: lower and upper input index, fraction between them, 0, for each output
    index of one axis."""
    one, half = np.float32(1), np.float32(0.5)
    scale = np.float32(extent) / np.float32(out)
    if align_corners and out > 1:
        scale = np.float32(extent - 1) / np.float32(out - 1)
    index = np.arange(out, dtype=np.float32)
    at = (index + half) * scale - half if half_pixel_centers else index * scale
    lower = np.maximum(np.floor(at), np.float32(0))
    upper = np.minimum(np.ceil(at), np.float32(extent) - one)
    # The host's lower index is not cut at the far end: rounding may put it one past the last place.
    lower = np.minimum(lower, np.float32(extent) - one)
    table: Array = np.stack([lower, upper, at - lower, np.zeros_like(at)], axis=1)
    return table


def places_int8(extent: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """The same for int8 tensors, where the host has ten bits behind the point
    (`ComputeInterpolationValuesInteger`): far from the origin its places drift.
    """
    one = 1 << 10
    scale = (one * extent + out // 2) // out
    if align_corners and out > 1:
        scale = (one * (extent - 1) + (out - 1) // 2) // (out - 1)
    at = np.arange(out, dtype=np.int64) * scale
    if half_pixel_centers:
        at += scale // 2 - one // 2
    # Divided towards zero, as in C; the host does not cut the lower index at the far end.
    lower = np.minimum(np.maximum(np.trunc(at / one), 0), extent - 1)
    upper = np.minimum(np.trunc((at + one - 1) / one), extent - 1)
    table = np.stack([lower, upper, at / one - lower, np.zeros(out)], axis=1)
    return np.asarray(table, np.float32)


def _size(graph: Graph, node: Node) -> tuple[int, int]:
    size = graph.constant(node.inputs[1])
    assert size is not None
    return int(size.reshape(-1)[0]), int(size.reshape(-1)[1])


def _work(graph: Graph, node: Node) -> int:
    return 4 * prod(shapes(graph, node)[0])


def decompose_nearest(steps: Decomposition, node: Node) -> bool:
    """Rows and columns are picked. Places as `GetNearestNeighbor` of tensorflow/lite/kernels/
    internal/reference/resize_nearest_neighbor.h finds them, in float32.
    """
    source, size = node.operand(), steps.data(node.inputs[1])
    assert size is not None
    align = bool(node.attributes["align_corners"])
    half = bool(node.attributes["half_pixel_centers"])
    picked = [
        steps.indices(nearest(steps.shape(source)[axis], int(out), align, half))
        for axis, out in enumerate(size.reshape(-1), start=1)
    ]
    steps.last("take", source, *picked, axes=(1, 2))
    return True


def nearest(extent: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """The input index that each output index of one axis takes."""
    scale = np.float32(extent) / np.float32(out)
    if align_corners and out > 1:
        scale = np.float32(extent - 1) / np.float32(out - 1)
    offset = np.float32(0.5 if half_pixel_centers else 0.0)
    at = (np.arange(out, dtype=np.float32) + offset) * scale
    found = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
    picked: Array = np.clip(found, 0, extent - 1).astype(np.int32)
    return picked


OPS = (
    # Hosts interpolate uint8 in float32, so that halves fall as sums happen to be rounded.
    Op("resize_bilinear", refuse, shapes, lower, "accumulate", work=_work, kind="window",
       fuses=True, in_8_bits="step", accumulates=False, errors=MOVED, same_quantization=True,
       rounding=rounding.INTERPOLATION),
    Op("resize_nearest", refuse, shapes, lower_decomposed, "exact", kind="movement", keeps="first",
       decompose=decompose_nearest, errors=MOVED),
)  # fmt: skip
