"""GridSample of ONNX, as nodes: places inside, on the edge and far outside of images and
volumes."""

from __future__ import annotations

from typing import Any

from conformance.cases import Input
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def node(name: str, shape: Shape, places: Shape, method: str, outside: str,
         align_corners: bool = False, reach: float = 1.3, **more: Any) -> NodeCase:  # fmt: skip
    """Returns a node case with positions from -reach to reach that need no rounding."""
    grid = Input((shape[0], *places, len(shape) - 2), low=-reach, high=reach, step=1 / 64)
    given = more.pop("attributes", {})
    attributes = {"method": method, "outside": outside, "align_corners": align_corners, **given}
    return NodeCase(name, "grid_sample", (Input(shape), grid), attributes, terms=16, **more)


NODES = [
    *(
        node(f"{method}_{padding}{'_aligned' if aligned else ''}", (2, 5, 7, 6), (4, 6), method,
             padding, aligned)
        for method in ("nearest", "linear", "cubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (False, True)
    ),
    *(node(f"far_{padding}", (1, 4, 3, 3), (5, 3), "linear", padding, reach=9.0)
      for padding in ("zeros", "border", "reflection")),
    node("far_aligned", (1, 4, 3, 8), (5, 3), "cubic", "reflection", True, reach=9.0),
    node("one_pixel", (1, 1, 1, 5), (3, 3), "linear", "border", True),
    node("one_pixel_reflected", (2, 1, 3, 4), (3, 3), "linear", "reflection", True),
    node("many_channels", (1, 3, 3, 17), (2, 2), "linear", "zeros"),
    *(
        node(f"volume_{method}_{padding}{'_aligned' if aligned else ''}", (2, 3, 4, 5, 6),
             (2, 3, 4), method, padding, aligned)
        for method in ("nearest", "linear")
        for padding in ("zeros", "border", "reflection")
        for aligned in (False, True)
    ),
    node("volume_far", (1, 3, 2, 4, 3), (2, 5, 3), "linear", "reflection", reach=9.0),
    node("volume_of_one_layer", (1, 1, 3, 4, 5), (2, 2, 2), "linear", "zeros"),
    node("volume_cubic", (1, 3, 4, 4, 4), (2, 2, 2), "cubic", "zeros", refused=True),
    *(
        node(f"pixels_{len(shape)}", shape, places, "linear", "zeros", reach=7.0,
             attributes={"places": "pixels"})
        for shape, places in (((2, 5, 7, 6), (4, 6)), ((2, 3, 4, 5, 6), (2, 3, 4)))
    ),
    NodeCase("four_axes", "grid_sample", (Input((1, 2, 2, 2, 2, 4)), Input((1, 2, 2, 2, 2, 4))),
             {"method": "linear", "outside": "zeros"}, refused=True),
    NodeCase("pairs_for_a_volume", "grid_sample", (Input((1, 3, 4, 4, 4)), Input((1, 2, 2, 2, 2))),
             {"method": "linear", "outside": "zeros"}, refused=True),
    NodeCase("other_batch", "grid_sample", (Input((2, 4, 4, 4)), Input((1, 2, 2, 2))),
             {"method": "linear", "outside": "zeros"}, refused=True),
]  # fmt: skip
