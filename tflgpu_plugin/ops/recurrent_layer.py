"""A recurrent layer that the model spells out as a loop over the steps.

`recurrent_layer(x[T,B,I], weights[G*D,I], recurrent weights[G*D,D], bias[G*D]|None, h0[B,D],
c0[B,D]|None, content bias[D]|None)` -> y [steps,B,D], the last h [B,D], and for an LSTM the last c.
Without `every` y is only the last step, [1,B,D].

`cell` is an op of `recurrent` with its formulas and attributes: "lstm" with gates in the order
"ifco", "gru" (with the content bias if `linear`), "rnn". It runs the first `steps` of T steps, over
a `batch` of B."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.recurrent import too_large
from tflgpu_plugin.ops.table import Op

OWN = ("cell", "every", "steps", "batch")  # attributes; all others belong to the cell
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
X, WEIGHTS, RECURRENT, BIAS, HIDDEN, CELL, CONTENT_BIAS = range(7)


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires a recurrent layer of at most 512 units."""
    x, state = graph.shape(node.operand()), graph.shape(node.operand(HIDDEN))
    steps, batch = node.attributes["steps"], node.attributes["batch"]
    units = state[-1] if state else 0
    if len(x) != 3 or 0 in x or x[0] < steps or x[1] != batch:
        said = f"A loop of {steps} steps and a batch of {batch} cannot read the shape {list(x)}."
        return Refusal("shape.mismatch", said)
    if reason := too_large("A recurrent layer", steps, units):
        return reason
    rows = GATES[node.attributes["cell"]] * units
    lists = {WEIGHTS: (rows, x[2]), RECURRENT: (rows, units), BIAS: (rows,), HIDDEN: (x[1], units),
             CELL: (x[1], units), CONTENT_BIAS: (units,)}  # fmt: skip
    for position, wanted in lists.items():
        tensor = node.inputs[position]
        if tensor is not None and graph.shape(tensor) != wanted:
            said = "The weights and states of a recurrent layer have shapes that do not fit."
            return Refusal("shape.mismatch", said)
        constant = position not in (HIDDEN, CELL)
        if tensor is not None and constant and graph.constant(tensor) is None:
            return Refusal(
                "constant.required", "The weights of a recurrent layer must be constant."
            )
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of y and the states."""
    state = graph.shape(node.operand(HIDDEN))
    listed = node.attributes["steps"] if node.attributes["every"] else 1
    return [(listed, *state), *[state] * (2 if node.attributes["cell"] == "lstm" else 1)]


def decompose(steps: Decomposition, node: Node) -> bool:
    """Computes the input's part of all steps in one fully connected layer, then the cell's op."""
    x, weights, recurrent, bias, hidden, cell, content = node.inputs
    count, shape = node.attributes["steps"], steps.shape(node.operand())
    if count < shape[0]:
        x = steps.add("slice", x, steps.indices([0, 0, 0]), steps.indices([count, *shape[1:]]))
    z = steps.add("fully_connected", x, weights, bias, keep_num_dims=True, activation="none")
    more = {"lstm": (cell,), "gru": (content,), "rnn": ()}[node.attributes["cell"]]
    given = {name: value for name, value in node.attributes.items() if name not in OWN}
    every = node.attributes["every"]
    y, h, *rest = node.outputs
    outputs = (y if every else steps.editor.tensor((), like=z), h, *rest)
    steps.many(
        node.attributes["cell"], z, recurrent, hidden, *more, outputs=outputs, time_axis=0,
        reverse=False, **given,
    )  # fmt: skip
    if not every:
        steps.put(y, "reshape", h, None, shape=steps.shape(y))
    return True


def _work(graph: Graph, node: Node) -> int:
    weights = sum(prod(graph.shape(node.operand(k))) for k in (WEIGHTS, RECURRENT))
    return int(node.attributes["steps"] * node.attributes["batch"] * weights)


ATTRIBUTES = "activation batch! cell!=lstm|gru|rnn every! gates=ifco|iofc linear steps!"
OPS = (
    Op("recurrent_layer", refuse, shapes, lower_decomposed, "accumulate", work=_work,
       kind="composite", operands="xxx?x??", decompose=decompose, accumulates=False),
)  # fmt: skip
