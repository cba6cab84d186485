"""`squared_distances(x [n, features], y [m, features])` -> [n, m]: the sums of squared differences
of every row of x and every row of y."""

from __future__ import annotations

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops.lowering import Kernel, Lowering
from tflgpu_plugin.ops.table import Op, unplanned


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires two matrices with rows of one length."""
    return unplanned("A table of distances", shapes, graph, node)


def shapes(graph: Graph, node: Node) -> list[Shape]:
    x, y = (graph.shape(node.operand(k)) for k in (0, 1))
    if not len(x) == len(y) == 2 or x[1] != y[1] or 0 in (*x, *y):
        raise ValueError(f"rows of {list(x)} and {list(y)} have no distances")
    return [(x[0], y[0])]


def lower(low: Lowering, node: Node) -> None:
    """Records one launch: a thread for a row of x and four rows of y."""
    data, out = low.geometry(node.operand()), low.geometry(node.outputs[0])
    low.loops(node, data.slices + 1)
    low.each_vector(
        Kernel("squared_distances", {"steps": data.slices, "last": out.channels - 1}),
        node,
        {"x": low.stored(node.operand()), "y": low.stored(node.operand(1))},
    )


def _work(graph: Graph, node: Node) -> int:
    rows, columns = shapes(graph, node)[0]
    return rows * columns * graph.shape(node.operand())[1]


OPS = (
    Op("squared_distances", refuse, shapes, lower, "accumulate", work=_work, kind="reduction",
       operands="xx", fuses=True, accumulates=True),
)  # fmt: skip
