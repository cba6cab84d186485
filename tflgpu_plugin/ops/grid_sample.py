"""`grid_sample(x [B, H, W, C], grid [B, h, w, 2]): method, outside, align_corners` gives
[B, h, w, C]: the image at the places (column, row) of the grid, -1 and 1 being its edges, or with
`align_corners` the centres of its outermost pixels.

`method` is "nearest" (halves to the even pixel), "linear" or "cubic" (Keys' kernel with a = -0.75);
What is `outside` of the image is 0 for "zeros", its nearest pixel for "border", and for
"reflection" its mirror image at its edges, or at the centres with `align_corners`. A place that is
NaN gives any numbers.
"""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.table import MOVED, Op

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}  # pixels that count, per axis
OUTSIDE = ("zeros", "border", "reflection")


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """An image of 4 dimensions, pairs of coordinates for each batch, one of the three methods and
    one of the three for what is outside."""
    x, grid = graph.shape(node.operand()), graph.shape(node.operand(1))
    if len(x) != 4 or 0 in (*x, *grid):
        return f"Sampling by a grid needs an image of 4 dimensions, not {list(x)}."
    if len(grid) != 4 or grid[0] != x[0] or grid[3] != 2:
        return f"A grid of shape {list(grid)} does not fit an image of {list(x)}."
    if node.attributes["method"] not in TAPS or node.attributes["outside"] not in OUTSIDE:
        how = f"{node.attributes['method']} with {node.attributes['outside']} outside"
        return f"Sampling by a grid, {how}, is not supported."
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    x, grid = graph.shape(node.operand()), graph.shape(node.operand(1))
    if len(x) != 4 or len(grid) != 4:
        raise ValueError(f"a grid of shape {list(grid)} does not fit {list(x)}")
    return [(*grid[:3], x[3])]


def lower(low: Lowering, node: Node) -> None:
    """One launch, four channels of a result per thread."""
    _, height, width, _ = low.graph.shape(node.operand())
    low.each_vector(
        "grid_sample",
        node,
        {"x": low.stored(node.operand()), "grid": low.stored(node.operand(1))},
        {"height": height, "width": width, "image": height * width},
        {
            "taps": TAPS[node.attributes["method"]],
            "outside": node.attributes["outside"],
            "aligned": bool(node.attributes.get("align_corners")),
        },
    )


def _work(graph: Graph, node: Node) -> int:
    return prod(shapes(graph, node)[0]) * TAPS[node.attributes["method"]] ** 2


OPS = (
    Op("grid_sample", refuse, shapes, lower, "accumulate", work=_work, kind="window", fuses=True,
       accumulates=False, errors=MOVED),
)  # fmt: skip
