"""`dynamic_quantize(x, factors? constant)` -> (numbers, scale, factors * scale?): x quantized to 8
bits over the range of its values, extended to include 0, as by DynamicQuantizeLinear of ONNX. The
numbers are those that it stores, minus the zero point; the scale is a single element. Products of
the numbers and of weights are multiplied by the third result. NaN does not change the range."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target, is_integer
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops.lowering import WORKGROUP, Access, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.reduce_forms import AHEAD, MAX_THREADS
from tflgpu_plugin.ops.table import Op, elements

PARTS, FEW_PARTS = 64, 4  # most of the values, each with a workgroup; on software adapters


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires floats, and constant factors."""
    x, factors = graph.tensors[node.operand()], node.inputs[1:]
    if is_integer(x) or prod(x.shape) == 0:
        return Refusal("dtype.unsupported", "Only floats are quantized over their range.")
    if any(graph.constant(t) is None for t in factors):
        return Refusal("constant.required", "The factors of a scale must be constant.")
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    return [graph.shape(node.operand()), (), *(graph.shape(t) for t in node.inputs[1:] if t)]


def lower(low: Lowering, node: Node) -> None:
    """Records two launches: the range of each part of the values; the numbers."""
    x, shape = low.stored(node.operand()), low.geometry(node.operand())
    software = low.target.software
    threads = WORKGROUP if software else MAX_THREADS
    parts = _parts(FEW_PARTS if software else PARTS, shape.vectors // threads)
    ahead = 1 if software else AHEAD // 2
    chunk = -(-shape.vectors // parts)
    low.loops(node, -(-chunk // threads) + threads.bit_length() + 2)
    ranges = low.temporary(parts)
    low.dispatch(
        Kernel("value_range", {"vectors": shape.vectors, "chunk": chunk},
               {"threads": threads, "ahead": ahead}),
        node, {"x": x}, {"ranges": ranges}, (parts, 1, 1), Stores(fused=False),
    )  # fmt: skip
    reads: dict[str, Source | Access] = {"x": x, "ranges": ranges}
    writes: dict[str, Source | Access] = {"numbers": node.outputs[0], "scale": node.outputs[1]}
    numbers: dict[str, object] = {
        "parts": parts, "vectors": shape.vectors, "spatial": shape.spatial, "slices": shape.slices,
    }  # fmt: skip
    if len(node.inputs) > 1:
        factors = low.geometry(node.operand(1))
        reads["factors"], writes["scaled"] = low.stored(node.operand(1)), node.outputs[2]
        numbers |= {"factors": factors.vectors, "factors_spatial": factors.spatial,
                    "factors_slices": factors.slices}  # fmt: skip
    groups = (-(-shape.vectors // WORKGROUP), 1, 1)
    variant = {"scaled": len(node.inputs) > 1}
    low.dispatch(Kernel("dynamic_quantize", numbers, variant), node, reads, writes, groups)


@heuristic
def _parts(most: int, full: int) -> int:
    """Returns the number of parts, a power of two, if `full` workgroups have a vec4 per thread."""
    while most > 1 and most > full:
        most //= 2
    return most


OPS = (
    Op("dynamic_quantize", refuse, shapes, lower, "elementwise", work=elements(4),
       kind="reduction", accumulates=False, operands="x?"),
)  # fmt: skip
