"""`nonzero(flags [n])` returns the indices of the true elements in order, padded with n to [n], and
their number. It decomposes into prefix sums of the flags and `nonzero_places(sums [n])`, whose
element j is the number of sums of at most j: the index of true element j."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target, quantization, type_name
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering
from tflgpu_plugin.ops.scan import MAX_LINE
from tflgpu_plugin.ops.table import Errors, Op, same_shape


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires one list of booleans that is not empty."""
    shape, dtype = graph.shape(node.operand()), graph.tensors[node.operand()].dtype
    if len(shape) != 1 or not 0 < prod(shape) <= MAX_LINE or dtype != "bool":
        given = f"{list(shape)} of {type_name(dtype)}"
        said = f"nonzero takes a list of 1 to {MAX_LINE:,} flags, not {given}."
        return Refusal("shape.unsupported", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of the indices and their number."""
    return [graph.shape(node.operand()), ()]


def decompose(steps: Decomposition, node: Node) -> bool:
    """Sums the flags as integers, and finds the indices at which the sum grows."""
    (count,) = steps.shape(node.operand())
    ones = steps.typed("i32", "cast", node.operand())
    sums = steps.add("cumsum", ones, steps.indices([0]), exclusive=False, reverse=False)
    steps.put(node.outputs[0], "nonzero_places", sums)
    last = steps.add("gather", sums, steps.indices([count - 1]), axis=0)
    steps.put(node.outputs[1], "reshape", last, None, shape=())
    return True


def refuse_places(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires one list of integers."""
    shape, sums = graph.shape(node.operand()), graph.tensors[node.operand()]
    if len(shape) != 1 or not prod(shape) or not quantization.is_integer(sums):
        return Refusal(
            "shape.unsupported", f"nonzero_places takes a list of integers, not {list(shape)}."
        )
    return None


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with four elements per thread, each found by a binary search."""
    (count,) = low.graph.shape(node.operand())
    low.loops(node, count.bit_length())
    low.each_vector(
        Kernel("nonzero", {"count": count, "halvings": count.bit_length()}),
        node,
        {"sums": Access(low.stored(node.operand()), 1)},
    )


def _work(graph: Graph, node: Node) -> int:
    (count,) = graph.shape(node.operand())
    return count * count.bit_length()


OPS = (
    Op("nonzero", refuse, shapes, lower_decomposed, "exact", types=("bool", "i32"), work=_work,
       kind="choice", decompose=decompose, errors=Errors(choice=0)),
    Op("nonzero_places", refuse_places, same_shape, lower, "exact", types=("i32",), work=_work,
       kind="choice", errors=Errors(choice=0)),
)  # fmt: skip
