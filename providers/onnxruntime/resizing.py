"""Builders for Resize and Upsample, as documented for Resize-19 and Upsample-9, and for GridSample
and AffineGrid."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin.ir import (
    Array,
    ImpossibleShapeRefusal,
    always_equal,
    asks,
    integer,
    is_symbolic,
    needs,
)
from tflgpu_plugin.providers import COUNTED, Builder

WHOLE = (0.0, 1.0)  # the region that covers an axis completely
CROPPED = "tf_crop_and_resize"
TRIED = 1 << 16  # extents up to which a fraction is compared with a scale
MAX_PLACES = 1 << 20  # limit of positions in a grid, which is a constant
SAMPLED = needs(
    "rank.unsupported",
    "An image of rank 4, or of rank 5 unless the mode is cubic.",
    lambda e: e.rank() == 4 or (e.rank() == 5 and "cubic" not in e.text("mode", "linear")),
)


def resize(e: Builder) -> int:
    """Builds Resize or Upsample. From opset 11 on, there are sizes or scales and all coordinate
    modes; a region is read only with tf_crop_and_resize. Earlier versions have scales alone, and
    the nearest pixel is found by rounding down, or up where an axis shrinks (onnxruntime's
    upsamplebase.h, ResizeNearestMode::SIMPLE)."""
    e.scaled = not _sizes(e)
    x, made, changed, rank = e.x(), _change(e), _changed(e), e.rank()
    if not changed:
        return e.reshape(x, made.sizes)
    last = rank > 2 and min(changed) > 1  # of [batch, channels, spatial...]
    if rank == 2:
        x, spatial = e.reshape(x, (1, *e.shape(), 1)), [0, 1]
    else:  # the axes of the op are [batch, spatial..., channels]
        x, spatial = (e.channels_last(x) if last else x), [k + last for k in range(1, rank - 1)]
    attributes, scales = _how(e), tuple(made.scales[axis] for axis in spatial)
    if None not in scales:
        attributes["scales"] = scales
    if _region(e) is not None:
        attributes["roi"] = tuple(bound for axis in spatial for bound in made.regions[axis])
    y = e.add("resize", x, e.index([made.sizes[axis] for axis in spatial]), **attributes)
    if rank == 2:
        return e.reshape(y, made.sizes)
    return e.channels_first(y) if last else y


def _how(e: Builder) -> dict[str, Any]:
    mode, nearest = _mode(e), e.text("nearest_mode", "round_prefer_floor")
    if e.version < 11:
        mode = mode if mode in ("cubic", "nearest") else "linear"
        nearest = "ceil" if min(_scales(e)) < 1 else "floor"
    return dict(
        mode=mode, coordinates=_coordinates(e), nearest=nearest,
        cubic_a=e.number("cubic_coeff_a", -0.75),
        exclude_outside=e.attribute("exclude_outside", False),
        antialias=e.attribute("antialias", False),
        extrapolation=e.number("extrapolation_value", 0.0),
    )  # fmt: skip


def _mode(e: Builder) -> str:
    return e.text("mode", "nearest")


def grid_sample(e: Builder) -> int:
    """Builds GridSample of an image or a volume."""
    method = e.text("mode", "linear").removeprefix("bi")
    outside, aligned = e.text("padding_mode", "zeros"), bool(e.integer("align_corners"))
    return e.image("grid_sample", e.x(), e.exact(e.x(1)), method=method, outside=outside,
                   align_corners=aligned)  # fmt: skip


def affine_grid(e: Builder) -> int:
    """Builds AffineGrid: positions (x, y, z) of pixels, transformed by one matrix per image."""
    batch, _, *extents = (integer(n) for n in e.value(1).reshape(-1))
    aligned = bool(e.integer("align_corners"))
    lines = [np.linspace(-1, 1, n) if aligned else (2 * np.arange(n) + 1) / n - 1 for n in extents]
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(extents)], -1)
    flat = e.const(places.reshape(1, -1, len(extents) + 1))
    theta = e.transpose(e.exact(e.x(0)), (0, 2, 1))
    made = e.exact(e.add("matmul", flat, e.exact(theta)))
    return e.reshape(made, (batch, *extents, len(extents)))


@asks("shape.unsupported")
def _turned(e: Builder) -> bool:
    """Requires a size of 4 or 5 extents, none of them 0; at most 1,048,576 positions per image; and
    theta of shape [N, 2, 3] for images, or [N, 3, 4] for volumes."""
    size = [integer(n) for n in e.value(1).reshape(-1)]
    fits = len(size) in (4, 5) and e.shape() == (size[0], len(size) - 2, len(size) - 1)
    return fits and min(size) > 0 and prod(size[2:]) <= MAX_PLACES


TURNED = (
    _turned,
    needs(
        "host.ambiguous",
        "No align_corners with an extent of 1.",
        lambda e: not e.integer("align_corners") or min(e.value(1).reshape(-1)[2:]) > 1,
        "Implementations disagree about the corners of an extent of 1.",
    ),
)


def _coordinates(e: Builder) -> str:
    usual = "asymmetric" if e.version < 11 else "half_pixel"
    return e.text("coordinate_transformation_mode", usual)


def _axes(e: Builder) -> list[int]:
    """Returns the axes that scales, sizes and region refer to."""
    named = e.integers("axes")
    return [e.axis(axis, e.rank()) for axis in named or range(e.rank())]


def _scales(e: Builder) -> list[float]:
    given = e.optional(2 if e.version >= 11 else 1)
    held = e.host.attributes.get("scales", ()) if given is None else given.reshape(-1)
    return [float(scale) for scale in held]


def _sizes(e: Builder) -> Sequence[int]:
    return e.listed("sizes", 3) or ()


def _region(e: Builder) -> Array | None:
    """Returns the region (roi) if the coordinate mode reads it, else None."""
    return e.optional(1) if _coordinates(e) == CROPPED else None


class Change(NamedTuple):
    """The resize of all axes: `scales` (None: the ratio of the extents), `sizes` (extents of the
    result), and `regions`, (start, end) as fractions of the input's extent."""

    scales: list[float | None]
    sizes: list[int]
    regions: list[tuple[float, float]]


def _change(e: Builder) -> Change:
    """Returns how each axis of the input is resized."""
    shape, axes, sizes = e.shape(), _axes(e), _sizes(e)
    scales: Sequence[float | None] = _scales(e)
    if sizes:
        scales = [1.0 if _stays(e, axis, n) else None for axis, n in zip(axes, sizes, strict=True)]
        policy = e.text("keep_aspect_ratio_policy", "stretch")
        if kept := {"not_larger": min, "not_smaller": max}.get(policy):
            extents = [np.float32(shape[axis]) for axis in axes]
            ratios = [np.float32(n) / extent for extent, n in zip(extents, sizes, strict=True)]
            scale = kept(ratios)
            scales = [float(scale)] * len(axes)
            sizes = [int(np.floor(float(scale * extent) + 0.5)) for extent in extents]
    else:
        sizes = [
            scaled_size(shape[axis], scale) for axis, scale in zip(axes, _scales(e), strict=True)
        ]
    made = Change([1.0] * len(shape), list(shape), [WHOLE] * len(shape))
    region = _region(e)
    for k, axis in enumerate(axes):
        made.scales[axis], made.sizes[axis] = scales[k], sizes[k]
        if region is not None:
            made.regions[axis] = float(region.flat[k]), float(region.flat[k + len(axes)])
    return made


def _stays(e: Builder, axis: int, size: int) -> bool:
    """Whether an axis keeps its extent. Where it may, but need not, it counts as resized if that
    makes no difference: elements stay as they are."""
    extent, differs = e.shape()[axis], axis < 2 < e.rank() or _coordinates(e) == CROPPED
    return size == extent if differs else always_equal(size, extent)


def scaled_size(extent: int, scale: float) -> int:
    """Returns the extent times the scale, in float32, as the host's kernel computes it."""
    if not is_symbolic((extent,)):
        return int(np.float32(extent) * np.float32(scale))
    by, most = as_fraction(scale)
    if extent <= most:
        return extent * by.numerator // by.denominator
    return int(np.float32(integer(extent)) * np.float32(scale))


@lru_cache(64)
def as_fraction(scale: float) -> tuple[Fraction, int]:
    """Returns a fraction, and up to which extent its multiples, rounded down, are those of a scale
    in float32. For 0.7 that is 7 / 10: float32 has a smaller number, but 10 times it rounds to
    7."""
    extents, exact = np.arange(TRIED), Fraction(float(np.float32(scale)))
    wanted = (extents.astype(np.float32) * np.float32(scale)).astype(np.int64)

    def fitting(by: Fraction) -> int:
        differ = extents * by.numerator // by.denominator != wanted
        return int(differ.argmax()) - 1 if differ.any() else TRIED - 1

    found = [*(exact.limit_denominator(most) for most in (16, 256, 4096)), exact]
    best = max(found, key=fitting)
    return best, fitting(best)


def _changed(e: Builder) -> set[int]:
    """Returns the axes that are resized; none if all keep their extents: onnxruntime then copies
    the input, whatever the scales are."""
    shape, made = e.shape(), _change(e)
    axes = enumerate(zip(shape, *made, strict=True))
    pairs = zip(made.scales, made.sizes, shape, strict=True)
    stays = all(scale is not None and n == extent for scale, n, extent in pairs)
    return set() if stays else {k for k, (n, *rest) in axes if rest != [1.0, n, WHOLE]}


# ---- conditions ----------------------------------------------------------------------------------


@asks("attribute.invalid")
def _cropped(e: Builder) -> bool:
    """Requires a region (roi) for every axis with tf_crop_and_resize."""
    given = _region(e)
    return _coordinates(e) != CROPPED or (given is not None and given.size == 2 * len(_axes(e)))


@asks("host.ambiguous", "Implementations disagree about a region of an axis that is not resized.")
def _seen_whole(e: Builder) -> bool:
    """Requires no region of an axis that is not resized."""
    # Some of onnxruntime's kernels ignore the region of an axis that keeps its extent; the standard
    # applies it.
    made, same = _change(e), not _changed(e)
    pairs = zip(made.scales, made.regions, strict=True)
    return not any((same or scale == 1) and seen != WHOLE for scale, seen in pairs)


@asks("attribute.unsupported")
def _between(e: Builder) -> bool:
    """Requires a batch and channels (first or last) that are not resized."""
    rank, changed = e.rank(), _changed(e)
    return rank == 2 or changed <= {*range(1, rank - 1)} or changed <= {*range(2, rank)}


UPSAMPLE = (
    needs(
        "input.missing",
        "A size or a positive scale for each axis.",
        lambda e: len(_sizes(e) or _scales(e)) == len(_axes(e)) and min(_scales(e), default=1) > 0,
    ),
    needs(
        "attribute.unsupported",
        "Axes that all grow or all shrink, before opset 11 with the mode nearest.",
        lambda e: (
            e.version >= 11 or _mode(e) != "nearest" or not min(_scales(e)) < 1 < max(_scales(e))
        ),
    ),
    _cropped,
    needs(
        "shape.empty",
        "No sizes of an empty input.",
        lambda e: not _sizes(e) or 0 not in [e.shape()[axis] for axis in _axes(e)],
    ),
    needs(
        "constant.invalid",
        "Sizes of at least 1.",
        lambda e: all(n > 0 for n in _sizes(e)),
        kind=ImpossibleShapeRefusal,
    ),
    _seen_whole,
    needs(
        "attribute.unsupported",
        "Only height and width that change, with the mode cubic.",
        lambda e: _mode(e) != "cubic" or e.rank() == 2 or _changed(e) <= {2, 3},
    ),
    _between,
)


@asks("attribute.unsupported")
def _smooth(e: Builder) -> bool:
    """Requires no antialiasing except of height and width that shrink, linear or cubic, without a
    region."""
    if not e.integer("antialias"):
        return True
    # Where an axis grows, onnxruntime treats its edges differently.
    made = _change(e)
    sides = zip(made.scales, made.sizes, e.shape(), strict=True)
    shrinks = all(n <= extent if scale is None else scale <= 1 for scale, n, extent in sides)
    images = e.rank() == 4 and _changed(e) <= {2, 3}
    return images and shrinks and _mode(e) != "nearest" and _coordinates(e) != CROPPED


RESIZE = (
    _smooth,
    needs(
        "attribute.unsupported",
        "The mode nearest for the coordinates tf_half_pixel_for_nn.",
        lambda e: _coordinates(e) != "tf_half_pixel_for_nn" or _mode(e) == "nearest",
    ),
    needs(
        "host.ambiguous",
        "No negative axes with an aspect ratio.",
        lambda e: (
            e.text("keep_aspect_ratio_policy", "stretch") == "stretch"
            or not e.has(3)
            or min(e.integers("axes") or (0,)) >= 0
        ),
        "Implementations disagree about negative axes with an aspect ratio.",
    ),
    needs(
        "attribute.unsupported",
        "The mode nearest for inputs of 8 and 16 bits.",
        lambda e: e.dtype() not in COUNTED or _mode(e) == "nearest",
    ),
    *UPSAMPLE,
)
