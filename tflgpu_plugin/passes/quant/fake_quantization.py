"""Fake quantization: rounds results that the model stores in 8 bits to their quantization levels
when they are stored, so that readers get the values that the model was trained or calibrated for.

Rounds twice where the hosts' kernels do: most layers then give exactly the reference kernels'
numbers."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import (
    COUNTS,
    STORED,
    Array,
    EpilogueOp,
    Graph,
    Node,
    Tensor,
    planar,
    quantization,
)
from tflgpu_plugin.ops import quantization as quantize
from tflgpu_plugin.ops.quantized import times, times_once
from tflgpu_plugin.ops.reduce_forms import reduced_axes
from tflgpu_plugin.passes.quant import int16, requantize
from tflgpu_plugin.passes.rewriter import Rewriter

EVERYTHING = (-inf, inf)


def fake_quantize(graph: Graph) -> Graph:
    """Rounds results to their quantization levels when they are stored, after bias and activation.
    Skips results that are on their levels already, and those that only leave the partition through
    an op without an epilogue: the I/O conversion rounds them."""
    return _Simulation(graph).run()


class _Simulation:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.consumers = graph.consumers()
        self.e = Rewriter(graph)
        self.tensors = self.e.tensors
        self.parts: dict[tuple[float, ...], int] = {}

    def run(self) -> Graph:
        nodes = [made for node in self.graph.nodes for made in self._node(node)]
        return replace(self.graph, tensors=self.tensors, nodes=tuple(nodes))

    def _node(self, node: Node) -> list[Node]:
        if ops.quantizes(node) == "to":
            parameters = quantize.step(self.graph, node).parameters
            return [replace(node, attributes={**node.attributes, "parameters": parameters})]
        wanted = [t for t in node.outputs if not _on_levels(self.graph, node, t)]
        if wanted and ops.rows()[node.op].fuses:
            epilogue = node.epilogue  # hosts apply a fused activation to stored numbers
            limits = ops.traits(epilogue[-1].op).limits if epilogue else None
            if limits:  # narrow the range of the levels
                epilogue = epilogue[:-1]
            levels = _limited(self.graph.tensors[wanted[0]], limits or EVERYTHING)
            plain = replace(node, epilogue=epilogue)
            if (nodes := int16.rewritten(self.e, self.graph, plain, levels)) is not None:
                return nodes
            layer = self._layer(plain, levels) if ops.weights(node) else self._mean(plain, levels)
            rule = ops.rows()[node.op].quantize
            if not epilogue and rule and (found := rule(self.graph, plain, levels)) is not None:
                return [found]
            return [layer or replace(plain, epilogue=(*epilogue, self._step(node, levels)))]
        read = [t for t in wanted if t in self.consumers or self._even(t)]
        if not read:
            return [node]
        raw = {t: self.e.add(_raw(self.tensors[t])) for t in read}
        made = [replace(node, outputs=tuple(raw.get(t, t) for t in node.outputs))]
        for result, source in raw.items():
            step = (1.0, 0.0) if not self._even(result) else ()
            numbers = (*quantization.levels(self.tensors[result]), *step)
            made.append(self.e.node("quantize", (source,), (result,), [node], parameters=numbers))
        return made

    def _mean(self, node: Node, levels: quantization.Levels) -> Node | None:
        """Returns the node that computes a mean in 8 bits as hosts do: the integer sum times one
        factor."""
        x = None if node.inputs[0] is None else self.tensors[node.inputs[0]]
        if node.op != "mean" or node.epilogue or x is None or not quantization.quantized(x):
            return None
        shape = self.graph.shape(node.outputs[0])
        channels = shape[-1] if planar(shape) else prod(shape)
        scale, _ = quantization.parameters(x)
        count = prod(x.shape[axis] for axis in reduced_axes(self.graph, node))
        if not count:
            return None
        even = self._even(node.outputs[0])
        made = requantize.factor_rows if even else requantize.mean_rows
        table = made(scale / levels.scale, count, channels)
        return replace(node, epilogue=(self._by_rows(node, table, scale / count, levels),))

    def _layer(self, node: Node, levels: quantization.Levels) -> Node | None:
        found = requantize.integer_layer(self.graph, node)
        if found is None:
            return None
        integers, table = found
        x, weights = node.operand(), node.operand(1)
        scale, _ = quantization.parameters(self.tensors[x])
        step = self._by_rows(node, table, scale, levels)
        numbers = self.e.add(requantize.retyped(self.tensors[weights], integers))
        return replace(node, inputs=(x, numbers, *node.inputs[2:]), epilogue=(step,))

    def _by_rows(
        self, node: Node, table: Array, unit: float, levels: quantization.Levels
    ) -> EpilogueOp:
        """Returns the epilogue op that converts multiples of `unit` to these levels, by rows of
        `requantize`."""
        rows = self.e.constant(table, name="requantization")
        even, once = self._even(node.outputs[0]), bool(node.attributes.get("rounds_once"))
        kind = "rescale" if even else requantize.in_fixed_point(table, levels, once)
        return requantize.each(kind, rows, unit, levels, table.shape[1])

    def _even(self, tensor: int) -> bool:
        return quantization.even(self.tensors[tensor])

    def _step(self, node: Node, levels: quantization.Levels) -> EpilogueOp:
        if self._even(node.outputs[0]):
            return quantize.to_even(levels)
        rounding = ops.rows()[node.op].rounding
        if rounding and rounding.factor and (found := rounding.factor(self.graph, node)):
            step = times_once if node.attributes.get("rounds_once") else times
            return step(*found, levels)
        parts = rounding.parts(self.graph, node) if rounding else (1.0,)
        _, zero = quantization.parameters(self.graph.tensors[node.outputs[0]])
        if rounding and rounding.stored:
            return EpilogueOp("fake_quant", None, (*levels, *parts, zero))
        if len(set(parts)) == 1:
            return EpilogueOp("fake_quant", None, (*levels, parts[0], 0.0))
        if parts not in self.parts:
            self.parts[parts] = self.e.constant(np.array(parts, np.float32), name="parts")
        return EpilogueOp("fake_quant_channels", self.parts[parts], tuple(levels))


def _limited(result: Tensor, limits: tuple[float, float]) -> quantization.Levels:
    levels = quantization.levels(result)
    low, high = (quantization.nearest(limit, levels.scale) for limit in limits)
    return levels._replace(least=max(levels.least, low), most=min(levels.most, high))


def _raw(tensor: Tensor) -> Tensor:
    """Returns the tensor before rounding. That of one with 16 bits stays float32."""
    return replace(tensor, name=f"{tensor.name}, not rounded", dtype="f32", quantization=None,
                   keep_f32=tensor.keep_f32 or tensor.dtype not in STORED)  # fmt: skip


def _on_levels(graph: Graph, node: Node, tensor: int) -> bool:
    result = graph.tensors[tensor]
    if not quantization.real(result) or result.dtype in COUNTS:  # integer outputs are rounded
        return True
    if not ops.rows()[node.op].keeps or node.epilogue:
        return False
    if node.attributes.get("activation", "none") != "none":
        return False
    values = [graph.tensors[t] for t in node.inputs if t is not None]
    return all(quantization.alike(v, result) for v in values if v.dtype not in COUNTS)
