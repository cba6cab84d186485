"""Resizing, larger and smaller, by whole and odd factors: RESIZE_BILINEAR under each rule for where
a place lies; `resize` in every mode, with every rule for coordinates and rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.cases import ABOVE_INT32, MIN_INT32, Case, Input, constant
from conformance.node_cases import NodeCase
from tflgpu_plugin.ops.resize import COORDINATES, MODES, ROUNDINGS

Pair = tuple[int, int]


def resize(
    name: str,
    shape: tuple[int, ...],
    size: Pair,
    align: bool = False,
    half: bool = False,
    version: int | None = None,
    **more: Any,
) -> Case:
    """Returns a case with a constant size; half-pixel centres exist since version 3."""
    options = {"alignCorners": align, "halfPixelCenters": half}
    inputs = (Input(shape), constant(size, "i32"))
    version = version or (3 if half else 1)
    return Case(name, "RESIZE_BILINEAR", version, inputs, "ResizeBilinearOptions", options, **more)


def rules(name: str, shape: tuple[int, ...], size: Pair) -> list[Case]:
    """Returns cases of one resize, under each coordinate rule."""
    return [
        resize(f"{name}_plain", shape, size),
        resize(f"{name}_align", shape, size, align=True),
        resize(f"{name}_half", shape, size, half=True),
    ]


def nearest(case: Case) -> Case:
    """Returns cases with the same coordinates, without interpolation."""
    version = 3 if case.options["alignCorners"] or case.options["halfPixelCenters"] else 1
    return replace(
        case,
        op="RESIZE_NEAREST_NEIGHBOR",
        options_type="ResizeNearestNeighborOptions",
        version=version,
    )


# With aligned corners: places exactly between two, at every step and at the last one but one.
HALVES = [
    resize("more_than_a_group", (1, 3, 5, 3), (5, 13)),
    resize("halves_align", (1, 3, 5, 3), (5, 9), align=True),
    resize("halves_of_many_align", (1, 2, 17, 1), (3, 33), align=True),
    resize("far_end_align", (1, 7, 11, 4), (50, 90), align=True),
    resize("far_end_align_of_many", (1, 50, 3, 1), (99, 5), align=True),
    resize("far_end_half", (1, 7, 11, 4), (50, 90), half=True),
]
NEAREST = [
    *HALVES,
    *rules("double", (1, 4, 5, 3), (8, 10)),
    *rules("odd_up_batch_3", (3, 5, 7, 4), (13, 11)),
    *rules("odd_down", (1, 17, 13, 17), (7, 5)),
    *rules("to_1x1", (1, 7, 6, 5), (1, 1)),
    *rules("from_1x1", (2, 1, 1, 5), (4, 3)),
]

CASES = [
    *HALVES,
    *rules("double", (1, 4, 5, 3), (8, 10)),
    *rules("halve", (1, 8, 10, 5), (4, 5)),
    *rules("odd_up_batch_3", (3, 5, 7, 4), (13, 11)),
    *rules("odd_down", (1, 17, 13, 17), (7, 5)),
    *rules("mixed", (1, 9, 4, 1), (5, 11)),
    *rules("same_size", (1, 6, 5, 8), (6, 5)),
    *rules("from_1x1", (2, 1, 1, 5), (4, 3)),
    *rules("to_1x1", (1, 7, 6, 5), (1, 1)),
    *rules("to_one_row", (1, 7, 6, 5), (1, 9)),
    *rules("from_one_column", (1, 5, 1, 3), (7, 4)),
    *rules("segmentation_33_to_257", (1, 33, 33, 3), (257, 257)),
    *rules("far_down", (1, 101, 97, 3), (3, 4)),
    *rules("long", (1, 70_001, 1, 1), (65_537, 1)),
    *(nearest(case) for case in (*NEAREST, *rules("to_odd", (1, 5, 7, 6), (7, 16)))),
    resize("version_2", (1, 4, 4, 2), (6, 6), version=2),
]


def node(name: str, shape: tuple[int, ...], size: tuple[int, ...], **attributes: Any) -> NodeCase:
    """Returns a node case; its tolerance grows with the coordinates, which are computed in
    float32."""
    inputs = (Input(shape), constant(size, "i32"))
    return NodeCase(name, "resize", inputs, attributes, terms=max(*shape[1:-1], *size))


ROI = {"roi": (0.1, 0.7, -0.31, 1.23), "extrapolation": 7.5}
NODES = [
    *(node(f"{mode}_{rule}_{name}", (2, 5, 7, 5), size, mode=mode, coordinates=rule,
           **(ROI if rule == "tf_crop_and_resize" else {}))
      for mode in MODES for rule in COORDINATES
      for name, size in (("up", (11, 16)), ("down", (3, 4)))),
    *(node(f"rounding_{how}_{rule}", (1, 6, 8, 4), (9, 20), nearest=how, coordinates=rule)
      for how in ROUNDINGS for rule in ("asymmetric", "half_pixel", "align_corners")),
    *(node(f"{mode}_twice", (1, 4, 5, 17), (8, 10), mode=mode) for mode in MODES),
    *(node(f"{mode}_{rule}_to_one", (1, 4, 5, 3), (1, 1), mode=mode, coordinates=rule)
      for mode in MODES for rule in ("half_pixel", "pytorch_half_pixel", "align_corners")),
    *(node(f"{mode}_line", (2, 7, 5), (12,), mode=mode) for mode in MODES),
    *(node(f"{mode}_volume", (1, 3, 4, 5, 6), (5, 3, 8), mode=mode) for mode in MODES),
    *(node(f"{mode}_volume_cropped", (1, 3, 4, 5, 6), (5, 3, 8), mode=mode,
           coordinates="tf_crop_and_resize", roi=(0.1, 0.7, -0.31, 1.23, 0.2, 1.0))
      for mode in MODES),
    node("scales", (1, 5, 7, 4), (7, 10), mode="linear", scales=(1.5, 1.5)),
    node("scales_symmetric", (1, 5, 7, 4), (7, 10), mode="linear", scales=(1.5, 1.5),
         coordinates="half_pixel_symmetric"),
    node("cubic_half", (1, 6, 7, 4), (13, 9), mode="cubic", cubic_a=-0.5),
    node("cubic_excluded", (1, 6, 7, 4), (13, 9), mode="cubic", exclude_outside=True),
    *(node(f"smooth_{mode}_{rule}{'_excluded' if alone else ''}", (2, 9, 13, 5), (4, 6), mode=mode,
           coordinates=rule, exclude_outside=alone, antialias=True, scales=(0.45, 0.5))
      for mode in ("linear", "cubic") for rule in COORDINATES[:5] for alone in (False, True)),
    node("smooth_to_one", (1, 6, 7, 4), (1, 2), mode="linear", antialias=True),
    node("smooth_width", (1, 6, 14, 4), (6, 3), mode="cubic", antialias=True, cubic_a=-0.5),
    *(node(f"width_only_{how}", (1, 6, 7, 4), (6, 15), nearest=how,
           coordinates="tf_half_pixel_for_nn") for how in ROUNDINGS),
    node("same", (1, 6, 7, 4), (6, 7), mode="linear"),
    node("width_only", (1, 6, 7, 4), (6, 15), mode="linear"),
    *(replace(node(f"whole_{rule}_{how}_{dtype}", (2, 5, 7, 5), (9, 4), nearest=how,
                   coordinates=rule), output_type=dtype,
              inputs=(Input((2, 5, 7, 5), dtype, low=MIN_INT32, high=ABOVE_INT32),
                      constant((9, 4), "i32")))
      for rule in ("half_pixel", "asymmetric") for how in ROUNDINGS for dtype in ("i32", "i64")),
    NodeCase("whole_linear", "resize", (Input((1, 4, 4, 3), "i32"), constant((8, 8), "i32")),
             {"mode": "linear"}, output_type="i32", refused=True),
]  # fmt: skip
