"""`svdf(x [B,I], features [F,I], times [F,M], bias [U]|None, memory [B,F*M]): rank, activation` ->
y [B,U], the new memory: a fully connected layer over M time steps and I inputs whose weights are F
outer products of two vectors, `rank` of them for each of U units. The memory holds the features'
results for the last M inputs, the newest last, as in reference/svdf.h of TensorFlow Lite. If x is
quantized it follows `EvalIntegerSVDF` there: times and memory have 16 bits, the bias is int32, and
sums are integers."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target, Tensor, quantization
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.quantized import Numbers, factor_numbers
from tflgpu_plugin.ops.table import Op

FEATURES, TIMES, BIAS, MEMORY = 1, 2, 3, 4
STORED = {TIMES: "i16", BIAS: "i32", MEMORY: "i16"}  # only with 8-bit inputs


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant weights of shapes that fit."""
    if any(graph.constant(node.operand(k)) is None for k in (FEATURES, TIMES)):
        return Refusal("constant.required", "The weights of an SVDF layer must be constant.")
    x, features, times, memory = (graph.shape(node.operand(k)) for k in (0, 1, 2, MEMORY))
    rank = int(node.attributes["rank"])
    if any(len(shape) != 2 or 0 in shape for shape in (x, features, times)):
        return Refusal("shape.unsupported", "An SVDF layer needs matrices that are not empty.")
    wanted = [(times[0], x[1]), (x[0], prod(times))]
    if [features, memory] != wanted or rank < 1 or times[0] % rank:
        said = "The weights and the memory of an SVDF layer have shapes that do not fit."
        return Refusal("shape.mismatch", said)
    bias = node.inputs[BIAS]
    if bias is not None and graph.shape(bias) != (times[0] // rank,):
        return Refusal("shape.mismatch", "The bias of an SVDF layer is one value for each unit.")
    return _refuse_stored(graph, node)


def _refuse_stored(graph: Graph, node: Node) -> Refusal | None:
    tensors = graph.tensors
    given = {k: tensors[t] for k, t in enumerate(node.inputs) if t is not None}
    stored = quantization.quantized(given[0])
    kinds = [given[k].dtype == dtype for k, dtype in STORED.items() if k in given]
    if {*kinds, quantization.quantized(tensors[node.outputs[0]])} != {stored}:
        return Refusal(
            "dtype.unsupported",
            "An SVDF layer in 8 bits, and no other, has a result of 8 bits, weights over time and "
            "a memory of 16, and a bias of int32.",
        )
    if stored and any(_scales(given[k]) != 1 for k in (FEATURES, TIMES, MEMORY)):
        said = "An SVDF layer in 8 bits needs one scale for each of its weights and its memory."
        return Refusal("quantization.unsupported", said)
    return None


def _scales(tensor: Tensor) -> int:
    return len(tensor.quantization.scale) if tensor.quantization else 0


def shapes(graph: Graph, node: Node) -> list[Shape]:
    x, times = graph.shape(node.operand()), graph.shape(node.operand(TIMES))
    units = times[0] // int(node.attributes["rank"])
    return [(x[0], units), graph.shape(node.operand(MEMORY))]


def decompose(steps: Decomposition, node: Node) -> bool:
    """Replaces the node by a product with the features, which is appended to the rest of the
    memory, and a product and sum over time."""
    stored = quantization.quantized(steps.editor.tensors[node.operand()])
    last: Numbers = ()
    new = steps.add("fully_connected", node.operand(), node.operand(FEATURES), None,
                    keep_num_dims=True, activation="none")  # fmt: skip
    if stored:
        first, last = _factors(steps, node)
        new = _numbers(steps, node, new, first)
    kept, times = _kept(steps, node, new), node.operand(TIMES)
    batch, count, length = steps.shape(kept)
    if stored:
        kept, times = steps.typed("i32", "cast", kept), steps.indices(steps.data(times))
    weights = steps.reshape(times, (1, count, length))
    weighed = steps.add("mul", kept, weights, activation="none")
    units = steps.shape(node.outputs[0])[1]
    rows = steps.reshape(weighed, (batch, units, count * length // units))
    sums = steps.add("reduce_sum", rows, steps.indices([2]), keep_dims=False)
    zero = steps.indices(0) if stored else steps.number(0.0)
    bias = zero if node.inputs[BIAS] is None else node.inputs[BIAS]
    # In 8 bits hosts demand relu and leave it to the zero point of the result.
    activation = "none" if stored else node.attributes.get("activation", "none")
    if stored or activation == "tanh":
        total = steps.add("add", sums, bias, activation="none")
        steps.last("times_factor", total, numbers=last) if stored else steps.last("tanh", total)
    else:
        steps.last("add", sums, bias, activation=activation)
    return True


def _factors(steps: Decomposition, node: Node) -> tuple[Numbers, Numbers]:
    """Returns the two requantization factors: from sums over features to the memory, and from sums
    over time to results."""
    tensors = (*(node.operand(k) for k in (0, FEATURES, TIMES, MEMORY)), node.outputs[0])
    scales = (quantization.parameters(steps.editor.tensors[t])[0] for t in tensors)
    x, features, times, memory, y = scales
    first = factor_numbers(x * features, x * features / memory, 1.0)
    return first, factor_numbers(1.0, memory * times / y, y)


def _numbers(steps: Decomposition, node: Node, new: int, factor: Numbers) -> int:
    """Adds the node that requantizes the new features to stored numbers, as the memory holds
    them."""
    for tensor in (node.operand(MEMORY), *node.outputs[1:]):
        held = steps.editor.tensors[tensor]
        steps.editor.tensors[tensor] = replace(
            held, quantization=quantization.NUMBERS, keep_f32=True
        )
    made = steps.editor.tensor((), like=node.operand(MEMORY))
    steps.put(made, "times_factor", new, numbers=factor)
    return made


def _kept(steps: Decomposition, node: Node, new: int) -> int:
    """Adds the nodes that update the memory, and returns it as [batch, features, length]."""
    batch, (count, length) = steps.shape(new)[0], steps.shape(node.operand(TIMES))
    kept = steps.reshape(new, (batch, count, 1))
    if length > 1:
        old = steps.reshape(node.operand(MEMORY), (batch, count, length))
        corner, size = steps.indices((0, 0, 1)), steps.indices((batch, count, length - 1))
        kept = steps.add("concat", steps.add("slice", old, corner, size), kept, axis=2,
                         activation="none")  # fmt: skip
    if len(node.outputs) > 1:
        shape = steps.shape(node.outputs[1])
        steps.put(node.outputs[1], "reshape", kept, None, shape=shape)
    return kept


def _work(graph: Graph, node: Node) -> int:
    batch = graph.shape(node.operand())[0]
    return batch * sum(prod(graph.shape(node.operand(k))) for k in (FEATURES, TIMES))


ATTRIBUTES = "activation rank!"
OPS = (
    Op("svdf", refuse, shapes, lower_decomposed, "accumulate", types=("f32", "i16"), work=_work,
       kind="composite", decompose=decompose, states=((MEMORY, -1),), accumulates=False,
       operands="xxx?x"),
)  # fmt: skip
