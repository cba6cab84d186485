"""`arg_max(x, axis i32 constant): keep_dims, last` and `arg_min`: the first (or last) index of the
largest (smallest) element along an axis, as an integer. NaN is neither larger nor smaller."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Geometry, Graph, Node, Refusal, Shape, Target, geometry, planar
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Access, Kernel, Lowering, Stores
from tflgpu_plugin.ops.movement import vector_strides
from tflgpu_plugin.ops.reduce import refuse_axis, shapes as reduced
from tflgpu_plugin.ops.reduce_forms import lanes, reduced_axes
from tflgpu_plugin.ops.table import Op, elements

BLOCK = 4096  # elements per round of the kernel's outer loop
MAX_COUNT = MAX_LOOP_ROUNDS * BLOCK
AHEAD = 4  # steps that a GPU thread loads at once; half as many along channels (4 vec4 each)
BETTER = {"arg_max": ">", "arg_min": "<"}


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires one constant axis of fewer than 2^28 elements."""
    return refuse_axis(graph, node, MAX_COUNT - 1)


def lower(low: Lowering, node: Node) -> None:
    """Records one launch: four results per thread, or on GPUs threads that share a reduction."""
    (axis,) = reduced_axes(low.graph, node)
    shape = low.graph.shape(node.operand())
    out, data = low.geometry(node.outputs[0]), geometry(shape)
    along, count, inner = _along(shape, axis, out), shape[axis], prod(shape[axis + 1 :])
    steps = data.slices if along == "channels" else count
    together = 1 if low.target.software else lanes(low.target, steps, out.vectors)
    rounds = -(-steps // together)
    low.loops(node, rounds + 2 * -(-steps // BLOCK) + 20)
    low.dispatch(
        Kernel(
            "arg",
            {
                "vectors": out.vectors, "spatial": out.spatial, "slices": out.slices,
                "channels": out.channels, "in_slices": data.slices, "in_spatial": data.spatial,
                "in_channels": data.channels, "count": count, "inner": inner, "steps": steps,
                **({"lanes": together} if together > 1 else {}),
                **({"step": vector_strides(shape)[axis]} if along != "elements" else {}),
            },
            {
                "better": BETTER[node.op], "last": bool(node.attributes.get("last")),
                "along": along, "several": together > 1,
                "ahead": _ahead(along, rounds),
            },
        ),
        node,
        {"x": Access(low.stored(node.operand()), 1 if along == "elements" else 4)},
        {"out": node.outputs[0]},
        (-(-out.vectors * together // WORKGROUP), 1, 1),
        stores=Stores(fused=False),
    )  # fmt: skip


@heuristic
def _ahead(along: str, rounds: int) -> int:
    """Returns how many steps are loaded at once; the kernel takes the last one again where there
    are fewer."""
    return min(AHEAD // 2 if along == "channels" else AHEAD, int(rounds))


def _along(shape: Shape, axis: int, out: Geometry) -> str:
    """Returns how the kernel walks along the axis: "elements", "channels" or "planes"."""
    if not planar(shape):
        return "elements"
    if axis == len(shape) - 1:
        return "channels"
    return "planes" if out.channels == shape[-1] or shape[-1] % 4 == 0 else "elements"


ATTRIBUTES = "keep_dims! last"
OPS = tuple(
    Op(
        name,
        refuse,
        reduced,
        lower,
        "exact",
        ("f32", "i32"),
        elements(),
        kind="choice",
        operands="xx",
    )
    for name in ("arg_max", "arg_min")
)
