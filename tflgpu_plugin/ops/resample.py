"""`resize(x [B, ..., C], size constant)` of one to three spatial axes, with attributes

* `mode`: nearest, linear, cubic
* `coordinates`: half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric,
  tf_half_pixel_for_nn, tf_crop_and_resize (default half_pixel)
* `nearest`: round_prefer_floor (default), round_prefer_ceil, floor, ceil
* `scales`: output over input extent of each axis (default: from the extents)
* `roi`: (start, end) of each axis, one after another, for tf_crop_and_resize; `extrapolation`
* `cubic_a` (default -0.75), `exclude_outside`

as the ONNX operator Resize has them. Each axis is a table of input places and weights, worked out
on the CPU in float32, so that no rounding of the GPU moves a neighbour.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir.graph import Array, Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import resize
from tflgpu_plugin.ops.lowering import WORKGROUP, Access, Lowering
from tflgpu_plugin.ops.table import MOVED, Op

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners"),
    *("asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"),
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
MAX_INDEX = 1 << 24  # exact in float32


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """3 to 5 dimensions, a constant size, known modes."""
    shape, size = graph.shape(node.operand()), graph.constant(node.inputs[1])
    if len(shape) not in (3, 4, 5):
        return f"Resizing needs an input of rank 3 to 5, this one has rank {len(shape)}."
    if prod(shape) == 0:
        return f"An input of {list(shape)} has no elements."
    if size is None:
        return "The size to resize to must be constant."
    if size.size != len(shape) - 2 or size.min() < 1:
        return f"The size to resize to must be {len(shape) - 2} positive numbers."
    for what, known, default in (
        ("mode", MODES, "nearest"),
        ("coordinates", COORDINATES, "half_pixel"),
        ("nearest", ROUNDINGS, "round_prefer_floor"),
    ):
        given = node.attributes.get(what, default)
        if given not in known:
            return f"Resizing with {what} {given} is not supported; use one of {', '.join(known)}."
    if max(shape) > MAX_INDEX:
        return f"Resizing takes extents up to {MAX_INDEX:,}."
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Output [B, size..., C]."""
    shape = graph.shape(node.operand())
    return [(shape[0], *_size(graph, node), shape[-1])]


def lower(low: Lowering, node: Node) -> None:
    """One launch with a table of places."""
    source, size = node.operand(), node.operand(1)
    out, shape = low.geometry(node.outputs[0]), low.graph.shape(source)
    extents, wanted = shape[1:-1], _size(low.graph, node)
    tables = [
        places(extent, places_out, k, node.attributes)
        for k, (extent, places_out) in enumerate(zip(extents, wanted, strict=True))
    ]
    if len(tables) == 2 and _between(node):
        pairs = np.concatenate([_pairs(table) for table in tables])
        key = ("pairs", pairs.tobytes())
        resize.between(
            low, node, low.constant(size, *key, vectors=len(pairs), pack=lambda _: pairs)
        )
        return
    one = np.array([[[0, 1]]], np.float32)
    depth, rows, columns = [one] * (3 - len(tables)) + tables
    whole = np.concatenate([t.reshape(-1, 2) for t in (depth, rows, columns)])
    padded = np.pad(whole, ((0, len(whole) % 2), (0, 0)))
    full = (1,) * (3 - len(extents)) + tuple(extents)
    table = low.constant(
        size, "resample", padded.tobytes(), vectors=len(padded) // 2, pack=lambda _: padded
    )
    low.dispatch(
        "resample",
        node,
        {"x": source, "places": Access(table, 2)},
        {"out": node.outputs[0]},
        (-(-out.vectors // WORKGROUP), 1, 1),
        {
            "vectors": out.vectors,
            "quads": out.quads,
            "spatial": out.spatial,
            "out_width": len(columns),
            "out_height": len(rows),
            "depth": full[0],
            "height": full[1],
            "width": full[2],
            "taps_d": depth.shape[1],
            "taps_h": rows.shape[1],
            "taps_w": columns.shape[1],
            "rows_at": depth.shape[0] * depth.shape[1],
            "columns_at": depth.shape[0] * depth.shape[1] + rows.shape[0] * rows.shape[1],
            "outside": float(node.attributes.get("extrapolation", 0.0)),
        },
    )


def _between(node: Node) -> bool:
    """Whether every output lies between neighbours inside the input."""
    coordinates = node.attributes.get("coordinates", "half_pixel")
    return node.attributes.get("mode") == "linear" and coordinates != "tf_crop_and_resize"


def _pairs(table: Array) -> Array:
    """float32 [out, 4] for `resize.between` from what `places` gives for one axis."""
    first, last = table[:, 0], table[:, -1]
    fraction = last[:, 1] if table.shape[1] == 2 else np.zeros_like(last[:, 1])
    return np.stack([first[:, 0], last[:, 0], fraction, np.zeros_like(fraction)], axis=1)


def places(extent: int, out: int, axis: int, attributes: Any) -> Array:
    """float32 [out, taps, 2]: input index (-1: outside) and weight of each tap."""
    mode = attributes.get("mode", "nearest")
    at = _coordinates(extent, out, axis, attributes)
    if mode == "nearest" or (extent == out and _identity(at)):
        index = _rounded(at, attributes.get("nearest", "round_prefer_floor"))
        taps, weights = np.clip(index, 0, extent - 1)[:, None], np.ones((out, 1), np.float32)
    elif mode == "linear":
        cut = np.clip(at, np.float32(0), np.float32(extent - 1))
        lower = np.floor(cut)
        upper = np.minimum(lower + 1, extent - 1)
        taps = np.stack([lower, upper], axis=1)
        weights = np.stack([1 - (cut - lower), cut - lower], axis=1)
    else:
        taps, weights = _cubic(extent, at, attributes)
    table: Array = np.stack([taps, weights], axis=2).astype(np.float32)
    if attributes.get("coordinates") == "tf_crop_and_resize":
        table[(at < 0) | (at > extent - 1), :, 0] = -1
    return table


def _identity(at: Array) -> bool:
    return bool((at == np.arange(len(at))).all())


def _coordinates(extent: int, out: int, axis: int, attributes: Any) -> Array:
    """Where each output index lies in the input, float32, in the order of operations of the
    reference implementation, which computes half_pixel_symmetric in float64."""
    half, one = np.float32(0.5), np.float32(1)
    scales = attributes.get("scales")
    scale = np.float32(out) / np.float32(extent) if scales is None else np.float32(scales[axis])
    index = np.arange(out, dtype=np.float32)
    kind = attributes.get("coordinates", "half_pixel")
    pixel = (index + half) / scale - half
    if kind == "align_corners":
        return index * np.float32(extent - 1) / np.float32(max(out - 1, 1))
    if kind == "asymmetric":
        return index / scale
    if kind == "tf_half_pixel_for_nn":
        return (index + half) / scale
    if kind == "pytorch_half_pixel":
        return pixel if out > 1 else np.zeros_like(index)
    if kind == "half_pixel_symmetric":
        adjustment = np.float32(out) / (scale * np.float32(extent))
        offset = np.float32(extent) / np.float32(2) * (one - adjustment)
        wide = np.float64(offset) + (index + 0.5).astype(np.float64) / np.float64(scale) - 0.5
        return wide.astype(np.float32)
    if kind == "tf_crop_and_resize":
        start, end = (np.float32(v) for v in attributes["roi"][2 * axis : 2 * axis + 2])
        reach = np.float32(extent - 1)
        if out > 1:
            return start * reach + index * (end - start) * reach / np.float32(out - 1)
        return half * (start + end) * reach + np.zeros_like(index)
    return pixel


def _rounded(at: Array, how: str) -> Array:
    """Places within 1e-6 of the middle count as ties, as in newer versions of the reference
    implementation: float32 leaves 6.4999995 of many a 6.5."""
    exact, half = at.astype(np.float64), 0.5 + 1e-6
    rounded: dict[str, Array] = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(exact - half),
        "round_prefer_ceil": np.floor(exact + half),
    }
    return rounded[how]


def _cubic(extent: int, at: Array, attributes: Any) -> tuple[Array, Array]:
    """Four taps after Keys, "Cubic convolution interpolation for digital image processing".

    In float64: where the outer polynomial is small, its terms are a hundred times as large.
    """
    a = float(attributes.get("cubic_a", -0.75))
    base = np.floor(at)
    s = at.astype(np.float64) - base
    t = [s + 1, s, 1 - s, 2 - s]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t[0], t[3])]
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t[1], t[2])]
    weights = np.stack([far[0], near[0], near[1], far[1]], axis=1)
    taps = base[:, None] + np.arange(-1, 3, dtype=np.float32)
    if attributes.get("exclude_outside"):
        weights = np.where((taps < 0) | (taps > extent - 1), np.float32(0), weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(taps, 0, extent - 1), weights


def _size(graph: Graph, node: Node) -> tuple[int, ...]:
    size = graph.constant(node.inputs[1])
    assert size is not None
    return tuple(int(extent) for extent in size.reshape(-1))


def _work(graph: Graph, node: Node) -> int:
    taps = {"nearest": 1, "linear": 4, "cubic": 16}[node.attributes.get("mode", "nearest")]
    return taps * prod(shapes(graph, node)[0])


OPS = (
    Op("resize", refuse, shapes, lower, "accumulate", work=_work, kind="window", fuses=True,
       accumulates=False, errors=MOVED),
)  # fmt: skip
