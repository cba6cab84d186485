"""`svdf(x [B,I], features [F,I], times [F,M], bias [U]|None, memory [B,F*M]): rank, activation`
-> y [B,U], the memory after it: a fully connected layer whose weights over M steps of time and I
inputs are F products of two vectors, `rank` of them for each of the U units.

The memory holds what the features made of the last M inputs, the newest at the end.
As reference/svdf.h of TensorFlow Lite.
"""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.table import Op

FEATURES, TIMES, BIAS, MEMORY = 1, 2, 3, 4


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """Constant weights, of shapes that fit."""
    if any(graph.constant(node.operand(k)) is None for k in (FEATURES, TIMES)):
        return "The weights of an SVDF layer must be constant."
    x, features, times, memory = (graph.shape(node.operand(k)) for k in (0, 1, 2, MEMORY))
    rank = int(node.attributes["rank"])
    if any(len(shape) != 2 or 0 in shape for shape in (x, features, times)):
        return "An SVDF layer needs matrices that are not empty."
    wanted = [(times[0], x[1]), (x[0], prod(times))]
    if [features, memory] != wanted or rank < 1 or times[0] % rank:
        return "The weights and the memory of an SVDF layer have shapes that do not fit."
    bias = node.inputs[BIAS]
    if bias is not None and graph.shape(bias) != (times[0] // rank,):
        return "The bias of an SVDF layer is one value for each unit."
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    x, times = graph.shape(node.operand()), graph.shape(node.operand(TIMES))
    units = times[0] // int(node.attributes["rank"])
    return [(x[0], units), graph.shape(node.operand(MEMORY))]


def decompose(steps: Decomposition, node: Node) -> bool:
    """What is new joins what is left of the memory, then a product and a sum."""
    x, features, times, memory = (node.operand(k) for k in (0, FEATURES, TIMES, MEMORY))
    batch, (count, length) = steps.shape(x)[0], steps.shape(times)
    new = steps.add("fully_connected", x, features, None, keep_num_dims=True, activation="none")
    kept = steps.reshape(memory, (batch, count, length))
    if length > 1:
        corner, size = steps.indices((0, 0, 1)), steps.indices((batch, count, length - 1))
        kept = steps.add("slice", kept, corner, size)
        parts = (kept, steps.reshape(new, (batch, count, 1)))
        kept = steps.add("concat", *parts, axis=2, activation="none")
    else:
        kept = steps.reshape(new, (batch, count, 1))
    if len(node.outputs) > 1:
        shape = steps.shape(node.outputs[1])
        steps.put(node.outputs[1], "reshape", kept, None, shape=shape)
    weights = steps.reshape(times, (1, count, length))
    weighed = steps.add("mul", kept, weights, activation="none")
    units = steps.shape(node.outputs[0])[1]
    rows = steps.reshape(weighed, (batch, units, count * length // units))
    sums = steps.add("reduce_sum", rows, steps.indices([2]), keep_dims=False)
    bias = steps.number(0.0) if node.inputs[BIAS] is None else node.inputs[BIAS]
    steps.last("add", sums, bias, activation=node.attributes.get("activation", "none"))
    return True


def _work(graph: Graph, node: Node) -> int:
    batch = graph.shape(node.operand())[0]
    return batch * sum(prod(graph.shape(node.operand(k))) for k in (FEATURES, TIMES))


OPS = (
    Op("svdf", refuse, shapes, lower_decomposed, "accumulate", work=_work, kind="composite",
       decompose=decompose, states=((MEMORY, -1),), accumulates=False),
)  # fmt: skip
