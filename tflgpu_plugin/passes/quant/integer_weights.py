"""Restores weights that a model stores in 8 bits to integers, with their scale as an epilogue op:
in memory they take one byte each (see `precision.byte_constants`), a quarter of float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, EpilogueOp, Graph, Node, Tensor
from tflgpu_plugin.passes.quant import requantize
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_OPERANDS = 3  # fused; leaves one storage buffer for scales per channel
EXACT = 0.01  # largest distance from a quantization level, in steps


def keep_integer_weights(graph: Graph) -> Graph:
    """Restores weights that a model stores in 8 bits to integers, with their scale as an epilogue
    op. Runs after passes that fold other factors into weights."""
    e = Rewriter(graph)
    for number, node in enumerate(e.nodes):
        weights = e.tensors[node.inputs[1]] if may_be_whole(node) else None  # type: ignore[index]
        found = None if weights is None else numbers_on_levels(weights)
        if weights is not None and found is not None:
            e.nodes[number] = _scaled(e, node, weights, found)
    return e.finish() if e.nodes != list(graph.nodes) else graph


def may_be_whole(node: Node) -> bool:
    operands = [each.tensor for each in node.epilogue if each.tensor is not None]
    weights = ops.weights(node)
    dense = weights and weights.axis == 0 and len(node.inputs) > 1 and node.inputs[1] is not None
    bare = ops.bias(node) is None  # the scale becomes the first epilogue op
    return bool(dense) and bare and len(operands) <= MAX_OPERANDS


def numbers_on_levels(weights: Tensor) -> Array | None:
    """Returns the stored numbers minus their zero point; None unless all weights are multiples of
    one scale, or of one scale per output."""
    held, data = weights.quantization, weights.data
    if held is None or data is None or data.dtype != np.float32:
        return None
    if len(held.scale) > 1 and (held.axis != 0 or data.shape[0] != len(held.scale)):
        return None
    numbers = requantize.stored_integers(weights)
    scale = np.asarray(held.scale, np.float32).reshape(-1, *(1,) * (data.ndim - 1))
    off = np.abs(data - numbers * scale) / scale
    small = np.abs(numbers).max(initial=0) <= requantize.MAX_WEIGHT
    return numbers.astype(np.int16) if small and off.max(initial=0.0) < EXACT else None


def _scaled(e: Rewriter, node: Node, weights: Tensor, numbers: Array) -> Node:
    assert weights.quantization is not None
    scale = weights.quantization.scale
    index = e.add(requantize.retyped(weights, numbers))
    if set(scale) == {1.0}:
        steps: tuple[EpilogueOp, ...] = ()
    elif len(scale) == 1:
        steps = (EpilogueOp("mul", None, (float(np.float32(scale[0])),)),)
    else:
        steps = (EpilogueOp("mul", e.constant(np.array(scale, np.float32))),)
    return replace(
        node, inputs=(node.inputs[0], index, *node.inputs[2:]), epilogue=(*steps, *node.epilogue)
    )
