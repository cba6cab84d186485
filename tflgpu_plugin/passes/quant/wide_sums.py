"""Computes layers of int16 values and int8 weights, whose sums hosts keep in 64 bits: splits the
values into digits, sums the products of each with the weights in float32, which is exact, and adds
up the sums (`ops.wide_total`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, EpilogueOp, Graph, Levels, Node, Tensor, quantization, short
from tflgpu_plugin.ops import wide_total
from tflgpu_plugin.passes.quant import requantize
from tflgpu_plugin.passes.rewriter import Rewriter

WHOLE = EpilogueOp("whole")  # the result is an integer


def split(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node] | None:
    """Returns the nodes of a layer over int16, None for other nodes. Raises ValueError for a layer
    that `support` should have refused."""
    weights = ops.weights(node)
    if weights is None or not short(e.tensors[node.operand()]):
        return None
    held, bias = e.tensors[node.operand(1)], _bias(e, node)
    numbers = requantize.whole_numbers(held)
    found = wide_total.layer(graph, node, numbers, bias, weights.axis)
    if found is None:
        raise ValueError("a layer over int16 that is not exact")
    constant = e.add(requantize.retyped(held, numbers.astype(np.int16)))
    made, sums = [], []
    scale, _ = quantization.parameters(e.tensors[node.operand()])
    digits = wide_total.SIZE // found.bits
    for place in range(digits):
        last = float(place == digits - 1)
        numbers_of = (scale, float(place * found.bits), float(found.bits), last)
        digit = e.add(_real(e, node.operand()))
        made.append(e.node("digit", (node.operand(),), (digit,), [node], numbers=numbers_of))
        sums.append(e.add(_real(e, node.outputs[0])))
        part = e.node(node.op, (digit, constant), (sums[-1],), [node], **node.attributes)
        made.append(replace(part, epilogue=(WHOLE,)))
    rows = e.constant(found.rows, dtype="i32", name="requantization")
    attributes = {"bits": found.bits, "numbers": (levels.scale, levels.least, levels.most)}
    attributes |= {"away": True} if found.away else {}
    made.append(replace(node, op="wide_total", inputs=(rows, *sums), attributes=attributes,
                        epilogue=()))  # fmt: skip
    return made


def _bias(e: Rewriter, node: Node) -> Array | None:
    """Returns the stored bias, which became an epilogue op; None where there is none."""
    given = ops.bias(node)
    if node.attributes.get("activation", "none") != "none" or len(node.epilogue) > 1:
        raise ValueError("a layer over int16 with more than a bias")
    if node.epilogue:
        given = node.epilogue[0].tensor if node.epilogue[0].op == "add" else None
    elif given is None:
        return None
    data = None if given is None else e.tensors[given].data
    if data is None or data.dtype.kind != "i":
        raise ValueError("a layer over int16 whose bias is no constant of integers")
    return data


def _real(e: Rewriter, tensor: int) -> Tensor:
    """Returns a tensor of integers in the shape of another."""
    held = e.tensors[tensor]
    return replace(held, name=f"{held.name}, part", dtype="f32", data=None, quantization=None,
                   variable=False, counted=None, wide=True)  # fmt: skip
