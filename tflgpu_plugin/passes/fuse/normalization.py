"""Normalizations of rows that a model spells out become `standardize`: x - mean, or x itself, over
the root of the mean of its squares and a constant, with scale and bias beside it or multiplied in
beforehand.

What is matched gives the same value up to rounding; a step in between that something else reads
stays beside the single op.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node
from tflgpu_plugin.ops.normalization import whole_rows
from tflgpu_plugin.passes.layout.cleanup import clean
from tflgpu_plugin.passes.makers import Makers, either
from tflgpu_plugin.passes.rewriter import Rewriter

Centre = tuple[int, bool]  # a tensor, and whether its mean is taken off


@dataclass(frozen=True)
class _Factor:
    """What differences are multiplied by: one over their spread, and perhaps a scale."""

    centre: Centre
    epsilon: float
    nodes: tuple[Node, ...]
    scale: int | None = None


@dataclass(frozen=True)
class _Found:
    factor: _Factor
    nodes: tuple[Node, ...] = ()
    bias: int | None = None


def standardize(graph: Graph) -> Graph:
    """The op in place of the last node of each."""
    if not any("sqrt" in node.op for node in graph.nodes):  # rsqrt, too
        return graph
    e = Rewriter(graph)
    rows = _Rows(e)
    for node in graph.nodes:
        if not node.epilogue and rows.plain(node):
            found = rows.found(node)
            if found is not None:
                _put(e, node, found)
    if e.nodes == list(graph.nodes):
        return graph
    clean(e)
    return e.finish()


def _put(e: Rewriter, node: Node, found: _Found) -> None:
    factor = found.factor
    (x, centred), origin = factor.centre, (node, *found.nodes, *factor.nodes)
    steps = [("mul", factor.scale), ("add", found.bias)]
    given = [(op, tensor) for op, tensor in steps if tensor is not None]
    tensors = [e.tensor(e.shape(x), like=node.outputs[0]) for _ in given] + [node.outputs[0]]
    made = [e.node("standardize", (x,), tensors[:1], origin, epsilon=factor.epsilon,
                   centred=centred)]  # fmt: skip
    for (op, tensor), before, after in zip(given, tensors, tensors[1:], strict=False):
        made.append(e.node(op, (before, tensor), (after,), (node,), activation="none"))
    e.put(made, node)


class _Rows(Makers):
    """Who makes what of rows."""

    def found(self, node: Node) -> _Found | None:
        """What a node ends."""
        if node.attributes.get("activation", "none") != "none":
            return None
        kind = ops.traits(node.op).affine
        rule = {"": None, "factor": self._scaled, "divisor": self._divided}.get(kind, self._moved)
        found = rule(node) if rule else None
        if found is None:
            return None
        shape = self.e.shape(node.outputs[0])
        fits = self.e.shape(found.factor.centre[0]) == shape
        return found if fits and whole_rows(shape, (len(shape) - 1,)) else None

    def _scaled(self, node: Node) -> _Found | None:
        """Differences times their factor."""
        for value, tensor in either(node):
            factor = self._factor(tensor)
            if factor is not None and self._centre(value) == factor.centre:
                return _Found(factor)
        return None

    def _divided(self, node: Node) -> _Found | None:
        """Differences over their spread."""
        factor = self._root(node.operand(1))
        if factor is None or self._centre(node.operand()) != factor.centre:
            return None
        return _Found(factor)

    def _moved(self, node: Node) -> _Found | None:
        """x times the factor, and the bias less the mean times the factor."""
        for first, second in either(node):
            product = self.made_by(first, "mul")
            for x, tensor in either(product):
                factor = self._factor(tensor)
                if product is None or factor is None or factor.centre != (x, True):
                    continue
                rest = self._rest(node.op, second, tensor, x)
                if rest is not None:
                    nodes, bias = rest
                    return _Found(factor, (product, *nodes), bias)
            if node.op == "sub":
                break
        return None

    def _rest(
        self, op: str, tensor: int, factor: int, x: int
    ) -> tuple[tuple[Node, ...], int | None] | None:
        """The bias, if any, of what is added (`op`: or taken off), when all else of it is the mean
        of x, taken off, times the factor."""
        node = self.made_by(tensor, "mul", "add", "sub")
        if node is None:
            return None
        if node.op == "mul":
            for mean, other in either(node):
                negated = self.made_by(mean, "neg") if op == "add" else None
                if other != factor or (op == "add" and negated is None):
                    continue
                if self._mean(negated.operand() if negated else mean, x):
                    return (node, *([negated] if negated else [])), None
            return None
        for bias, other in either(node) if op == "add" else ():
            found = self._rest(node.op, other, factor, x)
            if found is not None and found[1] is None and self._per_channel(bias, x):
                return (node, *found[0]), bias
            if node.op == "sub":
                break
        return None

    def _factor(self, tensor: int) -> _Factor | None:
        """One over the spread, perhaps times a scale."""
        if (factor := self._inverse(tensor)) is not None:
            return factor
        node = self.made_by(tensor, "mul")
        for inverse, scale in either(node):
            factor = self._inverse(inverse)
            if node and factor and self._per_channel(scale, factor.centre[0]):
                return replace(factor, nodes=(node, *factor.nodes), scale=scale)
        return None

    def _inverse(self, tensor: int) -> _Factor | None:
        node = self.made_by(tensor, "rsqrt", "reciprocal", "div")
        if node is None:
            return None
        if node.op == "rsqrt":
            found = self._variance(node.operand())
        elif node.op == "div" and self.number(node.inputs[0]) != 1:
            return None
        else:
            found = self._root(node.operand(1 if node.op == "div" else 0))
        return found and replace(found, nodes=(node, *found.nodes))

    def _root(self, tensor: int) -> _Factor | None:
        node = self.made_by(tensor, "sqrt")
        found = self._variance(node.operand()) if node else None
        return replace(found, nodes=(node, *found.nodes)) if node and found else None

    def _variance(self, tensor: int) -> _Factor | None:
        """The mean of squares and a constant."""
        node = self.made_by(tensor, "add")
        for squares, constant in either(node):
            epsilon, mean = self.number(constant), self._of_rows(squares)
            if node is None or epsilon is None or not isfinite(epsilon) or mean is None:
                continue
            if mean.op == "reduce_mean_square":
                return _Factor(self._centre(mean.operand()), epsilon, (node, mean))
            square = self.made_by(mean.operand(), "squared_difference")
            for x, other in either(square):
                if square and self._mean(other, x):
                    return _Factor((x, True), epsilon, (node, mean, square))
        return None

    def _of_rows(self, tensor: int | None) -> Node | None:
        """A mean, or one of squares, along the last axis, which stays."""
        node = self.made_by(tensor, "mean", "reduce_mean_square")
        axes = self.e.data(node.inputs[1]) if node else None
        if node is None or axes is None or not node.attributes.get("keep_dims"):
            return None
        rank = len(self.e.shape(node.operand()))
        return node if {int(axis) % rank for axis in axes.reshape(-1)} == {rank - 1} else None

    def _mean(self, tensor: int | None, x: int) -> bool:
        node = self._of_rows(tensor)
        return node is not None and node.op == "mean" and node.operand() == x

    def _centre(self, tensor: int) -> Centre:
        """Of what a tensor is the difference from its mean, or the tensor itself."""
        node = self.made_by(tensor, "sub")
        if node is not None and self._mean(node.inputs[1], node.operand()):
            return node.operand(), True
        return tensor, False

    def _per_channel(self, tensor: int | None, x: int) -> bool:
        """Whether a constant has a value per channel, or one."""
        if tensor is None or self.e.data(tensor) is None:
            return False
        shape = self.e.shape(tensor)
        return prod(shape) == 1 or prod(shape) == shape[-1] == self.e.shape(x)[-1]
