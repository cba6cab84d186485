"""The input indices and weights that a resized axis reads.

Between neighbours in an image the kernel computes them itself, as for the nearest pixel where
extents are symbolic. Otherwise they are tables, float32 [out, taps, 2]: an input index (-1:
outside) and a weight for each tap of each output index. Tables are computed on the CPU in float32,
in the hosts' order of operations, so that rounding on the GPU cannot select another neighbour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array


def ten_bits(
    extent: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[int, int]:
    """Returns (step, start) of the coordinates for int8 tensors, index * step + start, which the
    host computes with 10 fractional bits (`ComputeInterpolationValuesInteger`): they drift far from
    the origin."""
    one = 1 << 10
    step = (one * extent + out // 2) // out
    if align_corners and out > 1:
        step = (one * (extent - 1) + (out - 1) // 2) // (out - 1)
    return step, step // 2 - one // 2 if half_pixel_centers else 0


def _step(extent: int, out: int, align_corners: bool) -> np.float32:
    """Returns the distance in input elements between output elements."""
    if align_corners and out > 1:
        return np.float32(extent - 1) / np.float32(out - 1)
    return np.float32(extent) / np.float32(out)


def _pair(lower: Array, upper: Array, fraction: Array) -> Array:
    """Returns the table of linear interpolation between two taps."""
    weights = np.stack([1 - fraction, fraction], axis=1)
    table = np.stack([np.stack([lower, upper], axis=1), weights], axis=2)
    return np.asarray(table, np.float32)


def nearest(extent: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Returns the input index for each output index, as `GetNearestNeighbor` in
    tensorflow/lite/kernels/internal/reference/resize_nearest_neighbor.h."""
    scale = _step(extent, out, align_corners)
    offset = np.float32(0.5 if half_pixel_centers else 0.0)
    at = (np.arange(out, dtype=np.float32) + offset) * scale
    found = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
    return np.asarray(np.clip(found, 0, extent - 1), np.int32)


def resized(extent: int, out: int, axis: int, attributes: Mapping[str, Any]) -> Array:
    """Returns the table for the attributes of `resize`; `axis` counts axes between batch and
    channels."""
    mode = attributes.get("mode", "nearest")
    at = _coordinates(extent, out, axis, attributes)
    smooth = bool(attributes.get("antialias"))
    if mode == "nearest" or (extent == out and (smooth or (at == np.arange(out)).all())):
        index = _rounded(at, attributes.get("nearest", "round_prefer_floor"))
        taps = np.clip(index, 0, extent - 1)[:, None]
        table: Array = np.stack([taps, np.ones_like(taps)], axis=2).astype(np.float32)
    elif smooth:
        table = _smoothed(extent, at, axis, attributes)
    elif mode == "linear":
        cut = np.clip(at, np.float32(0), np.float32(extent - 1))
        lower = np.floor(cut)
        table = _pair(lower, np.minimum(lower + 1, extent - 1), cut - lower)
    else:
        table = _cubic(extent, at, attributes)
    if attributes.get("coordinates") == "tf_crop_and_resize":
        table[(at < 0) | (at > extent - 1), :, 0] = -1
    return table


def _coordinates(extent: int, out: int, axis: int, attributes: Mapping[str, Any]) -> Array:
    """Returns each output index's coordinate in the input as float32, in the order of operations of
    the reference implementation, which computes half_pixel_symmetric in float64 and leaves an axis
    with the scale 1 as it is."""
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
        return index if scale == one else (index + half) / scale
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
    """Returns the coordinates rounded; within 1e-6 of the middle they count as ties, as in newer
    versions of the reference implementation, since float32 turns many a 6.5 into 6.4999995."""
    exact, half = at.astype(np.float64), 0.5 + 1e-6
    rounded: dict[str, Array] = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(exact - half),
        "round_prefer_ceil": np.floor(exact + half),
    }
    return rounded[how]


def _cubic(extent: int, at: Array, attributes: Mapping[str, Any]) -> Array:
    """Returns four taps by Keys, "Cubic convolution interpolation for digital image processing",
    computed in float64: where the outer polynomial is small, its terms cancel."""
    a = float(attributes.get("cubic_a", -0.75))
    base = np.floor(at)
    s = at.astype(np.float64) - base
    weights = _keys(np.stack([s + 1, s, 1 - s, 2 - s], axis=1), a)
    taps = base[:, None] + np.arange(-1, 3, dtype=np.float32)
    if attributes.get("exclude_outside"):
        weights = np.where((taps < 0) | (taps > extent - 1), np.float32(0), weights)
        with np.errstate(invalid="ignore"):  # 0 / 0 if all taps are outside
            weights = weights / weights.sum(1, keepdims=True)
    return np.asarray(np.stack([np.clip(taps, 0, extent - 1), weights], axis=2), np.float32)


def _keys(d: Array, a: float) -> Array:
    """Returns the weights of Keys' kernel at distances of up to 2."""
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d < 1, ((a + 2) * d - (a + 3)) * d * d + 1, np.where(d < 2, far, 0.0))


def _smoothed(extent: int, at: Array, axis: int, attributes: Mapping[str, Any]) -> Array:
    """Returns the taps of a linear or cubic filter that is widened by the scale of a shrinking axis
    (antialiasing)."""
    scales, linear = attributes.get("scales"), attributes["mode"] == "linear"
    wide = max(extent / len(at) if scales is None else 1 / float(scales[axis]), 1.0)
    reach = wide if linear else 2 * wide
    taps = np.floor(at - reach)[:, None] + np.arange(1, int(np.ceil(2 * reach)) + 1)
    distance = abs(taps - at[:, None].astype(np.float64)) / wide
    a = float(attributes.get("cubic_a", -0.75))
    weights = np.maximum(1 - distance, 0) if linear else _keys(distance, a)
    if attributes.get("exclude_outside"):
        weights = np.where((taps < 0) | (taps > extent - 1), 0, weights)
    weights = weights / weights.sum(1, keepdims=True)
    return np.asarray(np.stack([np.clip(taps, 0, extent - 1), weights], axis=2), np.float32)
