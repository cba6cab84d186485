"""`arg_max(x, axis i32 constant): keep_dims, last` and `arg_min`: the first (or last) index of the
largest (smallest) element along an axis, as a whole number. NaN is neither larger nor smaller.
"""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir.graph import Graph, Node, geometry
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Access, Lowering
from tflgpu_plugin.ops.reduce import lanes, reduced_axes, refuse_axis
from tflgpu_plugin.ops.reduce import shapes as reduced
from tflgpu_plugin.ops.table import Op

BLOCK = 4096  # elements of the kernel's inner loop
MAX_COUNT = MAX_LOOP_ROUNDS << 12  # the kernel goes by blocks of 4,096
AHEAD = 4  # elements that a thread of a GPU loads at once
BETTER = {"arg_max": ">", "arg_min": "<"}


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """One constant axis of less than 2^28 elements."""
    return refuse_axis(graph, node, MAX_COUNT - 1)


def lower(low: Lowering, node: Node) -> None:
    """One launch, four results per thread or, on GPUs, per as many threads as share a reduction."""
    (axis,) = reduced_axes(low.graph, node)
    shape = low.graph.shape(node.operand())
    out, data = low.geometry(node.outputs[0]), geometry(shape)
    together = 1 if low.target.software else lanes(low.target, shape[axis], out.vectors)
    rounds = -(-shape[axis] // together)
    low.loops(node, rounds + 2 * -(-shape[axis] // BLOCK) + 20)
    low.dispatch(
        "arg",
        node,
        {"x": Access(low.stored(node.operand()), 1)},
        {"out": node.outputs[0]},
        (-(-out.vectors * together // WORKGROUP), 1, 1),
        {
            "vectors": out.vectors, "spatial": out.spatial, "slices": out.slices,
            "channels": out.channels, "in_slices": data.slices, "in_spatial": data.spatial,
            "in_channels": data.channels, "count": shape[axis], "inner": prod(shape[axis + 1 :]),
            **({"lanes": together} if together > 1 else {}),
        },
        {
            "better": BETTER[node.op],
            "last": bool(node.attributes.get("last")),
            "several": together > 1,
            "ahead": min(AHEAD, rounds),
        },
        fused=False,
    )  # fmt: skip


def _work(graph: Graph, node: Node) -> int:
    return prod(graph.shape(node.operand()))


OPS = tuple(
    Op(name, refuse, reduced, lower, "exact", ("f32", "i32"), _work, kind="choice")
    for name in ("arg_max", "arg_min")
)
