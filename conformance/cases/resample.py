"""Resizing in every mode, with every rule for coordinates and rounding: up, down, by fractions."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase
from tflgpu_plugin.ops.resample import COORDINATES, MODES, ROUNDINGS

CASES: list[Case] = []
Shape = tuple[int, ...]


def node(name: str, shape: Shape, size: Shape, **attributes: Any) -> NodeCase:
    """A node case; the tolerance grows with the places, which are computed in float32."""
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
    node("same", (1, 6, 7, 4), (6, 7), mode="linear"),
    node("width_only", (1, 6, 7, 4), (6, 15), mode="linear"),
    NodeCase("unknown", "resize", (Input((1, 4, 4, 3)), constant((8, 8), "i32")),
             {"mode": "lanczos"}, refused=True),
]  # fmt: skip
