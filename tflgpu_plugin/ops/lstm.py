"""`lstm_basic(x[B,I], prev_activation[B,D], weights[4D,I+D], bias[4D], prev_state[B,D])` ->
activation, state, and the host's two scratch outputs, which are not computed.

z = weights * [x, prev_activation] + bias, in blocks input gate, new input, forget gate, output
gate; state = sigmoid(z0) * tanh(z1) + sigmoid(z2) * prev_state; activation = sigmoid(z3) *
tanh(state). As `LstmCell` of tensorflow/lite/kernels/internal/reference/lstm_cell.h.
"""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.graph import Array, Graph, Node, Shape
from tflgpu_plugin.lowering import Lowering
from tflgpu_plugin.ops import Op
from tflgpu_plugin.target import Target

GATES = 4


def refuse(graph: Graph, node: Node, target: Target) -> str | None:
    """The basic LSTM: tanh, constant weights, no clipping, scratch outputs that nothing reads."""
    if node.attributes.get("activation", "tanh") != "tanh":
        return "A basic LSTM needs the tanh activation."
    if node.attributes.get("cell_clip") or node.attributes.get("proj_clip"):
        return "Clipping of an LSTM cell (cell_clip, proj_clip) is not supported."
    if len(node.inputs) != 5 or any(t is None for t in node.inputs):
        return "A basic LSTM needs five inputs."
    if graph.constant(node.inputs[2]) is None or graph.constant(node.inputs[3]) is None:
        return "The weights and bias of an LSTM must be constant."
    return _refuse_shapes(graph, node) or _refuse_scratch(graph, node)


def _refuse_shapes(graph: Graph, node: Node) -> str | None:
    x, h, weights, bias, c = (graph.shape(t) for t in _inputs(node))
    if len(x) != 2 or len(h) != 2 or 0 in x or 0 in h:
        return "A basic LSTM needs an input [B, I] and a previous activation [B, D], not empty."
    depth = h[1]
    wanted = [(x[0], depth), (GATES * depth, x[1] + depth), (GATES * depth,), (x[0], depth)]
    if [h, weights, bias, c] != wanted:
        return (
            f"The inputs of an LSTM over {list(x)} with {depth} units have shapes that do not fit."
        )
    return None


def _refuse_scratch(graph: Graph, node: Node) -> str | None:
    consumers, needed = graph.consumers(), graph.needed()
    if any(t in needed or t in consumers for t in node.outputs[2:]):
        return "The scratch outputs of a basic LSTM are not computed, but something reads them."
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Activation and state [B, D], scratch [B, I + D] and [B, 4 D]."""
    (batch, inputs), (_, units) = (graph.shape(t) for t in _inputs(node)[:2])
    every = [(batch, units), (batch, units), (batch, inputs + units), (batch, GATES * units)]
    return list(every[: len(node.outputs)])


def lower(low: Lowering, node: Node) -> None:
    """One launch: gates and update together."""
    x, h, weights, bias, c = _inputs(node)
    inputs, units = low.graph.shape(x)[1], low.graph.shape(h)[1]
    data, cell = low.geometry(x), low.geometry(h)
    depth = data.quads + cell.quads

    def pack(value: Array) -> Array:
        return pack_weights(value, inputs, units)

    low.dispatch(
        "lstm",
        node,
        {
            "x": low.stored(x),
            "h": low.stored(h),
            "c": low.stored(c),
            "weights": low.constant(
                weights, "lstm", inputs, vectors=cell.quads * GATES * depth * 4, pack=pack
            ),
            "bias": low.constant(
                bias, "lstm", vectors=cell.quads * GATES, pack=lambda value: pack_bias(value, units)
            ),
        },
        {"activation": node.outputs[0], "state": node.outputs[1]},
        (cell.batch * cell.quads, 1, 1),
        {"units": cell.quads, "in_quads": data.quads, "gate_threads": 16},
        fused=False,
    )


def pack_weights(weights: Array, inputs: int, units: int) -> Array:
    """[4D, I+D] as [unit quad][gate][input quad, then activation quad][input lane][unit lane], pads
    zero."""
    gates = weights.reshape(GATES, units, inputs + units)
    padded = [_pad(_pad(part, 2), 1) for part in (gates[:, :, :inputs], gates[:, :, inputs:])]
    joined = np.concatenate(padded, axis=2)
    split = joined.reshape(GATES, joined.shape[1] // 4, 4, joined.shape[2] // 4, 4)
    return np.ascontiguousarray(split.transpose(1, 0, 3, 4, 2), np.float32)


def pack_bias(bias: Array, units: int) -> Array:
    """[4D] as [unit quad][gate][unit lane], pads zero."""
    padded = _pad(bias.reshape(GATES, units), 1)
    return np.ascontiguousarray(padded.reshape(GATES, -1, 4).transpose(1, 0, 2), np.float32)


def _pad(array: Array, axis: int) -> Array:
    """Zeros up to a multiple of 4 along `axis`."""
    widths = [(0, -array.shape[axis] % 4 if k == axis else 0) for k in range(array.ndim)]
    return np.pad(array, widths)


def _inputs(node: Node) -> tuple[int, int, int, int, int]:
    x, h, weights, bias, c = node.inputs
    assert None not in node.inputs
    return x, h, weights, bias, c  # type: ignore[return-value]


def _work(graph: Graph, node: Node) -> int:
    weights = graph.shape(_inputs(node)[2])
    return graph.shape(_inputs(node)[0])[0] * weights[0] * weights[1]


OPS = (Op("lstm_basic", refuse, shapes, lower, "accumulate", work=_work),)
