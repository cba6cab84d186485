"""Samples images at the positions of a grid, in numpy."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import Array

A = -0.75  # of Keys' kernel


def _weights(method: str, distance: Array) -> Array:
    """Returns the weights of pixels at these distances from the position."""
    d = np.abs(distance)
    if method == "linear":
        return np.maximum(1 - d, 0)
    near = (A + 2) * d**3 - (A + 3) * d**2 + 1
    far = A * d**3 - 5 * A * d**2 + 8 * A * d - 4 * A
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _inside(index: Array, extent: int, outside: str, aligned: bool) -> tuple[Array, Array]:
    """Returns the pixels that stand for these, and whether they count."""
    if outside == "reflection":  # periodic, there and back
        period = 2 * (extent - 1) if aligned else 2 * extent
        turned = index % period if period else index * 0
        index = np.minimum(turned, period - turned if aligned else period - 1 - turned)
    counts = (index >= 0) & (index < extent) | (outside == "border")
    return np.clip(index, 0, extent - 1), counts


def grid_sample(
    x: Array, grid: Array, method: str, outside: str, align_corners: bool = False,
    places: str = "edges",
) -> Array:  # fmt: skip
    """Samples at the positions of a grid; the coordinates of a position begin with the last
    axis."""
    out = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for n, *place in np.ndindex(*grid.shape[:-1]):
        taps = []
        for extent, at in zip(x.shape[1:-1], grid[(n, *place)][::-1], strict=True):
            wanted = (at + 1) / 2 * (extent - 1) if align_corners else ((at + 1) * extent - 1) / 2
            wanted = at if places == "pixels" else wanted
            if method == "nearest":  # halfway stays halfway, whatever a place was rounded to
                index, weight = np.array([np.rint(np.round(wanted, 4))]), np.ones(1)
            else:
                index = np.floor(wanted) + np.arange(-1, 3)
                weight = _weights(method, wanted - index)
            pixels, counts = _inside(index.astype(int), extent, outside, align_corners)
            taps.append((pixels, weight * counts))
        part = x[n][np.ix_(*(pixels for pixels, _ in taps))]
        for _, weight in taps:
            part = np.tensordot(weight, part, (0, 0))
        out[(n, *place)] = part
    return out


def _sample(image: Array, at: tuple[float, float]) -> list[Array]:
    """Returns the weighted sum of four pixels [C] around a position; pixels more than 1 outside of
    the image are 0."""
    if any(not -1 <= v <= n for v, n in zip(at, image.shape, strict=False)):
        return [np.zeros(image.shape[2])] * 4
    near = [min(max(v, 0), n - 1) for v, n in zip(at, image.shape, strict=False)]
    (top, down), (left, right) = (
        (int(v), min(int(v) + 1, n - 1)) for v, n in zip(near, image.shape, strict=False)
    )
    t, u = near[0] - top, near[1] - left
    corners = ((top, left, (1 - t) * (1 - u)), (top, right, (1 - t) * u),
               (down, left, t * (1 - u)), (down, right, t * u))  # fmt: skip
    return [image[row, column] * share for row, column, share in corners]


def roi_align(
    x: Array, rois: Array, batches: Array, size: tuple[int, int], scale: float = 1.0,
    samples: int = 0, centred: bool = False, mode: str = "avg",
) -> Array:  # fmt: skip
    """Samples regions (left, top, right, bottom) like ONNX's RoiAlign."""
    out = np.zeros((len(rois), *size, x.shape[3]))
    for r, region in enumerate(rois * scale - 0.5 * centred):
        start, spans = region[1::-1], region[:1:-1] - region[1::-1]
        bins = (spans if centred else np.maximum(spans, 1)) / size
        counts = [samples or int(np.ceil(np.round(step, 4))) for step in bins]
        for at in np.ndindex(size):
            corners = [
                _sample(x[round(batches[r])], start + bins * (at + (np.array(k) + 0.5) / counts))
                for k in np.ndindex(*np.maximum(counts, 0))
            ]
            if corners:
                all_of: Array = np.array(corners)
                out[(r, *at)] = all_of.max((0, 1)) if mode == "max" else all_of.sum(1).mean(0)
    return out


def roi_max_pool(x: Array, rois: Array, size: tuple[int, int], scale: float = 1.0) -> Array:
    """Pools regions (image, left, top, right, bottom), whose edges are whole pixels and
    inclusive."""
    out = np.zeros((len(rois), *size, x.shape[3]))
    for r, region in enumerate(rois):
        edges = np.copysign(np.floor(np.abs(region[1:] * scale) + 0.5), region[1:]).astype(int)
        low, spans = edges[1::-1], np.maximum(edges[:1:-1] - edges[1::-1] + 1, 1)
        for at in np.ndindex(size):
            first = low + np.array(at) * spans // size
            last = low - (-(np.array(at) + 1) * spans // size)
            rows, columns = (slice(max(a, 0), max(b, 0)) for a, b in zip(first, last, strict=True))
            part = x[int(region[0]), rows, columns]
            out[(r, *at)] = part.max((0, 1)) if part.size else 0
    return out
