"""Estimates how much of an error made inside a graph reaches its outputs, from the weights alone: a
first-order analysis of rounding errors that reads every weight once.

Independent errors of values are propagated as mean squares from the outputs back to their origin: a
product with weights w passes on w^2, a sum adds. A ReLU passes on one half (K. He and others,
"Delving Deep into Rectifiers", 2015, section 2.2, derives this for the values). Values are assumed
to have magnitude 1: training keeps them there by normalizations, whose scales are now part of the
weights. So large weights mean small inputs or cancelling terms, and both make errors matter more.
Outputs have the magnitude that the last weights and biases give.

If the position of a value depends on a maximum of others, any error can move it, which makes the
result there entirely wrong: such errors count as infinite.

Unknown ops pass errors on unchanged."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

from tflgpu_plugin import ops
from tflgpu_plugin.ir import BFLOAT16, Array, EpilogueOp, Graph, Node, planar
from tflgpu_plugin.ops.table import GATE, Weights

Sensitivity = npt.NDArray[np.float64]  # one per channel of a tensor

REAL = ("f32", "f16", "bool", BFLOAT16)  # dtypes that propagate errors
TINY, SMALL_ERROR = sys.float_info.min, 2.0**-126  # the least normal numbers of float64 and float32


def sensitivities(graph: Graph) -> dict[int, float]:
    """Returns, for each float tensor that the outputs depend on, the mean square error of an
    output, relative to the square of its magnitude and summed over outputs, when every value of the
    tensor has an error of mean square 1 (for a constant, a relative error of mean square 1)."""
    walk = Walk(graph)
    with np.errstate(over="ignore", invalid="ignore"):
        for tensor in graph.outputs:
            walk.give(tensor, np.full(1, 1.0 / max(walk.square(tensor), TINY)))
        for node in reversed(graph.nodes):
            walk.node(node)
        sums = {tensor: float(sensitivity.sum()) for tensor, sensitivity in walk.found.items()}
    return {tensor: np.inf if np.isnan(total) else total for tensor, total in sums.items()}


@dataclass
class Walk:
    """A walk from the outputs back to the inputs. `found` holds a tensor's sensitivity by
    channel."""

    graph: Graph
    found: dict[int, Sensitivity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producers = self.graph.producers()
        means = [node for node in self.graph.nodes if ops.traits(node.op).errors.averages]
        inside = [node for node in means if self.graph.tensors[node.outputs[0]].keep_f32]
        inside += [node for node in self.graph.nodes if ops.traits(node.op).errors.normalizes]
        self.normalized = {tensor for node in inside for tensor in node.reads}

    def give(self, tensor: int | None, sensitivity: Sensitivity) -> None:
        """Adds to the sensitivity of a tensor; with a different number of channels, spreads the sum
        over them."""
        if tensor is None or self.graph.tensors[tensor].dtype not in REAL:
            return
        channels = 1 if self.graph.constant(tensor) is not None else self.channels(tensor)
        if len(sensitivity) != channels:
            sensitivity = np.full(channels, sensitivity.sum() / channels)
        self.found[tensor] = (
            self.found[tensor] + sensitivity if tensor in self.found else sensitivity
        )

    def node(self, node: Node) -> None:
        """Propagates the sensitivity of a node's results to its inputs and to the operands of its
        epilogue."""
        given = [self.found[t] for t in node.outputs if t in self.found]
        if not given:
            return
        sensitivity = given[0] if len(given) == 1 else np.full(1, sum(part.sum() for part in given))
        for each in reversed(node.epilogue):
            sensitivity = self._before(each, sensitivity)
        errors = ops.traits(node.op).errors
        if errors.choice is not None and node.outputs[errors.choice] in self.found:
            sensitivity = np.full(1, np.inf)
        if (weights := self._weights(node)) is not None:
            self._product(node, weights, sensitivity)
        elif ops.rows()[node.op].joins:
            self._parts(node, sensitivity)
        else:
            sensitivity = sensitivity * errors.passes
            for tensor in node.inputs:
                share = self._terms(node, tensor) if errors.averages else 1
                self.give(tensor, sensitivity / share)

    def square(self, tensor: int) -> float:
        """Returns the mean square of a tensor that is computed with weights, 1 for any other."""
        node = self.producers.get(tensor)
        if node is None:
            return 1.0
        if ops.traits(node.op).errors.keeps_magnitude:
            parts = [t for t in node.inputs if t is not None and self.graph.constant(t) is None]
            return max((self.square(part) for part in parts), default=1.0)
        weights = self._weights(node)
        if weights is None or any(ops.traits(each.op).errors.bounded for each in node.epilogue):
            return 1.0
        total = float(_squares(node, weights).sum(1).mean())
        total += self._mean_square(node.inputs[2] if len(node.inputs) > 2 else None)
        for each in node.epilogue:
            affine = ops.traits(each.op).affine
            if affine == "factor":
                total *= self._mean_square(each.tensor, each.parameters) or 1.0
            elif affine == "term":
                total += self._mean_square(each.tensor)
        return total

    def channels(self, tensor: int) -> int:
        shape = self.graph.shape(tensor)
        return shape[-1] if planar(shape) else max(1, prod(shape))

    def _before(self, each: EpilogueOp, sensitivity: Sensitivity) -> Sensitivity:
        """Returns the sensitivity of the value before an epilogue op, from that after it, which
        also goes to the op's operand."""
        errors = ops.traits(each.op).errors
        gated = errors.floors and each.parameters[:1] == (0.0,)
        sensitivity = sensitivity * (GATE.passes if gated else errors.passes)
        self.give(each.tensor, sensitivity)
        data = self.graph.constant(each.tensor)
        factors = np.ravel(np.asarray(each.parameters if data is None else data, np.float64))
        kind = ops.traits(each.op).affine
        if kind not in ("factor", "divisor") or len(factors) == 0:
            return sensitivity
        squares = factors**2 if kind == "factor" else 1.0 / np.maximum(factors**2, TINY)
        return sensitivity * (squares if len(squares) == len(sensitivity) else squares.mean())

    def _product(self, node: Node, weights: Array, sensitivity: Sensitivity) -> None:
        """Propagates through a product: each input gets the squares of its weights times the
        sensitivity of their rows; a weight's relative error acts like an error of the value that it
        multiplies."""
        source = node.inputs[0]
        assert source is not None
        squares, channels = _squares(node, weights), self.channels(source)
        if self.normalized.intersection(node.outputs):  # its magnitude becomes 1
            squares = squares / np.maximum(squares.sum(1, keepdims=True), SMALL_ERROR)
        rows, columns = squares.shape
        if len(sensitivity) != rows:
            sensitivity = np.full(rows, sensitivity.sum() / rows)
        flattens = (ops.weights(node) or Weights()).flattens
        groups = 1 if flattens else max(1, channels // columns)
        blocks = squares.reshape(groups, rows // groups, columns)
        largest = max(float(sensitivity.max()), TINY)
        scaled = (sensitivity / largest).astype(np.float32).reshape(groups, 1, -1)
        passed = np.matmul(scaled, blocks).ravel().astype(np.float64) * largest
        for tensor in node.inputs[1:]:
            self.give(tensor, np.full(1, passed.sum()))
        if len(passed) % channels == 0:  # for an image flattened to a row, channels come last
            passed = passed.reshape(-1, channels).sum(0)
        self.give(source, passed)

    def _parts(self, node: Node, sensitivity: Sensitivity) -> None:
        """Gives each operand of a concatenation the sensitivity of its channels, or of its share of
        elements."""
        whole, start = self._elements(node.outputs[0]), 0
        along = sum(self.channels(t) for t in node.inputs if t is not None) == len(sensitivity)
        for tensor in node.inputs:
            if tensor is not None:
                end = start + self.channels(tensor)
                share = self._elements(tensor) / whole
                self.give(tensor, sensitivity[start:end] if along else sensitivity * share)
                start = end

    def _weights(self, node: Node) -> Array | None:
        return self.graph.constant(node.inputs[1]) if ops.weights(node) else None

    def _terms(self, node: Node, tensor: int | None) -> float:
        """Returns how many values of a tensor contribute to one of the result."""
        there = 1 if tensor is None else self._elements(tensor)
        return max(1.0, there / self._elements(node.outputs[0]))

    def _elements(self, tensor: int) -> int:
        return max(1, prod(self.graph.shape(tensor)))

    def _mean_square(self, tensor: int | None, numbers: tuple[float, ...] = ()) -> float:
        """Returns the mean square of a tensor if it is constant, else that of the given numbers; 0
        if there are none."""
        data = self.graph.constant(tensor)
        values = np.asarray(numbers if data is None else data, np.float64)
        return float(np.mean(values**2)) if values.size else 0.0


def _squares(node: Node, weights: Array) -> npt.NDArray[np.float32]:
    """Returns [outputs, inputs of a group]: the squares of weights, summed over the positions of a
    window that contribute to one value."""
    squares, row = np.square(weights, dtype=np.float32), ops.weights(node) or Weights()
    if row.axis != 0:
        return np.asarray(squares.reshape(-1, weights.shape[-1]).sum(0)[:, None])
    strides = prod(node.attributes["strides"]) if row.spreads else 1
    windows = squares.reshape(weights.shape[0], -1, weights.shape[-1])
    sums = windows[:, 0] if windows.shape[1] == 1 else windows.sum(1)
    return np.asarray(sums / np.float32(strides))
