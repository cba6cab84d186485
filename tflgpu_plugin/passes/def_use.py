"""Def-use information: the producer and the readers of each tensor, and the values of constants."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import isclose, isfinite

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, is_integer
from tflgpu_plugin.ops.views import View, identity, through
from tflgpu_plugin.passes.rewriter import Rewriter

# Largest relative difference of a constant from the number it stands for: float32 with six digits,
# and float16 rounded twice. Larger ones would be visible in results.
CLOSE, CLOSE_HALF = 1e-6, 1e-3
DEPTH = 4  # the number of nested products that are searched


class DefUse:
    """The producer and the readers of each tensor of a graph, kept up to date while the graph
    changes."""

    def __init__(self, e: Rewriter) -> None:
        self.e = e
        self._before = Graph.over(e.tensors, *e.nodes)
        self._plain: dict[int, tuple[Node, bool]] = {}

    @cached_property
    def producer(self) -> dict[int, Node]:
        return self._before.producers()

    @cached_property
    def readers(self) -> dict[int, list[Node]]:
        return self._before.consumers()

    def plain(self, node: Node) -> bool:
        """Whether the operands and results of a node are floats and not quantized."""
        before, plain = self._plain.get(id(node), (None, False))
        if before is not node:  # cached: patterns ask repeatedly
            tensors = [self.e.tensors[t] for t in (*node.reads, *node.outputs)]
            plain = all(tensor.quantization is None for tensor in tensors)
            plain = plain and not any(map(is_integer, tensors[len(node.reads) :]))
            self._plain[id(node)] = node, plain
        return plain

    def floats(self, tensor: int) -> bool:
        """Whether a tensor holds unquantized floats."""
        given = self.e.tensors[tensor]
        return given.quantization is None and given.dtype in ("f32", "f16")

    def number(self, tensor: int | None) -> float | None:
        """Returns the value of a constant with one element, None for anything else."""
        data = self.e.data(tensor)
        return None if data is None or data.size != 1 else float(data.reshape(-1)[0])

    def made_by(self, tensor: int | None, *ops: str, activation: str = "none") -> Node | None:
        """Returns the node that computes a tensor, if its op is one of `ops` and it has this fused
        activation, else None."""
        node = None if tensor is None else self.producer.get(tensor)
        if node is None or node.op not in ops or node.epilogue or not self.plain(node):
            return None
        return node if node.attributes.get("activation", "none") == activation else None

    def reader(self, tensor: int) -> Node | None:
        """Returns the node that reads a tensor, if it is the only reader and reads the tensor once.
        Returns None otherwise, and for outputs and states of the graph."""
        near = self.readers.get(tensor, [])
        if len(near) != 1 or tensor in self.e.needed:
            return None
        times = near[0].inputs.count(tensor) + sum(p.tensor == tensor for p in near[0].epilogue)
        return near[0] if times == 1 else None

    def sources(
        self, tensor: int, view: View | None = None, *, scaled: bool = False
    ) -> Iterator[tuple[int, View, float]]:
        """Yields the tensor, and the tensors that it is a view of, the nearest first. Each comes
        with a view and a factor: tensor = factor * view of source. The factor is 1 unless `scaled`,
        which also follows multiplications by a number. `view` is a view of the tensor to start
        from."""
        view, factor = view or identity(self.e.shape(tensor)), 1.0
        while True:
            yield tensor, view, factor
            node = self.producer.get(tensor)
            if node is None or not self.plain(node):
                return
            times = self.scaling(node) if scaled else None
            if times is not None:
                tensor, factor = times[0], factor * times[1]
                continue
            further = through(self.e.view(node), view)
            if further is None:
                return
            tensor, view = node.operand(), further

    def close(self, node: Node, number: float, value: float) -> bool:
        """Whether a constant that a node reads equals this value up to rounding."""
        half = self.e.tensors[node.outputs[0]].dtype == "f16"
        return isclose(number, value, rel_tol=CLOSE_HALF if half else CLOSE)

    def scaling(self, node: Node) -> tuple[int, float] | None:
        """Returns the tensor and the finite number that a node multiplies; None if it does anything
        else."""
        kind = ops.traits(node.op).affine
        if kind not in ("factor", "divisor") and node.op != "neg":
            return None
        if self.made_by(node.outputs[0], node.op) is None:
            return None
        if node.op == "neg":
            return node.operand(), -1.0
        x, number = node.operand(), self.number(node.inputs[1])
        if number is None and kind == "factor":
            x, number = node.operand(1), self.number(node.inputs[0])
        if not number or self.e.shape(x) != self.e.shape(node.outputs[0]):
            return None
        number = 1 / number if kind == "divisor" else number
        return (x, number) if isfinite(number) else None

    def product(self, tensor: int, depth: int = DEPTH) -> tuple[float, list[int]]:
        """Splits a tensor into the product of its constant numbers and the list of its other
        factors, down to this depth of nested products. A divisor that is a number counts as its
        inverse."""
        node = self.made_by(tensor, "mul", "div") if depth else None
        scaled = self.scaling(node) if node else None
        if scaled is not None:
            scale, rest = self.product(scaled[0], depth - 1)
            return scale * scaled[1], rest
        if node is None or node.op == "div":
            return 1.0, [tensor]
        first, second = (self.product(node.operand(k), depth - 1) for k in range(2))
        return first[0] * second[0], first[1] + second[1]
