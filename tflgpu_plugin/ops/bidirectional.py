"""Layers over a sequence in both directions, as in bidirectional_sequence_lstm.cc and
bidirectional_sequence_rnn.cc of tensorflow/lite/kernels.

`bidirectional_lstm(x, 17 inputs of each direction, 2 states of each, 9 of an auxiliary input)` and
`bidirectional_rnn(x, 4 inputs of each direction, 3 of an auxiliary input)`, both with `merged`: the
results are y (or y forward and y backward) and then the new states.

x is [T,B,I] ([B,T,I] with `time_axis` 1). Each direction is computed by an `lstm_full` without
normalization weights, which gets x, the 17 inputs and the 2 states (output, cell) of the direction;
or by an `rnn_basic`, which gets x and its 4 inputs, the last of which is the state. Both get the
attributes of this op except `merged`, and `reverse` in the backward direction. With `merged` the
channels of both directions are concatenated in one y. All auxiliary inputs must be absent."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops import lstm, rnn_basic
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.table import Op

# The layer of a direction, the positions of the states, and the first auxiliary input.
LAYERS = {"bidirectional_lstm": lstm.OPS[1], "bidirectional_rnn": rnn_basic.OPS[0]}
STATES = {"bidirectional_lstm": (35, 36, 37, 38), "bidirectional_rnn": (4, 8)}
COUNT = {"bidirectional_lstm": 48, "bidirectional_rnn": 12}  # operands
AUXILIARY = {"bidirectional_lstm": 39, "bidirectional_rnn": 9}
LSTM_INPUTS = lstm.OUTPUT - lstm.INPUT  # inputs of a direction, without its states


def _directions(node: Node) -> tuple[Node, Node]:
    """Returns the forward and the backward layer as nodes; their results are their new states."""
    return _direction(node, 0), _direction(node, 1)


def _direction(node: Node, d: int) -> Node:
    given, count = node.inputs, len(STATES[node.op]) // 2
    if node.op == "bidirectional_rnn":
        mine = given[1 + 4 * d : 5 + 4 * d]
    else:
        first, held = 1 + LSTM_INPUTS * d, STATES[node.op][2 * d]
        mine = (*given[first : first + LSTM_INPUTS], *given[held : held + 2], *[None] * 4)
    attributes = {**node.attributes, "reverse": bool(d)}
    del attributes["merged"]
    return replace(
        node, op=LAYERS[node.op].name, inputs=(given[0], *mine), attributes=attributes,
        outputs=node.outputs[-2 * count :][d * count : (d + 1) * count],
    )  # fmt: skip


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires what a one-directional layer requires, in both directions; a sequence of rank 3; no
    auxiliary input."""
    if any(tensor is not None for tensor in node.inputs[AUXILIARY[node.op] :]):
        return Refusal(
            "input.unsupported", "An auxiliary input of a bidirectional layer is not supported."
        )
    if len(graph.shape(node.operand())) != 3:
        return Refusal("rank.unsupported", "A bidirectional layer needs a sequence of rank 3.")
    found = (LAYERS[node.op].refuse(graph, one, target) for one in _directions(node))
    return next(filter(None, found), None)


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shape of y, or of y forward and backward, and those of the states."""
    states = [graph.shape(node.operand(k)) for k in STATES[node.op]]
    channels = [state[1] for state in states[:: len(states) // 2]]
    if node.attributes["merged"]:
        channels = [sum(channels)]
    x = graph.shape(node.operand())
    return [*((*x[:2], count) for count in channels), *states]


def decompose(steps: Decomposition, node: Node) -> bool:
    """Replaces the node by both layers and, if `merged`, a concatenation of their results."""
    merged = node.attributes["merged"]
    made = []
    for one, result in zip(_directions(node), node.outputs, strict=False):
        ends = (None if merged else result, *one.outputs)
        made.append(steps.many(one.op, *one.inputs, outputs=ends, **one.attributes)[0])
    if merged:
        steps.last("concat", *made, axis=2, activation="none")
    return True


def _work(graph: Graph, node: Node) -> int:
    each = LAYERS[node.op].work
    assert each is not None
    return sum(each(graph, one) for one in _directions(node))


ATTRIBUTES = {
    "bidirectional_lstm": "activation cell_clip merged! proj_clip time_axis",
    "bidirectional_rnn": "activation merged! time_axis",
}
OPS = tuple(
    Op(name, refuse, shapes, lower_decomposed, "accumulate", work=_work, kind="composite",
       decompose=decompose, accumulates=False, operands="x".ljust(COUNT[name], "?"),
       states=tuple((before, k - len(states)) for k, before in enumerate(states)))
    for name, states in STATES.items()
)  # fmt: skip
