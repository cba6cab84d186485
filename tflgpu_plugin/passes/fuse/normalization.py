"""Replaces normalizations of rows written as several nodes by `standardize` (x or x - mean, divided
by the square root of the mean of its squares plus epsilon), followed by scale and bias. Matches
scale and bias applied to the result or folded into the formula."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod

from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops.normalization import whole_rows
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.pattern import (
    Match,
    Pattern,
    Replacement,
    Rule,
    constant,
    named,
    number,
    op,
    rewrite,
)  # fmt: skip


def fuse_normalization(graph: Graph) -> Graph:
    """Replaces normalizations of rows written as several nodes by single ops."""
    return rewrite(graph, RULES)


def _of_rows(uses: DefUse, node: Node) -> bool:
    """Whether a node reduces the last axis and keeps it with extent 1."""
    axes, rank = uses.e.data(node.inputs[1]), len(uses.e.shape(node.operand()))
    if axes is None or not node.attributes.get("keep_dims"):
        return False
    return {int(axis) % rank for axis in axes.reshape(-1)} == {rank - 1}


def _standardized(centred: bool) -> Replacement:
    """Returns a replacement by `standardize`, followed by scale and bias if there are any."""

    def replacement(node: Node, match: Match) -> Sequence[Node] | None:
        e, x, epsilon = match.uses.e, match.tensors["x"], match.numbers["epsilon"]
        shape = e.shape(node.outputs[0])
        parts = (("mul", "scale"), ("add", "bias"))
        steps = [(step, match.tensors[name]) for step, name in parts if name in match.tensors]
        fits = isfinite(epsilon) and e.shape(x) == shape and whole_rows(shape, (len(shape) - 1,))
        if not fits or not all(_per_channel(e.shape(t), shape) for _, t in steps):
            return None
        results = [*(e.tensor(shape, like=node.outputs[0]) for _ in steps), node.outputs[0]]
        made = [e.node("standardize", (x,), results[:1], (node, *match.nodes),
                       epsilon=epsilon, centred=centred)]  # fmt: skip
        for (step, tensor), before, after in zip(steps, results, results[1:], strict=False):
            made.append(e.node(step, (before, tensor), (after,), (node,), activation="none"))
        return made

    return replacement


def _per_channel(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a constant of this shape has one value, or one per channel."""
    return prod(given) == 1 or prod(given) == given[-1] == shape[-1]


def _root(mean_square: Pattern) -> Pattern:
    return op("sqrt", mean_square + number("epsilon"))


def _factor(mean_square: Pattern) -> Pattern:
    """Matches the reciprocal of the root of the mean square plus epsilon, optionally times a
    scale."""
    root, square = _root(mean_square), mean_square + number("epsilon")
    inverse = op("rsqrt", square) | op("reciprocal", root) | 1 / root
    return named("factor", inverse | inverse * constant("scale"))


X, FACTOR = named("x"), named("factor")
MEAN = op("mean", X, where=_of_rows)
CENTRED = named("centred", X - MEAN)
SQUARE = op("reduce_mean_square", X, where=_of_rows)
VARIANCE = op("reduce_mean_square", CENTRED, where=_of_rows) | op(
    "mean", op("squared_difference", X, MEAN, commutes=True), where=_of_rows
)
# Expanded: x * factor, and the product of mean and factor subtracted, or negated and added.
BIAS, SCALED = constant("bias"), X * _factor(VARIANCE)
OFFSET, NEGATED = MEAN * FACTOR, -MEAN * FACTOR

RULES = (
    Rule("layer normalization", CENTRED * _factor(VARIANCE) | CENTRED / _root(VARIANCE),
         _standardized(centred=True), "torch.onnx before opset 17, Keras"),
    Rule("layer normalization, multiplied out",
         SCALED - OFFSET | SCALED + (NEGATED | BIAS - OFFSET | BIAS + NEGATED),
         _standardized(centred=True), "TensorFlow (tf.nn.batch_normalization), Keras"),
    Rule("RMS normalization", X * _factor(SQUARE) | X / _root(SQUARE),
         _standardized(centred=False), "torch.onnx of Llama, T5 and their kin"),
)  # fmt: skip
