"""`grid_sample(x [B, H, W, C], grid [B, h, w, 2]): method, outside, align_corners, places` -> [B,
h, w, C]: the image at the grid's coordinates (column, row), where -1 and 1 are its edges or, with
`align_corners`, the centres of its outermost pixels; with `places` "pixels" coordinates count
pixels from 0. Volumes [B, D, H, W, C] have a third coordinate, the layer.

`method` is "nearest" (ties to even), "linear" or, for images, "cubic" (Keys' kernel with a =
-0.75). Pixels `outside` are 0 for "zeros", the nearest pixel for "border", and mirrored at the
edges (centres with `align_corners`) for "reflection". The result at a NaN coordinate is
undefined."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops.lowering import Kernel, Lowering
from tflgpu_plugin.ops.table import MOVED, Op

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}  # pixels per axis


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an image of 4 dimensions or a volume of 5, and coordinates for each batch; no cubic
    method for volumes."""
    x, grid = graph.shape(node.operand()), graph.shape(node.operand(1))
    if len(x) not in (4, 5) or 0 in (*x, *grid):
        said = f"Sampling by a grid needs an image of 4 or 5 dimensions, not {list(x)}."
        return Refusal("rank.unsupported", said)
    if len(grid) != len(x) or grid[0] != x[0] or grid[-1] != len(x) - 2:
        return Refusal(
            "shape.mismatch", f"A grid of shape {list(grid)} does not fit an image of {list(x)}."
        )
    if node.attributes["method"] == "cubic" and len(x) == 5:
        said = "Sampling a volume by a grid with the method cubic is not supported."
        return Refusal("attribute.unsupported", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    x, grid = graph.shape(node.operand()), graph.shape(node.operand(1))
    if len(x) not in (4, 5) or len(grid) != len(x):
        raise ValueError(f"a grid of shape {list(grid)} does not fit {list(x)}")
    return [(*grid[:-1], x[-1])]


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with a thread per four channels of a result."""
    _, *extents, _ = low.graph.shape(node.operand())
    low.each_vector(
        Kernel(
            "grid_sample",
            dict(zip(("width", "height", "depth"), extents[::-1], strict=False))
            | {"image": prod(extents)},
            {
                "axes": len(extents),
                "taps": TAPS[node.attributes["method"]],
                "outside": node.attributes["outside"],
                "aligned": bool(node.attributes.get("align_corners")),
                "places": node.attributes.get("places", "edges"),
            },
        ),
        node,
        {"x": low.stored(node.operand()), "grid": low.stored(node.operand(1))},
    )


def _work(graph: Graph, node: Node) -> int:
    (made,) = shapes(graph, node)
    return prod(made) * prod([TAPS[node.attributes["method"]]] * (len(made) - 2))


ATTRIBUTES = (
    "align_corners method!=linear|nearest|cubic outside!=zeros|border|reflection "
    "places=edges|pixels"
)
OPS = (
    Op("grid_sample", refuse, shapes, lower, "accumulate", work=_work, kind="window", fuses=True,
       operands="xx", accumulates=False, errors=MOVED),
)  # fmt: skip
