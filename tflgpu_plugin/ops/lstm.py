"""LSTM layers as hosts define them; those over sequences decompose into `lstm` of `recurrent`.

`lstm_basic(x[B,I], prev_activation[B,D], weights[4D,I+D], bias[4D], prev_state[B,D])` ->
activation, state, and the host's two scratch outputs, which are not computed. z = weights * [x,
prev_activation] + bias, in blocks input gate, new input, forget gate, output gate; state =
sigmoid(z0) * tanh(z1) + sigmoid(z2) * prev_state; activation = sigmoid(z3) * tanh(state), as
`LstmCell` in tensorflow/lite/kernels/internal/reference/lstm_cell.h.

`lstm_full(x, 4 input weights [D,I], 4 recurrent weights [D,P], 3 peepholes [D], 4 biases [D],
projection [P,D], its bias [P], prev_output[B,P], prev_state[B,D], 4 layer normalizations [D])` ->
y, output, state, with gates in the order input, forget, cell, output, as in
tensorflow/lite/kernels/lstm_eval.cc. x is [B,I], or [T,B,I] ([B,T,I] with `time_axis` 1); y has P
in place of I. Without the input gate's operands it is 1 - forget gate. Peepholes, projection, its
bias and normalizations (which scale the gates before the biases are added) may be absent. With
`reverse` the last step comes first. Layers over int8 (`integer_lstm`) have an attribute `hidden`:
scale and zero point that hosts give the output before a projection, also where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Shape, Target, Tensor, quantization
from tflgpu_plugin.ops import integer_lstm
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.lowering import Kernel, Lowering, Stores
from tflgpu_plugin.ops.quantized import factor_numbers
from tflgpu_plugin.ops.recurrent import too_large
from tflgpu_plugin.ops.recurrent_weights import in_slices
from tflgpu_plugin.ops.table import Op

GATES = 4
# Positions of the inputs of lstm_full.
INPUT, RECURRENT, PEEPHOLE, BIAS, PROJECTION, PROJECTION_BIAS, OUTPUT, STATE, NORM = (
    1, 5, 9, 12, 16, 17, 18, 19, 20,
)  # fmt: skip
FULL = 24
WEIGHTS = (*range(INPUT, OUTPUT), *range(NORM, FULL))


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires the basic LSTM: the activation tanh, constant weights, no clipping, and scratch
    outputs that nothing reads."""
    if node.attributes.get("activation", "tanh") != "tanh":
        return Refusal("activation.unsupported", "A basic LSTM needs the tanh activation.")
    if node.attributes.get("cell_clip") or node.attributes.get("proj_clip"):
        said = "Clipping of an LSTM cell (cell_clip, proj_clip) is not supported."
        return Refusal("attribute.unsupported", said)
    if len(node.inputs) != 5 or any(t is None for t in node.inputs):
        return Refusal("input.missing", "A basic LSTM needs five inputs.")
    if graph.constant(node.inputs[2]) is None or graph.constant(node.inputs[3]) is None:
        return Refusal("constant.required", "The weights and bias of an LSTM must be constant.")
    return _refuse_shapes(graph, node) or _refuse_scratch(graph, node)


def _refuse_shapes(graph: Graph, node: Node) -> Refusal | None:
    x, h, weights, bias, c = (graph.shape(node.operand(k)) for k in range(5))
    if len(x) != 2 or len(h) != 2 or 0 in x or 0 in h:
        said = "A basic LSTM needs an input [B, I] and a previous activation [B, D], not empty."
        return Refusal("shape.unsupported", said)
    depth = h[1]
    wanted = [(x[0], depth), (GATES * depth, x[1] + depth), (GATES * depth,), (x[0], depth)]
    if [h, weights, bias, c] != wanted:
        return Refusal(
            "shape.mismatch",
            f"The inputs of an LSTM over {list(x)} with {depth} units have shapes that do not fit.",
        )
    return None


def _refuse_scratch(graph: Graph, node: Node) -> Refusal | None:
    consumers, needed = graph.consumers(), graph.needed()
    if any(t in needed or t in consumers for t in node.outputs[2:]):
        said = "The scratch outputs of a basic LSTM are not computed, but something reads them."
        return Refusal("output.unsupported", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of activation and state [B, D], and scratch [B, I + D] and [B, 4 D]."""
    (batch, inputs), (_, units) = (graph.shape(node.operand(k)) for k in range(2))
    every = [(batch, units), (batch, units), (batch, inputs + units), (batch, GATES * units)]
    return list(every[: len(node.outputs)])


def lower(low: Lowering, node: Node) -> None:
    """Records one launch that computes gates and update."""
    x, h, weights, bias, c = (node.operand(k) for k in range(5))
    inputs, units = low.graph.shape(x)[1], low.graph.shape(h)[1]
    data, cell = low.geometry(x), low.geometry(h)
    depth = data.slices + cell.slices
    low.dispatch(
        Kernel("lstm", {"units": cell.slices, "in_slices": data.slices, "gate_threads": 16}),
        node,
        {
            "x": low.stored(x),
            "h": low.stored(h),
            "c": low.stored(c),
            "weights": low.constant(
                weights,
                "lstm",
                inputs,
                vectors=cell.slices * GATES * depth * 4,
                pack=lambda v: pack_weights(v, inputs, units),
                half=True,
            ),
            "bias": low.constant(
                bias, "lstm", vectors=cell.slices * GATES, pack=lambda v: pack_bias(v, units)
            ),
        },
        {"activation": node.outputs[0], "state": node.outputs[1]},
        (cell.batch * cell.slices, 1, 1),
        stores=Stores(fused=False),
    )


def pack_weights(weights: Array, inputs: int, units: int) -> Array:
    """Returns weights [4D, I+D] as [unit slice][gate][input slice, then activation slice][input
    lane][unit lane], padded with zeros."""
    gates = weights.reshape(GATES, units, inputs + units)
    padded = [
        in_slices(in_slices(part, 2), 1) for part in (gates[:, :, :inputs], gates[:, :, inputs:])
    ]
    joined = np.concatenate(padded, axis=2)
    split = joined.reshape(GATES, joined.shape[1] // 4, 4, joined.shape[2] // 4, 4)
    return np.ascontiguousarray(split.transpose(1, 0, 3, 4, 2), np.float32)


def pack_bias(bias: Array, units: int) -> Array:
    """Returns the bias [4D] as [unit slice][gate][unit lane], padded with zeros."""
    padded = in_slices(bias.reshape(GATES, units), 1)
    return np.ascontiguousarray(padded.reshape(GATES, -1, 4).transpose(1, 0, 2), np.float32)


def _work(graph: Graph, node: Node) -> int:
    return graph.shape(node.operand())[0] * prod(graph.shape(node.operand(2)))


def refuse_full(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant weights, tanh, at most 512 units, and optional operands present in full or
    absent."""
    if node.attributes.get("activation", "tanh") != "tanh":
        return Refusal("activation.unsupported", "An LSTM needs the tanh activation.")
    if len(node.inputs) != FULL:
        return Refusal("input.missing", f"An LSTM needs {FULL} inputs, present or not.")
    present = [t is not None for t in node.inputs]
    if len(graph.shape(node.operand())) not in (2, 3):
        return Refusal("rank.unsupported", "An LSTM needs an input of rank 2 or 3.")
    for tensor in (node.inputs[k] for k in WEIGHTS):
        if tensor is not None and graph.constant(tensor) is None:
            return Refusal("constant.required", "The weights of an LSTM must be constant.")
    needed = [*range(INPUT + 1, INPUT + 4), *range(RECURRENT + 1, RECURRENT + 4),
              *range(BIAS + 1, BIAS + 4), OUTPUT, STATE]  # fmt: skip
    if not all(present[k] for k in needed):
        return Refusal(
            "input.missing",
            "An LSTM needs the weights and biases of all gates but the input gate, and its state.",
        )
    if not present[INPUT] == present[RECURRENT] == present[BIAS]:
        return Refusal(
            "input.missing", "An LSTM needs the weights and the bias of its input gate together."
        )
    if present[PEEPHOLE + 1] != present[PEEPHOLE + 2]:
        return Refusal("input.missing", "An LSTM needs the peepholes of all its gates together.")
    if any(present[NORM:]) and present[NORM:] != present[INPUT:RECURRENT]:
        return Refusal(
            "input.missing", "An LSTM needs the layer normalization of all its gates together."
        )
    return _refuse_extents(graph, node) or _refuse_quantized(graph, node)


def _refuse_quantized(graph: Graph, node: Node) -> Refusal | None:
    """Refuses 8-bit layers with optional parts, and such that hosts do not compute so."""
    x, output, state = (graph.tensors[node.operand(k)] for k in (0, OUTPUT, STATE))
    if not quantization.quantized(x):
        if output.dtype == state.dtype == "f32":
            return None
        said = "An LSTM over float32 values needs a state of float32 values."
        return Refusal("dtype.mismatch", said)
    if any(node.inputs[k] is not None for k in (*range(PEEPHOLE, BIAS), PROJECTION, NORM + 1)):
        return Refusal(
            "attribute.unsupported",
            "Peepholes, projections and layer normalization of an LSTM in 8 bits are not "
            "supported.",
        )
    if node.inputs[INPUT] is None:
        return Refusal(
            "attribute.unsupported", "Coupled gates of an LSTM in 8 bits are not supported."
        )
    return integer_lstm.refuse(_layer(graph.tensors, node), node.attributes.get("hidden", ()))


def _layer(tensors: Mapping[int, Tensor], node: Node) -> integer_lstm.Layer:
    """Returns the tensors of a layer in 8 bits."""

    def gates(first: int) -> list[Tensor]:
        return [tensors[node.operand(first + gate)] for gate in range(GATES)]

    others = (tensors[t] for t in (node.operand(OUTPUT), node.operand(STATE), node.outputs[0]))
    weights, recurrent, biases = map(gates, (INPUT, RECURRENT, BIAS))
    return integer_lstm.Layer(tensors[node.operand()], weights, recurrent, biases, *others)


def _refuse_extents(graph: Graph, node: Node) -> Refusal | None:
    """Refuses weights and states whose shapes do not fit the input, cells and output, and layers
    that are too large."""
    given = [None if t is None else graph.shape(t) for t in node.inputs]
    cells, outputs = given[INPUT + 1], given[RECURRENT + 1]
    if cells is None or outputs is None or len(cells) != 2 or len(outputs) != 2:
        return Refusal("rank.unsupported", "The weights of an LSTM must be matrices.")
    units, batch = cells[0], _batch(graph, node)
    wanted = [*[(units, (given[0] or (0,))[-1])] * 4, *[(units, outputs[1])] * 4, *[(units,)] * 7,
              (outputs[1], units), (outputs[1],), (batch, outputs[1]), (batch, units),
              *[(units,)] * 4]  # fmt: skip
    if any(have is not None and have != want for have, want in zip(given[1:], wanted, strict=True)):
        said = "The weights and states of an LSTM have shapes that do not fit its input."
        return Refusal("shape.mismatch", said)
    x = graph.shape(node.operand())
    steps = x[node.attributes.get("time_axis", 0)] if len(x) == 3 else 1
    return too_large("An LSTM", steps, max(units, outputs[1]))


def _batch(graph: Graph, node: Node) -> int:
    x = graph.shape(node.operand())
    return x[0] if len(x) == 2 else x[1 - node.attributes.get("time_axis", 0)]


def shapes_full(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shapes of y and of the last output and state."""
    output, state = (graph.shape(node.operand(k)) for k in (OUTPUT, STATE))
    x = graph.shape(node.operand())
    return [(*x[:-1], output[1]), output, state]


def decompose_full(steps: Decomposition, node: Node) -> bool:
    """Computes the input's part of all gates and steps in one fully connected layer, then
    `lstm`."""
    x, projection = node.operand(), node.inputs[PROJECTION]
    if quantization.quantized(steps.editor.tensors[x]):
        return _decompose_integers(steps, node)
    order = "fco" if node.inputs[INPUT] is None else "ifco"
    weights, recurrent, biases = (_gates(steps, node, k, order) for k in (INPUT, RECURRENT, BIAS))
    norm = None
    if node.inputs[NORM + 1] is not None:  # biases are added after the normalization
        norm = steps.number(np.stack([_gates(steps, node, NORM, order), biases]))
    z = steps.add("fully_connected", _sequence(steps, x), steps.number(weights),
                  steps.number(biases) if norm is None else None,
                  keep_num_dims=True, activation="none")  # fmt: skip
    inputs = (z, steps.number(recurrent), node.inputs[OUTPUT], node.inputs[STATE],
              _peepholes(steps, node), projection, node.inputs[PROJECTION_BIAS], norm)  # fmt: skip
    clips = {
        "cell_clip": float(node.attributes.get("cell_clip", 0.0)),
        "projection_clip": node.attributes.get("proj_clip", 0.0),
    }
    return _recur(steps, node, inputs, gates=order, **clips)


def _decompose_integers(steps: Decomposition, node: Node) -> bool:
    """Computes the sums over the input in one layer of integers, then `lstm` in 16 bits."""
    layer = _layer(steps.editor.tensors, node)
    unit = factor_numbers(quantization.parameters(layer.x)[0], 1.0, 1.0)
    whole = steps.add("times_factor", node.operand(), numbers=unit)
    weights, recurrent = (
        steps.number(np.concatenate([integer_lstm.integers(part) for part in parts]))
        for parts in (layer.weights, layer.recurrent)
    )
    z = steps.add("fully_connected", _sequence(steps, whole), weights, None, keep_num_dims=True,
                  activation="none")  # fmt: skip
    clip = float(node.attributes.get("cell_clip", 0.0))
    inputs = (z, recurrent, node.inputs[OUTPUT], node.inputs[STATE], *[None] * 5,
              steps.number(integer_lstm.numbers(layer)))  # fmt: skip
    stored = integer_lstm.stored(layer, node.attributes["hidden"], clip)
    return _recur(steps, node, inputs, gates="ifco", stored=stored)


def _sequence(steps: Decomposition, x: int) -> int:
    """Returns x as a sequence, which has one step if x is a matrix."""
    shape = steps.shape(x)
    return steps.reshape(x, (1, *shape)) if len(shape) == 2 else x


def _recur(
    steps: Decomposition, node: Node, inputs: tuple[int | None, ...], **attributes: Any
) -> bool:
    """Adds the recurrent layer with these inputs, which computes the results of the node."""
    flat = len(steps.shape(node.operand())) == 2
    attributes |= {
        "time_axis": 0 if flat else node.attributes.get("time_axis", 0),
        "reverse": node.attributes.get("reverse", False),
    }
    if flat:
        first = steps.editor.tensor((), like=next(t for t in inputs if t is not None))
        (y, *_) = steps.many("lstm", *inputs, outputs=(first, *node.outputs[1:]), **attributes)
        steps.last("reshape", y, None, shape=steps.shape(node.outputs[0]))
    else:
        steps.many("lstm", *inputs, outputs=node.outputs, **attributes)
    return True


def _gates(steps: Decomposition, node: Node, start: int, order: str) -> Array:
    """Returns the weights of all gates that are present as one array; those of the first gate are
    input `start`."""
    present = range(GATES - len(order), GATES)
    return np.concatenate([_gate(steps, node, start + k) for k in present])


def _gate(steps: Decomposition, node: Node, position: int) -> Array:
    tensor = steps.editor.tensors[node.operand(position)]
    assert tensor.data is not None
    return tensor.data


def _peepholes(steps: Decomposition, node: Node) -> int | None:
    """Returns the peepholes of input, forget and output gate as one constant; zeros if only the
    input gate's are absent."""
    if node.inputs[PEEPHOLE + 1] is None:
        return None
    others = [_gate(steps, node, PEEPHOLE + k) for k in (1, 2)]
    own = node.inputs[PEEPHOLE]
    first = np.zeros_like(others[0]) if own is None else _gate(steps, node, PEEPHOLE)
    return steps.number(np.stack([first, *others]))


def _work_full(graph: Graph, node: Node) -> int:
    x = graph.shape(node.operand())
    weights = sum(prod(graph.shape(t)) for t in node.inputs[1:PEEPHOLE] if t is not None)
    return prod(x[:-1]) * weights


ATTRIBUTES = {
    "lstm_basic": "activation cell_clip proj_clip",
    "lstm_full": "activation cell_clip hidden[2] proj_clip time_axis",
}
OPS = (
    Op(
        "lstm_basic", refuse, shapes, lower, "accumulate", work=_work, states=((1, 0), (4, 1)),
        kind="product", operands="xxxxx", accumulates=False,
    ),
    Op(
        "lstm_full", refuse_full, shapes_full, lower_decomposed, "accumulate", work=_work_full,
        decompose=decompose_full, states=((OUTPUT, -2), (STATE, -1)),
        kind="composite", operands="x".ljust(FULL, "?"), accumulates=False,
    ),
)  # fmt: skip
