"""`rnn_basic(x, weights [D,I], recurrent weights [D,D], bias [D], h0 [B,D]): activation, time_axis`
-> y, last h: a recurrent layer as in TFLite, implemented by `rnn` of `recurrent`. x is [B,I], one
step, or [T,B,I] ([B,T,I] with `time_axis` 1); y has D in place of I. With `reverse` the last step
comes first. h = activation(weights x + recurrent weights h + bias), as in
tensorflow/lite/kernels/kernel_utils.cc."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.gate_functions import BASIC_FUNCTIONS
from tflgpu_plugin.ops.recurrent import too_large
from tflgpu_plugin.ops.table import Op

WEIGHTS, RECURRENT, BIAS, STATE = 1, 2, 3, 4


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant weights of shapes that fit, at most 512 units, and an activation that `rnn`
    has."""
    activation = node.attributes.get("activation", "none")
    if activation not in BASIC_FUNCTIONS:
        said = f"A recurrent layer with the activation {activation} is not supported."
        return Refusal("activation.unsupported", said)
    if any(graph.constant(node.operand(k)) is None for k in (WEIGHTS, RECURRENT, BIAS)):
        return Refusal("constant.required", "The weights of a recurrent layer must be constant.")
    x, weights, *others = (graph.shape(node.operand(k)) for k in range(5))
    if len(x) not in (2, 3) or len(weights) != 2 or 0 in (*x, *weights):
        said = "A recurrent layer needs an input of rank 2 or 3 and matrices, none of them empty."
        return Refusal("rank.unsupported", said)
    axis = node.attributes.get("time_axis", 0)
    units, (steps, batch) = weights[0], (1, x[0]) if len(x) == 2 else (x[axis], x[1 - axis])
    if reason := too_large("A recurrent layer", steps, units):
        return reason
    if weights[1] != x[-1] or others != [(units, units), (units,), (batch, units)]:
        said = "The weights and the state of a recurrent layer have shapes that do not fit."
        return Refusal("shape.mismatch", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    x, state = graph.shape(node.operand()), graph.shape(node.operand(STATE))
    return [(*x[:-1], state[1]), state]


def decompose(steps: Decomposition, node: Node) -> bool:
    """Computes the input's part of all steps in one fully connected layer, then `rnn`."""
    x, weights, recurrent, bias, state = (node.operand(k) for k in range(5))
    shape = steps.shape(x)
    sequence = x if len(shape) == 3 else steps.reshape(x, (1, *shape))
    z = steps.add("fully_connected", sequence, weights, bias, keep_num_dims=True, activation="none")
    first = steps.editor.tensor((), like=z)
    axis = node.attributes.get("time_axis", 0) if len(shape) == 3 else 0
    given = {"activation": node.attributes["activation"], "time_axis": axis,
             "reverse": node.attributes.get("reverse", False)}  # fmt: skip
    (y, *_) = steps.many("rnn", z, recurrent, state, outputs=(first, *node.outputs[1:]), **given)
    steps.last("reshape", y, None, shape=steps.shape(node.outputs[0]))
    return True


def _work(graph: Graph, node: Node) -> int:
    weights = sum(prod(graph.shape(node.operand(k))) for k in (WEIGHTS, RECURRENT))
    return prod(graph.shape(node.operand())[:-1]) * weights


ATTRIBUTES = "activation reverse time_axis"
OPS = (
    Op("rnn_basic", refuse, shapes, lower_decomposed, "accumulate", work=_work, kind="composite",
       decompose=decompose, operands="xxxxx", states=((STATE, -1),), accumulates=False),
)  # fmt: skip
