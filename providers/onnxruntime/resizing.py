"""Rows for Resize and Upsample (operator documentation of Resize-19 and Upsample-9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tflgpu_plugin.errors import Unsupported

from .expansion import Expansion


def either(e: Expansion) -> int:
    """Resize of any opset."""
    return resize(e) if e.version >= 11 else upsample(e)


def resize(e: Expansion) -> int:
    """From opset 11 on: sizes or scales, every coordinate mode; a region only where the mode has
    one."""
    x = e.x()
    rank = e.rank(x)
    axes = [e.axis(axis, rank) for axis in e.integers("axes") or range(rank)]
    scales, sizes = _extents(e, axes)
    mode = e.text("coordinate_transformation_mode", "half_pixel")
    return _resize(
        e, scales, sizes,
        roi=_region(e, axes) if mode == "tf_crop_and_resize" else None,
        mode=e.text("mode", "nearest"), coordinates=mode,
        nearest=e.text("nearest_mode", "round_prefer_floor"),
        cubic_a=e.number("cubic_coeff_a", -0.75),
        exclude_outside=bool(e.integer("exclude_outside")),
        extrapolation=e.number("extrapolation_value", 0.0),
    )  # fmt: skip


def upsample(e: Expansion) -> int:
    """Upsample, and Resize of opset 10: scales alone; the nearest place is that below, and above
    where the extent shrinks (onnxruntime's upsamplebase.h, ResizeNearestMode::SIMPLE)."""
    shape = e.shape(e.x())
    attribute = e.host.attributes.get("scales")
    given = e.value(1).reshape(-1) if attribute is None else attribute
    scales = [float(scale) for scale in given]
    e.scaled = True
    if len(scales) != len(shape) or min(scales, default=0) <= 0:
        raise Unsupported(f"{e.host.title} needs a positive scale for each of {len(shape)} axes.")
    mode = e.text("mode", "nearest")
    if mode == "nearest" and min(scales) < 1 < max(scales):
        raise Unsupported(f"{e.host.title} that grows one axis and shrinks another is unsupported.")
    return _resize(
        e, scales, [_scaled(n, s) for n, s in zip(shape, scales, strict=True)], roi=None,
        mode="cubic" if mode == "cubic" else "nearest" if mode == "nearest" else "linear",
        coordinates="asymmetric", nearest="ceil" if min(scales) < 1 else "floor",
        cubic_a=-0.75, exclude_outside=False, extrapolation=0.0,
    )  # fmt: skip


def _extents(e: Expansion, axes: Sequence[int]) -> tuple[list[float], list[int]]:
    """Scale and output extent of every axis."""
    shape = e.shape(e.x())
    scales, sizes = [1.0] * len(shape), list(shape)
    given = e.optional(2)
    wanted = e.optional(3)
    if wanted is not None and wanted.size:
        _check_count(axes, wanted.size)
        ratios = [int(n) / shape[axis] for axis, n in zip(axes, wanted.reshape(-1), strict=True)]
        policy = e.text("keep_aspect_ratio_policy", "stretch")
        kept = {"not_larger": min, "not_smaller": max}.get(policy)
        for axis, ratio, size in zip(axes, ratios, wanted.reshape(-1), strict=True):
            scales[axis] = kept(ratios) if kept else ratio
            sizes[axis] = int(np.floor(scales[axis] * shape[axis] + 0.5)) if kept else int(size)
    elif given is not None and given.size:
        _check_count(axes, given.size)
        e.scaled = True
        for axis, scale in zip(axes, given.reshape(-1), strict=True):
            scales[axis] = float(scale)
            sizes[axis] = _scaled(shape[axis], scale)
    else:
        raise Unsupported("Resize has neither scales nor sizes.")
    return scales, sizes


def _scaled(extent: int, scale: float) -> int:
    """As the host's kernel counts, in float32."""
    return int(np.float32(extent) * np.float32(scale))


def _check_count(axes: Sequence[int], count: int) -> None:
    if len(axes) != count:
        raise Unsupported(f"{count} scales or sizes do not fit {len(axes)} axes.")


def _region(e: Expansion, axes: Sequence[int]) -> list[tuple[float, float]]:
    """(start, end) of every axis."""
    found = [(0.0, 1.0)] * e.rank(e.x())
    roi = e.value(1).reshape(-1)
    if roi.size != 2 * len(axes):
        raise Unsupported(f"A region of {roi.size} numbers does not fit {len(axes)} axes.")
    for k, axis in enumerate(axes):
        found[axis] = (float(roi[k]), float(roi[k + len(axes)]))
    return found


def _resize(
    e: Expansion,
    scales: Sequence[float],
    sizes: Sequence[int],
    roi: Sequence[tuple[float, float]] | None,
    **how: Any,
) -> int:
    """Through the op, whose axes are [batch, spatial..., channels]."""
    x = e.x()
    shape = e.shape(x)
    rank = len(shape)
    regions = roi or [(0.0, 1.0)] * rank
    changed = {
        axis
        for axis in range(rank)
        if scales[axis] != 1 or sizes[axis] != shape[axis] or regions[axis] != (0.0, 1.0)
    }
    same = tuple(sizes) == shape
    if any(
        (same or scales[axis] == 1) and regions[axis] != (0.0, 1.0) for axis in range(rank)
    ):  # onnxruntime takes such an axis whole in some of its kernels, and the standard cuts it
        raise Unsupported("A region of an axis that is not resized is read in several ways.")
    if same:  # whatever the scales are, onnxruntime copies
        return e.reshape(x, shape)
    if rank == 2:
        x, spatial, order = e.reshape(x, (1, *shape, 1)), [0, 1], None
    elif how["mode"] == "cubic" and not changed <= {2, 3}:
        raise Unsupported("Resizing other axes than height and width is not supported as cubic.")
    elif changed <= set(range(2, rank)) and rank >= 3:
        x, spatial, order = e.channels_last(x), list(range(2, rank)), "first"
    elif changed <= set(range(1, rank - 1)):
        spatial, order = list(range(1, rank - 1)), None
    else:
        raise Unsupported("Resizing the batch or the channels is not supported.")
    attributes: dict[str, Any] = dict(how, scales=tuple(scales[axis] for axis in spatial))
    if roi:
        attributes["roi"] = tuple(bound for axis in spatial for bound in regions[axis])
    y = e.add("resize", x, e.index([sizes[axis] for axis in spatial]), **attributes)
    if rank == 2:
        return e.reshape(y, sizes)
    return e.channels_first(y) if order else y
