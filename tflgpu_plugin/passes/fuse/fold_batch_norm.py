"""Folds batch normalization, and other constant factors and offsets per channel, into the weights
and bias of the layer before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, EpilogueOp, Graph, Node
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_SCALED = 1 << 26  # elements of weights to fold factors into


def fold_batch_norm(graph: Graph) -> Graph:
    """Folds constant factors and offsets per channel after a layer into its weights and bias."""
    e = Rewriter(graph)
    for number, node in enumerate(e.nodes):
        weights = ops.weights(node)
        found = _affine(e, node, weights.axis) if weights else None
        if weights and found is not None:
            e.nodes[number] = _folded(e, node, *found, weights.axis)
    return e.finish() if e.nodes != list(graph.nodes) else graph


def _affine(e: Rewriter, node: Node, axis: int) -> tuple[Array, Array, int] | None:
    """Returns (scale, offset, count): the first `count` epilogue ops compute y * scale + offset.
    Returns None if folding them saves nothing (no factor and at most one offset)."""
    weights, data = node.inputs[1], e.data(node.inputs[1])
    if weights is None or data is None or data.size > MAX_SCALED or data.dtype != np.float32:
        return None
    channels = e.shape(node.outputs[0])[-1]
    if data.shape[axis] != channels or ops.bias(node) is not None:  # a bias would need scaling, too
        return None
    scale, offset = np.ones(channels), np.zeros(channels)
    steps = 0
    for each in node.epilogue:
        value = _value(e, node, each, channels)
        if value is None:
            break
        kind = ops.traits(each.op).affine
        if kind in ("term", "subtrahend"):
            offset = offset + (value if kind == "term" else -value)
        else:
            factor = value if kind == "factor" else 1 / value
            scale, offset = scale * factor, offset * factor
        steps += 1
    if not np.isfinite(scale).all() or not np.isfinite(offset).all() or not scale.all():
        return None
    return (scale, offset, steps) if steps > 1 or (scale != 1).any() else None


def _value(e: Rewriter, node: Node, each: EpilogueOp, channels: int) -> Array | None:
    """Returns the constant operand of an epilogue op as one float64 value per channel, else
    None."""
    kind = ops.traits(each.op).affine
    if not kind:
        return None
    if each.tensor is None:
        given: Array | None = np.array(each.parameters)
    else:
        given = e.per_channel(each.tensor, node.outputs[0])
    if given is None or (kind == "divisor" and not given.all()):
        return None
    return np.broadcast_to(given.reshape(-1).astype(np.float64), (channels,))


def _folded(e: Rewriter, node: Node, scale: Array, offset: Array, steps: int, axis: int) -> Node:
    weights, data = node.inputs[1], e.data(node.inputs[1])
    assert weights is not None and data is not None
    epilogue = node.epilogue[steps:]
    inputs = node.inputs
    if (scale != 1).any():
        along = [1] * data.ndim
        along[axis] = -1
        scaled = (data * scale.reshape(along)).astype(np.float32)
        inputs = (inputs[0], e.constant(scaled, name=e.tensors[weights].name), *inputs[2:])
    if offset.any():
        epilogue = (EpilogueOp("add", e.constant(offset.astype(np.float32))), *epilogue)
    return replace(node, inputs=inputs, epilogue=epilogue)
