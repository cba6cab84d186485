"""Reductions over any set of axes: `mean(x, axes i32 constant): keep_dims`, and the other
`REDUCTIONS` of `reduce_forms`. `reduce_mean_square(x, axes, centre)` uses differences from a value
per result, over an image. Axes may be negative or repeated, as in `ResolveAxis` of
tensorflow/lite/kernels/internal/reference/reduce.h."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir.graph import MAX_FLOAT32, Array, Graph, Node, Shape
from tflgpu_plugin.ir.quantization import is_integer
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import wide_product
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.forms import Forms
from tflgpu_plugin.ops.reduce_forms import (
    FORMS,
    GROWING,
    WHOLE,
    Reduced,
    alternations,
    reduced_axes,
)  # fmt: skip
from tflgpu_plugin.ops.table import AVERAGED, Int16, Op, elements

MAX_MEANT = 46_341  # integers: as many remainders of a division by this number add up within int32


def _count(graph: Graph, node: Node) -> int:
    """Returns the number of elements that are reduced to one result."""
    return prod(graph.shape(node.operand())[axis] for axis in reduced_axes(graph, node))


def refuse_axis(graph: Graph, node: Node, most: int) -> Refusal | None:
    """Refuses a node unless it has one axis, which is constant and has at most `most` elements."""
    axes, shape = graph.constant(node.inputs[1]), graph.shape(node.operand())
    if axes is None or axes.size != 1:
        return Refusal("constant.required", f"{node.op} needs one constant axis.")
    try:
        (axis,) = reduced_axes(graph, node) or (0,)
    except ValueError as error:
        return Refusal("constant.invalid", str(error))
    if not shape or prod(shape) == 0 or shape[axis] > most:
        said = f"{node.op} supports axes of 1 to {most:,} elements, not {list(shape)}."
        return Refusal("shape.unsupported", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the output's shape: reduced axes become 1 (keep_dims) or are removed."""
    axes, keep = reduced_axes(graph, node), node.attributes["keep_dims"]
    extents = enumerate(graph.shape(node.operand()))
    return [tuple(1 if k in axes else n for k, n in extents if keep or k not in axes)]


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant axes; kept and reduced axes may alternate at most three times."""
    if graph.constant(node.inputs[1]) is None:
        return Refusal("constant.required", "The axes of a reduction must be constant.")
    shape = graph.shape(node.operand())
    try:
        axes = reduced_axes(graph, node)
    except ValueError as error:
        return Refusal("constant.invalid", str(error))
    if prod(shape) == 0:
        return Refusal("shape.empty", f"An input of {list(shape)} has no elements.")
    if max(alternations(shape, axes)) > 3:
        return Refusal("rank.too_large", "Reduced and kept axes alternate more than three times.")
    return None


def refuse_product(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant axes; kept and reduced axes may alternate at most three times; up to 65,534
    stored numbers, with scales that one factor of 15 bits holds."""
    return refuse(graph, node, target) or wide_product.refuse_quantized(graph, node)


def _decompose_log_sum_exp(steps: Decomposition, node: Node) -> bool:
    """Computes max + log(sum(exp(x - max))), with the maximum clamped to finite values."""
    x, axes = node.operand(), node.operand(1)
    top = steps.add("reduce_max", x, axes, keep_dims=True)
    top = steps.add("clip", top, low=-MAX_FLOAT32, high=MAX_FLOAT32)
    powers = steps.add("exp", steps.add("sub", x, top))
    total = steps.add("reduce_log_sum", powers, axes, keep_dims=True)
    if node.attributes["keep_dims"]:
        steps.last("add", total, top)
    else:
        shape = steps.shape(node.outputs[0])
        steps.last("reshape", steps.add("add", total, top), None, shape=shape)
    return True


def refuse_mean(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant axes; kept and reduced axes may alternate at most three times; at most
    46,341 integers."""
    refusal = refuse(graph, node, target)
    if refusal or not is_integer(graph.tensors[node.operand()]) or _count(graph, node) <= MAX_MEANT:
        return refusal
    said = f"A mean of {_count(graph, node):,} integers; up to {MAX_MEANT:,} are supported."
    return Refusal("shape.too_large", said)


def decompose_mean(steps: Decomposition, node: Node) -> bool:
    """Computes means of integers, truncated toward zero: quotients and remainders are summed
    separately, so that nothing exceeds int32."""
    x, axes = node.operand(), node.operand(1)
    if not is_integer(steps.editor.tensors[x]):
        return False
    kind = steps.editor.tensors[x].dtype
    zero, count = (steps.editor.constant(n, kind) for n in (0, _count(steps.graph, node)))
    quotient, left = (
        steps.add("reduce_sum", steps.add(op, x, count), axes, **node.attributes, unchecked=True)
        for op in ("div", "fmod")
    )
    low = steps.add("add", quotient, steps.add("floor_div", left, count))
    more = steps.add("floor_div", steps.add("neg", left), count)
    steps.last("maximum", low, steps.add("minimum", steps.add("sub", quotient, more), zero))
    return True


def _averages(graph: Graph, node: Node) -> bool:
    kept, shape = bool(node.attributes["keep_dims"]), graph.shape(node.operand())
    return kept and len(shape) == 4 and reduced_axes(graph, node) == {1, 2}


Numpy = Callable[..., Any]


def _meaning(function: Numpy, grows: bool) -> Callable[..., Array]:
    """Returns a reduction in numpy. If it `grows`, it raises OverflowError for results beyond 64
    bits."""

    def reduced(data: Array, axes: Array, keep_dims: bool) -> Array:
        listed = tuple(int(axis) for axis in axes.reshape(-1))
        if not listed:
            return data
        if not data.size and (data.ndim > 1 or function is np.mean):
            raise ValueError("hosts have rules of their own for these")
        options: Any = {"axis": listed, "keepdims": bool(keep_dims)}
        found = np.asarray(function(data, **options)).astype(data.dtype)
        if grows and np.any(np.abs(function(data.astype(np.float64), **options)) > EXACT):
            raise OverflowError
        return found

    return reduced


# Sums and products in numpy, exact for integers while below EXACT.
EXACT = 2.0**62
MEANINGS: Mapping[str, Numpy] = {
    "mean": np.mean, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod,
    "reduce_sum": np.sum,
}  # fmt: skip


def refuse_int16(graph: Graph, node: Node) -> Refusal | None:
    """Refuses means and sums of int16 that may exceed int32, in which hosts compute them."""
    shape = graph.shape(node.operand())
    if prod(shape[axis] for axis in reduced_axes(graph, node)) < 1 << 16:
        return None
    said = "Means and sums of 65,536 numbers of int16 or more are not supported."
    return Refusal("quantization.unsupported", said)


def _row(name: str, accuracy: str = "reduction", **traits: Any) -> Op:
    if name in WHOLE:
        # The maximum of bools is true if any of them is.
        traits |= {"types": ("f32", "i32", *(() if name in GROWING else ("bool",)))}
    if name in MEANINGS:
        traits |= {"meaning": _meaning(MEANINGS[name], name in GROWING), "inexact": True}
    return Op(name, refuse, shapes, Forms(Reduced.of, FORMS), accuracy, work=elements(),
              kind="reduction", fuses=True, accumulates=True, follows="reduced", operands="xx",
              **traits)  # fmt: skip


ATTRIBUTES = "keep_dims! saturates unchecked"
OPS = (
    # Errors of either sign average out, also in a sum, which is n times the mean.
    replace(_row("mean", errors=AVERAGED, decompose=decompose_mean, averages=_averages,
                 int16=Int16("mean", refuse_int16)), refuse=refuse_mean, types=("f32", "i32")),
    _row("reduce_sum", errors=AVERAGED, int16=Int16("sum", refuse_int16, bytes=True)),
    *(_row(name, errors=AVERAGED) for name in ("reduce_sum_square", "reduce_mean_square")),
    *(_row(name, "exact", same_quantization=True) for name in ("reduce_max", "reduce_min")),
    replace(_row("reduce_prod", stored=True, decompose=wide_product.decompose),
            refuse=refuse_product),
    *(_row(name) for name in ("reduce_l1", "reduce_l2", "reduce_log_sum")),
    Op("reduce_log_sum_exp", refuse, shapes, lower_decomposed, "reduction", work=elements(),
       kind="composite", accumulates=True, decompose=_decompose_log_sum_exp, operands="xx"),
)  # fmt: skip
