"""Functions that a model spells out become single ops: powers, gates like swish and gelu, mean of
squares.

What is matched gives the same value up to rounding; a step in between that something else reads
stays beside the single op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import pi, sqrt
from typing import Any

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops import unary
from tflgpu_plugin.passes.layout.cleanup import clean
from tflgpu_plugin.passes.makers import Makers, either
from tflgpu_plugin.passes.rewriter import Rewriter

# Of what is made, if it has any.
ATTRIBUTES: dict[str, dict[str, Any]] = {"hard_sigmoid": {"alpha": 1 / 6, "beta": 0.5}}
POWERS = {2.0: "square", 3.0: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}


def recompose(graph: Graph) -> Graph:
    """Rule by rule over all nodes: later rules see what earlier ones made."""
    e = Rewriter(graph)
    view = Makers(e)
    changed = False
    for rule in RULES:
        for number, node in enumerate(e.nodes):
            if node.epilogue or not view.plain(node):
                continue
            found = rule(view, node)
            if found is not None:
                e.nodes[number] = view.replaced(node, *found, **ATTRIBUTES.get(found[0], {}))
                changed = True
    for number, node in enumerate(e.nodes):
        inputs = _squares(view, node) if node.op == "mean" and view.plain(node) else None
        if inputs is not None:
            e.nodes[number] = replace(node, op="reduce_mean_square", inputs=inputs)
            changed = True
    if changed:
        clean(e)
    return e.finish() if changed else graph


def _squares(view: Makers, node: Node) -> tuple[int | None, ...] | None:
    """The operands of a mean of squares in place of a mean: of a tensor, or, of an image, of its
    differences from a value per channel."""
    squares = view.made_by(node.inputs[0], "square")
    if squares is not None:
        return squares.inputs[0], *node.inputs[1:]
    averages = ops.traits(node.op).averages
    squares = view.made_by(node.inputs[0], "squared_difference")
    if squares is None or not (averages and averages(view.e.graph, node)):
        return None
    spread = view.e.shape(squares.outputs[0]), view.e.shape(node.outputs[0])
    for x, centre in either(squares):
        if (view.e.shape(x), view.e.shape(centre)) == spread:
            return x, node.inputs[1], centre
    return None


Found = tuple[str, int, list[Node]] | None


def _power(view: Makers, node: Node) -> Found:
    """x^2, sqrt(x) and the like, from a power with a constant exponent."""
    exponent = view.number(node.inputs[1]) if node.op == "pow" else None
    x = node.inputs[0]
    if exponent not in POWERS or x is None:
        return None
    return (POWERS[exponent], x, []) if _same_shape(view, node, x) else None


def _square(view: Makers, node: Node) -> Found:
    """x * x."""
    x = node.inputs[0]
    if node.op != "mul" or x is None or x != node.inputs[1] or _active(node):
        return None
    return "square", x, []


def _gated(view: Makers, node: Node) -> Found:
    """x * logistic(x) and x * tanh(softplus(x))."""
    if node.op != "mul" or _active(node):
        return None
    for x, gate in either(node):
        inner = view.made_by(gate, "logistic", "tanh")
        if inner is None:
            continue
        if inner.op == "logistic" and inner.inputs[0] == x:
            return "swish", x, [inner]
        soft = view.made_by(inner.inputs[0], "softplus")
        if inner.op == "tanh" and soft is not None and soft.inputs[0] == x:
            return "mish", x, [inner, soft]
    return None


def _gelu(view: Makers, node: Node) -> Found:
    """0.5 x (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)), the factors in
    any order."""
    scale, rest = _product(view, node)
    if len(rest) != 2 or not view.close(node, scale, 0.5):
        return None
    for x, gate in (rest, rest[::-1]):
        plus = view.made_by(gate, "add")
        inner = view.made_by(view.operand(plus, 1.0), "erf", "tanh")
        if plus is None or inner is None or not _same_shape(view, node, x):
            continue
        if inner.op == "erf" and _is_scaled(view, inner.inputs[0], x, sqrt(0.5)):
            return "gelu", x, [inner, plus]
        if inner.op == "tanh" and _is_cubic(view, inner.inputs[0], x):
            return "gelu_tanh", x, [inner, plus]
    return None


def _hard_swish(view: Makers, node: Node) -> Found:
    """x clip(x + 3, 0, 6) / 6, its factors in any order, and x hard_sigmoid(x) of that slope."""
    scale, rest = _product(view, node)
    if len(rest) != 2:
        return None
    for x, gate in (rest, rest[::-1]):
        found = _sixth(view, gate) if view.close(node, scale, 1.0) else None
        if found is None and view.close(node, scale, 1 / 6):
            found = _six_above(view, gate)
        if found and found[0] == x and _same_shape(view, node, x):
            return "hard_swish", x, found[1]
    return None


def _hard_sigmoid(view: Makers, node: Node) -> Found:
    """clip(x + 3, 0, 6) / 6."""
    scale, rest = _product(view, node)
    found = _six_above(view, rest[0]) if len(rest) == 1 else None
    if found is None or not view.close(node, scale, 1 / 6):
        return None
    return ("hard_sigmoid", *found) if _same_shape(view, node, found[0]) else None


def _sixth(view: Makers, gate: int) -> tuple[int, list[Node]] | None:
    """x, where a tensor is clip(x / 6 + 1 / 2, 0, 1)."""
    node = view.made_by(gate, "hard_sigmoid")
    if node is None:
        return None
    slope, middle = unary.step(node.op, node.attributes).parameters
    fits = view.close(node, slope, 1 / 6) and view.close(node, middle, 0.5)
    return (node.operand(), [node]) if fits else None


def _six_above(view: Makers, gate: int) -> tuple[int, list[Node]] | None:
    """x, where a tensor is clip(x + 3, 0, 6)."""
    node = view.made_by(gate, "clip", "relu6")
    if node is not None:
        limits = unary.step(node.op, node.attributes).parameters or (0.0, 6.0)
        plus, merged = view.made_by(node.operand(), "add"), [node]
    else:  # the sum has the limits as its activation
        plus, merged = view.producer.get(gate), []
        limits = (0.0, 6.0)
        if plus is None or plus.epilogue or plus.attributes.get("activation") != "relu6":
            return None
    x = view.operand(plus, 3.0) if plus and plus.op == "add" and view.plain(plus) else None
    return (x, [*merged, plus]) if x is not None and plus and limits == (0.0, 6.0) else None


def _product(view: Makers, node: Node) -> tuple[float, list[int]]:
    """A number and the other factors, where a node multiplies."""
    if ops.traits(node.op).affine not in ("factor", "divisor") or _active(node):
        return 1.0, []
    return view.product(node.outputs[0])


def _is_scaled(view: Makers, tensor: int | None, x: int, factor: float) -> bool:
    """Whether a tensor is x * factor."""
    node = view.made_by(tensor, "mul", "div")
    if node is None:
        return False
    if node.op == "mul":
        return view.operand(node, factor) == x
    divisor = view.number(node.inputs[1])
    return node.inputs[0] == x and divisor is not None and view.close(node, divisor, 1 / factor)


def _is_cubic(view: Makers, tensor: int | None, x: int) -> bool:
    """Whether a tensor is sqrt(2 / pi) (x + 0.044715 x^3)."""
    outer = view.made_by(tensor, "mul")
    total = view.made_by(view.operand(outer, sqrt(2 / pi)), "add")
    if total is None or x not in total.inputs:
        return False
    other = total.inputs[1 - total.inputs.index(x)]
    scaled = view.made_by(other, "mul")
    power = view.made_by(view.operand(scaled, 0.044715), "cube", "mul")
    if power is None:
        return False
    if power.op == "cube":
        return power.inputs[0] == x
    leaves = [view.made_by(t, "square") or t for t in power.inputs]
    whole = [t for t in leaves if isinstance(t, Node) and t.inputs[0] == x]
    return len(whole) == 1 and any(leaf == x for leaf in leaves)


def _active(node: Node) -> bool:
    return str(node.attributes.get("activation", "none")) != "none"


def _same_shape(view: Makers, node: Node, x: int) -> bool:
    return view.e.shape(x) == view.e.shape(node.outputs[0])


RULES: tuple[Callable[[Makers, Node], Found], ...] = (
    _power, _square, _gated, _gelu, _hard_sigmoid, _hard_swish,
)  # fmt: skip
