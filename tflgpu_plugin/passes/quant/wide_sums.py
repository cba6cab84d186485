"""Computes layers of int16 values and int8 weights, whose sums hosts keep in 64 bits: splits the
values into digits, sums the products of each with the weights in float32, which is exact, and adds
up the sums (`ops.wide_total`)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import (
    FACTOR_UNIT,
    Array,
    EpilogueOp,
    Graph,
    Levels,
    Node,
    Tensor,
    quantization,
)
from tflgpu_plugin.ops import wide_total
from tflgpu_plugin.ops.reduce_forms import reduced_axes
from tflgpu_plugin.passes.quant import requantize
from tflgpu_plugin.passes.rewriter import Rewriter

WHOLE = EpilogueOp("whole")  # the result is an integer


def split(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node]:
    """Returns the nodes of a layer over int16. Raises ValueError for a layer that `support` should
    have refused."""
    weights = ops.rows()[node.op].weights
    assert weights is not None
    held, bias = e.tensors[node.operand(1)], _bias(e, node)
    numbers = requantize.stored_integers(held)
    found = wide_total.layer(graph, node, numbers, bias, weights.axis)
    if found is None:
        raise ValueError("a layer over int16 that is not exact")
    constant = e.add(requantize.retyped(held, numbers.astype(np.int16)))
    stated = node.inputs[3:]  # the shape of a transposed convolution's result
    operands = (constant, None, *stated) if stated else (constant,)
    made, sums = [], []
    for place in range(wide_total.SIZE // found.bits):
        made.append(_digit(e, node, 0, place * found.bits, found.bits))
        (digit,) = made[-1].outputs
        sums.append(e.add(_real(e, node.outputs[0])))
        part = e.node(node.op, (digit, *operands), (sums[-1],), [node], **node.attributes)
        made.append(replace(part, epilogue=(WHOLE,)))
    rows = e.constant(found.rows, dtype="i32", name="requantization")
    attributes = {"bits": found.bits, "numbers": (levels.scale, levels.least, levels.most)}
    attributes |= {"away": True} if found.away else {}
    made.append(replace(node, op="wide_total", inputs=(rows, *sums), attributes=attributes,
                        epilogue=()))  # fmt: skip
    return made


def product(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node]:
    """Returns the nodes of a product of two int16 matrices: one product for each pair of digits.
    Raises ValueError for a product that `support` should have refused."""
    table, bits = wide_total.product_rows(graph, node), max(wide_total.DIGITS)
    if table is None:
        raise ValueError("a product over int16 that is not exact")
    made, sums, places = [], [], []
    digits = [[_digit(e, node, k, place * bits, bits) for place in (0, 1)] for k in (0, 1)]
    for (first, left), (second, right) in itertools.product(*map(enumerate, digits)):
        places.append(first + second)
        sums.append(e.add(_real(e, node.outputs[0])))
        part = e.node(node.op, (*left.outputs, *right.outputs), (sums[-1],), [node],
                      **node.attributes)  # fmt: skip
        made.append(replace(part, epilogue=(WHOLE,)))
    rows = e.constant(table, dtype="i32", name="requantization")
    attributes = {"bits": bits, "numbers": (levels.scale, levels.least, levels.most),
                  "places": tuple(places)}  # fmt: skip
    total = replace(node, op="wide_total", inputs=(rows, *sums), attributes=attributes, epilogue=())
    return [*itertools.chain(*digits), *made, total]


def _digit(e: Rewriter, node: Node, operand: int, before: int, bits: int) -> Node:
    """Returns the node that makes a digit of an operand, after this many bits."""
    given = node.operand(operand)
    scale, _ = quantization.parameters(e.tensors[given])
    numbers = (scale, float(before), float(bits), float(before + bits == wide_total.SIZE))
    digit = e.add(_real(e, given))
    return e.node("digit", (given,), (digit,), [node], numbers=numbers)


def _integers(e: Rewriter, node: Node) -> Node:
    """Returns the node that makes integers of int16 values."""
    return _digit(e, node, 0, 0, wide_total.SIZE)


def mean(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node]:
    """Returns the nodes of a mean of int16, summed in int32 as in hosts."""
    scale, _ = quantization.parameters(e.tensors[node.operand()])
    axes = reduced_axes(graph, node)
    count = prod(graph.shape(node.operand())[axis] for axis in axes)
    fraction, shift = requantize.mean_factor(scale / levels.scale, count)
    factor = (1.0, *map(float, divmod(fraction, FACTOR_UNIT)), float(shift), levels.scale)
    limits = EpilogueOp("clip", None, (levels.least * levels.scale, levels.most * levels.scale))
    summed = _in_int32(e, node)
    rescaled = replace(node, op="times_factor", inputs=summed[-1].outputs,
                       attributes={"numbers": factor}, epilogue=(limits,))  # fmt: skip
    return [*summed, rescaled]


def total(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node] | None:
    """Returns the nodes of a sum of stored numbers, which hosts add in int32 and rescale in
    float32, where rounding decides ties: that of the numbers with their zero points, and then their
    zero points. None for results that round half to even, which hosts compute from real numbers."""
    if quantization.even(e.tensors[node.outputs[0]]):
        return None
    scale, zero = quantization.parameters(e.tensors[node.operand()])
    shape, factor = graph.shape(node.operand()), np.float32(scale) / np.float32(levels.scale)
    count = prod(shape[axis] for axis in reduced_axes(graph, node)) if zero else 0
    offset = e.constant(np.float32(zero * count))
    bias = np.float32(np.float32(-zero) * factor) * np.float32(count)
    steps = (("mul", (float(factor),)), ("add", (float(bias),)),
             ("fake_quant", (1.0, levels.least, levels.most, 1.0, 0.0)),
             ("mul", (levels.scale,)))  # fmt: skip
    summed, real = _in_int32(e, node), e.add(_real(e, node.outputs[0]))
    epilogue = tuple(EpilogueOp(op, None, given) for op, given in steps)
    rescaled = replace(node, op="add", inputs=(real, offset), attributes={}, epilogue=epilogue)
    return [*summed, e.node("cast", summed[-1].outputs, (real,), [node]), rescaled]


def _in_int32(e: Rewriter, node: Node) -> list[Node]:
    """Returns the nodes that add stored numbers in int32."""
    first = _integers(e, node)
    given, found = (
        e.add(replace(_real(e, tensor), dtype="i32"))
        for tensor in (first.outputs[0], node.outputs[0])
    )
    return [
        first,
        e.node("cast", first.outputs, (given,), [node]),
        e.node("reduce_sum", (given, *node.inputs[1:]), (found,), [node], **node.attributes),
    ]


def average(e: Rewriter, graph: Graph, node: Node, levels: Levels) -> list[Node]:
    """Returns the nodes of an average pooling of int16, which averages integers in float32."""
    first = _integers(e, node)
    rounding = ops.rows()[node.op].rounding
    assert rounding is not None
    (parts,) = rounding.parts(graph, node)
    steps = EpilogueOp("fake_quant", None, (1.0, levels.least, levels.most, parts, 0.0))
    unit = EpilogueOp("mul", None, (levels.scale,))
    return [first, replace(node, inputs=first.outputs, epilogue=(steps, unit))]


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
        raise ValueError("a layer over int16 whose bias is not a constant of integers")
    return data


def _real(e: Rewriter, tensor: int) -> Tensor:
    """Returns a tensor of integers in the shape of another."""
    held = e.tensors[tensor]
    return replace(held, name=f"{held.name}, part", dtype="f32", data=None, quantization=None,
                   variable=False, counted=None, keep_f32=True)  # fmt: skip
