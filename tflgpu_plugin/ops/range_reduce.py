"""`range_sum(x [n, ...], starts i32 [ranges], ends i32 [ranges])` -> [ranges, ...]: the sum of the
elements from `starts[k]` to `ends[k]` (exclusive) of the first axis, for each k; `range_mean`,
`range_max` and `range_min` likewise. As in a slice, negative bounds count from the end, and all are
clamped. An empty range has the sum and mean 0, the maximum -infinity and the minimum infinity."""

from __future__ import annotations

from math import inf, prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target, is_integer, planar
from tflgpu_plugin.ir.symbolic import is_symbolic
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Access, Kernel, Lowering
from tflgpu_plugin.ops.movement import vector_strides
from tflgpu_plugin.ops.reduce_forms import REDUCTIONS
from tflgpu_plugin.ops.table import AS_THEY_ARE, AVERAGED, Op, elements, unplanned

BLOCK = 1024  # elements that are combined before the result is added to that of earlier blocks
MAX_COUNT = MAX_LOOP_ROUNDS * BLOCK
KINDS = {
    "range_sum": "reduce_sum", "range_mean": "mean", "range_max": "reduce_max",
    "range_min": "reduce_min",
}  # fmt: skip


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires floats, as many starts as ends, and 1 to 2^26 elements along the first axis."""
    found = unplanned("A reduction of ranges", shapes, graph, node)
    if found:
        return found
    if is_integer(graph.tensors[node.operand()]):
        return Refusal("dtype.unsupported", "Ranges of integers are not reduced.")
    shape = graph.shape(node.operand())
    if prod((*shape, *graph.shape(node.operand(1)))) == 0:
        return Refusal("shape.empty", f"An input of {list(shape)} or its bounds have no elements.")
    if not is_symbolic(shape) and shape[0] >= MAX_COUNT:
        return Refusal("shape.too_large", f"{shape[0]:,} elements; up to {MAX_COUNT:,} are added.")
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    shape, starts, ends = (graph.shape(node.operand(k)) for k in range(3))
    if not shape or len(starts) != 1 or starts != ends:
        said = f"{list(starts)} starts and {list(ends)} ends are not ranges of {list(shape)}"
        raise ValueError(said)
    return [(*starts, *shape[1:])]


def lower(low: Lowering, node: Node) -> None:
    """Records one launch: a thread for four elements of a range's result."""
    shape, reduction = low.graph.shape(node.operand()), REDUCTIONS[KINDS[node.op]]
    low.loops(node, BLOCK + -(-shape[0] // BLOCK))
    low.each_vector(
        Kernel(
            "range_reduce",
            {
                "step": vector_strides(shape)[0], "count": shape[0], "block": BLOCK,
                "infinity": inf,
            },
            {
                "start": reduction.start, "combine": reduction.combine,
                "finish": "quotient(a, f32(max(last - first, 1)))" if node.op == "range_mean"
                else reduction.finish,
            },
        ),
        node,
        {
            "x": low.stored(node.operand()),
            **{name: Access(low.stored(node.operand(k)), 1)
               for k, name in ((1, "starts"), (2, "ends"))},
        },
    )  # fmt: skip


def decompose(steps: Decomposition, node: Node) -> bool:
    """Reduces ranges of rows if storage is not planar."""
    shape = steps.shape(node.operand())
    if planar(shape):
        return False
    rows = steps.reshape(node.operand(), (shape[0], prod(shape[1:])))
    made = steps.add(node.op, rows, node.operand(1), node.operand(2))
    steps.last("reshape", made, None, shape=steps.shape(node.outputs[0]))
    return True


OPS = tuple(
    Op(name, refuse, shapes, lower, accuracy, ("f32", "i32"), elements(), kind="reduction",
       operands="xxx", decompose=decompose, fuses=True, accumulates=True, errors=errors)
    for name, accuracy, errors in (
        ("range_sum", "reduction", AVERAGED), ("range_mean", "reduction", AVERAGED),
        ("range_max", "exact", AS_THEY_ARE), ("range_min", "exact", AS_THEY_ARE),
    )
)  # fmt: skip
