"""Builders for operators on regions of images: Col2Im, RoiAlign and MaxRoiPool, as documented for
Col2Im-18, RoiAlign-22 and MaxRoiPool-22."""

from __future__ import annotations

from math import gcd, prod

import numpy as np

from tflgpu_plugin.ir import Array, asks, needs
from tflgpu_plugin.providers import Builder

from .windows import Window, window_over

LARGEST = 1 << 22  # limit of elements of the index table


# ---- Col2Im --------------------------------------------------------------------------------------


def _columns(e: Builder) -> Window:
    """Returns the sliding window of a Col2Im: its n-th position is the image block that column n
    of the input holds."""
    image, block = (tuple(int(n) for n in e.value(k).reshape(-1)) for k in (1, 2))
    return window_over(e, image, block)


def col2im(e: Builder) -> int:
    """Builds Col2Im: gathers the elements of each pixel by constant indices, and sums them."""
    batch, rows, places = e.shape()
    columns = _columns(e)
    taps = prod(columns.kernel)
    planes, table = batch * rows // taps, _sources(columns)
    flat = e.reshape(e.x(), (planes, taps * places))
    padded = e.add(
        "pad", flat, e.index([(0, 0), (0, 1)]), mode="constant"
    )  # a zero after the last element
    picked = e.add("gather", padded, e.index(table.reshape(-1)), axis=1)
    parts = e.reshape(picked, (planes, *table.shape))
    total = e.add("reduce_sum", parts, e.index([1]), keep_dims=False)
    return e.reshape(total, (batch, rows // taps, *columns.spatial))


def _sources(columns: Window) -> Array:
    """Returns indices [most, pixels] into the flattened [tap, position] of the elements to sum for
    each pixel; unused entries are one past the last index, where there is a 0."""
    pixel, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    axes = zip(*columns, columns.places, strict=True)
    for extent, taps, step, apart, (before, _), places in axes:
        at = np.arange(taps)[:, None] * apart + np.arange(places) * step - before
        shape = len(pixel) * taps, pixel.shape[1] * places
        there = ((at >= 0) & (at < extent))[:, None]
        inside = (inside[:, None, :, None] & there).reshape(shape)
        pixel = (pixel[:, None, :, None] * extent + at[:, None]).reshape(shape)
    elements = np.flatnonzero(inside)
    pixels = pixel.reshape(-1)[elements]
    counts = np.bincount(pixels, minlength=prod(columns.spatial))
    order = np.argsort(pixels, kind="stable")
    nth = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((max(counts.max(), 1), len(counts)), pixel.size)
    table[nth, pixels[order]] = elements[order]
    return table


@asks("shape.unsupported")
def _put_together(e: Builder) -> bool:
    """Requires columns [batch, channels * block size, positions] of blocks inside the padded image,
    with at most 4,194,304 elements per channel."""
    image, block = e.value(1).reshape(-1), e.value(2).reshape(-1)
    listed = [e.integers(name) for name in ("strides", "dilations")]
    pads = e.integers("pads")
    if e.rank() != 3 or len(image) != len(block) or min(*image, *block, 1) < 1 or not len(image):
        return False
    if any(given and (len(given) != len(image) or min(given) < 1) for given in listed):
        return False
    if pads and (len(pads) != 2 * len(image) or min(pads) < 0):
        return False
    columns = _columns(e)
    steps = zip(columns.kernel, columns.strides, columns.dilations, strict=True)
    most = prod(-(-taps * gcd(step, apart) // step) for taps, step, apart in steps)
    fits = min(left for left, _ in columns.slack) >= 0 and prod(columns.places) == e.shape()[2]
    sizes = prod(columns.spatial) * most, prod(columns.kernel) * e.shape()[2]
    whole = fits and e.shape()[1] > 0 == e.shape()[1] % prod(columns.kernel)
    return whole and e.shape()[0] > 0 and max(sizes) <= LARGEST


COLUMNS = (
    _put_together,
    needs(
        "host.ambiguous",
        "No dilations of images with other than two spatial axes.",
        lambda e: len(e.value(1).reshape(-1)) == 2 or max(e.integers("dilations") or (1,)) == 1,
        "onnxruntime places dilated blocks differently from ONNX unless the image has two spatial "
        "axes.",
    ),
)

# ---- RoiAlign ------------------------------------------------------------------------------------


def roi_align(e: Builder) -> int:
    """Builds RoiAlign; before opset 16, coordinates have no half-pixel offset by default."""
    modes = "half_pixel" if e.version >= 16 else "output_half_pixel"
    numbers = e.exact(e.add("cast", e.x(2), dtype="f32"))
    return e.image(
        "roi_align", e.x(0), e.exact(e.x(1)), numbers, mode=e.text("mode", "avg"),
        size=(e.integer("output_height", 1), e.integer("output_width", 1)),
        scale=e.number("spatial_scale", 1.0), samples=max(e.integer("sampling_ratio"), 0),
        centred=e.text("coordinate_transformation_mode", modes) == "half_pixel",
        raises=True,
    )  # fmt: skip


def max_roi_pool(e: Builder) -> int:
    """Builds MaxRoiPool: the maximum over each bin of each region."""
    return e.image(
        "roi_max_pool", e.x(0), e.exact(e.x(1)), size=e.integers("pooled_shape"),
        scale=e.number("spatial_scale", 1.0), raises=True,
    )  # fmt: skip


REGIONS = needs("rank.unsupported", "An image of rank 4.", lambda e: e.rank() == 4)
BINS = needs(
    "rank.unsupported",
    "An image of rank 4, and a pooled_shape of two numbers.",
    lambda e: e.rank() == 4 and len(e.integers("pooled_shape") or ()) == 2,
)
