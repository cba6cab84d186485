"""Images at the places of a grid."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir.graph import Array

A = -0.75  # of Keys' kernel


def _weights(method: str, distance: Array) -> Array:
    """How much pixels at these distances of the place count."""
    d = np.abs(distance)
    if method == "linear":
        return np.maximum(1 - d, 0)
    near = (A + 2) * d**3 - (A + 3) * d**2 + 1
    far = A * d**3 - 5 * A * d**2 + 8 * A * d - 4 * A
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _inside(index: Array, extent: int, outside: str, aligned: bool) -> tuple[Array, Array]:
    """Pixels that stand for these, and whether they count."""
    if outside == "reflection":  # periodic, there and back
        period = 2 * (extent - 1) if aligned else 2 * extent
        turned = index % period if period else index * 0
        index = np.minimum(turned, period - turned if aligned else period - 1 - turned)
    counts = (index >= 0) & (index < extent) | (outside == "border")
    return np.clip(index, 0, extent - 1), counts


def grid_sample(
    x: Array, grid: Array, method: str, outside: str, align_corners: bool = False
) -> Array:
    out = np.zeros((*grid.shape[:3], x.shape[3]))
    for n, *place in np.ndindex(*grid.shape[:3]):
        taps = []
        for extent, at in zip(x.shape[1:3], grid[(n, *place)][::-1], strict=True):
            wanted = (at + 1) / 2 * (extent - 1) if align_corners else ((at + 1) * extent - 1) / 2
            if method == "nearest":  # halfway stays halfway, whatever a place was rounded to
                index, weight = np.array([np.rint(np.round(wanted, 4))]), np.ones(1)
            else:
                index = np.floor(wanted) + np.arange(-1, 3)
                weight = _weights(method, wanted - index)
            pixels, counts = _inside(index.astype(int), extent, outside, align_corners)
            taps.append((pixels, weight * counts))
        (rows, heights), (columns, widths) = taps
        part = x[n][np.ix_(rows, columns)]
        out[(n, *place)] = np.einsum("i,j,ijc->c", heights, widths, part)
    return out
