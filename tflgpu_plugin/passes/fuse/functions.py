"""Replaces functions written as several nodes by single ops: powers, swish, GELU, means of
squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import pi, sqrt
from typing import Any

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, merged
from tflgpu_plugin.ops import unary
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.pattern import (
    Match,
    Replacement,
    Rule,
    named,
    number,
    op,
    product,
    rewrite,
)  # fmt: skip

POWERS = {2.0: "square", 3.0: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}


def fuse_functions(graph: Graph) -> Graph:
    """Replaces functions written as several nodes, such as GELU, by single ops."""
    return rewrite(graph, RULES)


def _from_0_to_6(uses: DefUse, node: Node) -> bool:
    return unary.step(node.op, node.attributes).parameters == (0.0, 6.0)


def _slope(uses: DefUse, node: Node) -> bool:
    """Whether a hard sigmoid has the parameters of hard swish: clip(x / 6 + 1 / 2, 0, 1)."""
    slope, middle = unary.step(node.op, node.attributes).parameters
    return uses.close(node, slope, 1 / 6) and uses.close(node, middle, 0.5)


def function(name: str, **attributes: Any) -> Replacement:
    """Returns a replacement that applies this op to x, for matches where x has the shape of the
    result."""

    def replacement(node: Node, match: Match) -> Sequence[Node] | None:
        x, e = match.tensors["x"], match.uses.e
        if e.shape(x) != e.shape(node.outputs[0]):
            return None
        kept = merged(node, *match.nodes)
        return [replace(node, op=name, inputs=(x,), attributes=attributes, **kept)]

    return replacement


def _power(node: Node, match: Match) -> Sequence[Node] | None:
    name = POWERS.get(match.numbers["exponent"])
    return function(name)(node, match) if name else None


def _mean_square(node: Node, match: Match) -> Sequence[Node]:
    inputs = (match.tensors["x"], *node.inputs[1:])
    return [replace(node, op="reduce_mean_square", inputs=inputs)]


def _variance(node: Node, match: Match) -> Sequence[Node] | None:
    """Returns the mean of squared differences from one mean per channel of an image. (`standardize`
    covers variances along the last axis.)"""
    averages = ops.traits(node.op).averages
    x, centre, e = match.tensors["x"], match.tensors["centre"], match.uses.e
    shapes = e.shape(match.nodes[1].outputs[0]), e.shape(node.outputs[0])
    if not (averages and averages(e.graph, node)) or (e.shape(x), e.shape(centre)) != shapes:
        return None
    return [replace(node, op="reduce_mean_square", inputs=(x, node.inputs[1], centre))]


X, CENTRE = named("x"), named("centre")
CUBE = op("cube", X) | op("square", X) * X
FROM_0_TO_6 = (
    op("clip", X + 3, where=_from_0_to_6)
    | op("relu6", X + 3)
    | op("add", X, 3, commutes=True, activation="relu6")
)
DIFFERENCE = op("squared_difference", X, CENTRE, commutes=True)

RULES = (
    Rule("power", op("pow", X, number("exponent")), _power, "every exporter"),
    Rule("square", X * X, function("square"), "every exporter"),
    Rule("swish", X * op("logistic", X), function("swish"),
         "torch.onnx (SiLU), Keras (swish)"),
    Rule("mish", X * op("tanh", op("softplus", X)), function("mish"), "torch.onnx (Mish)"),
    Rule("gelu", product(0.5, X, 1 + op("erf", X * sqrt(0.5))), function("gelu"),
         "torch.onnx (GELU), TensorFlow (tf.nn.gelu)"),
    Rule("gelu_tanh",
         product(0.5, X, 1 + op("tanh", sqrt(2 / pi) * (X + 0.044715 * CUBE))),
         function("gelu_tanh"), "torch.onnx (GELU, approximate='tanh'), TensorFlow"),
    Rule("hard_sigmoid", product(1 / 6, FROM_0_TO_6),
         function("hard_sigmoid", alpha=1 / 6, beta=0.5), "torch.onnx, Keras (ReLU of 6)"),
    Rule("hard_swish", product(1, X, op("hard_sigmoid", X, where=_slope)),
         function("hard_swish"), "torch.onnx (Hardswish before opset 14)"),
    Rule("hard_swish by limits", product(1 / 6, X, FROM_0_TO_6), function("hard_swish"),
         "Keras (MobileNet v3), Paddle2ONNX"),
    Rule("mean of squares", op("mean", op("square", X)), _mean_square, "every exporter"),
    Rule("variance of an image", op("mean", DIFFERENCE), _variance,
         "TensorFlow (tf.nn.moments)"),
)  # fmt: skip
