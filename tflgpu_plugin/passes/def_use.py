"""What recognizing passes ask: which node makes a tensor, and which number a constant is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isclose, isfinite

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Node, merged, whole
from tflgpu_plugin.ops.views import View, through, whole as all_of
from tflgpu_plugin.passes.rewriter import Rewriter

# How far a constant may be from a number that it stands for, relative: float32 of six digits, and
# float16 rounded twice. More would be seen in answers.
CLOSE, CLOSE_HALF = 1e-6, 1e-3
DEPTH = 4  # of products that are looked through


class DefUse:
    """Who makes each tensor, who is read by one node only, and what is a constant number."""

    def __init__(self, e: Rewriter) -> None:
        self.e = e
        self.producer, self.readers = e.producers(), e.readers()

    def plain(self, node: Node) -> bool:
        """Whether values are floats and not quantized."""
        if any(whole(self.e.tensors[t]) for t in node.outputs):
            return False
        return all(self.e.tensors[t].quantization is None for t in (*node.reads, *node.outputs))

    def real(self, tensor: int) -> bool:
        """Whether values are floats and not quantized."""
        given = self.e.tensors[tensor]
        return given.quantization is None and given.dtype in ("f32", "f16")

    def number(self, tensor: int | None) -> float | None:
        """The value of a constant with one element."""
        data = self.e.data(tensor)
        return None if data is None or data.size != 1 else float(data.reshape(-1)[0])

    def made_by(self, tensor: int | None, *ops: str, activation: str = "none") -> Node | None:
        """Returns the node that makes a tensor, where it is one of these ops and ends with this
        activation."""
        node = None if tensor is None else self.producer.get(tensor)
        if node is None or node.op not in ops or node.epilogue or not self.plain(node):
            return None
        return node if node.attributes.get("activation", "none") == activation else None

    def reader(self, tensor: int) -> Node | None:
        """The only node that reads a tensor, where nothing else needs that."""
        near = self.readers.get(tensor, [])
        return near[0] if len(near) == 1 and tensor not in self.e.needed else None

    def sources(
        self, tensor: int, view: View | None = None, *, scaled: bool = False
    ) -> Iterator[tuple[int, View, float]]:
        """Yields the tensor and those further back whose elements are only moved, or with `scaled`
        multiplied by a number, the nearest first: what the tensor, or a view of it, is as a view of
        each, and how many times as large."""
        view, factor = view or all_of(self.e.shape(tensor)), 1.0
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

    def operand(self, node: Node | None, value: float) -> int | None:
        """The other operand of a node that has this number as one (either place)."""
        for mine, other in either(node):
            number = self.number(mine)
            if node and number is not None and self.close(node, number, value):
                return other
        return None

    def close(self, node: Node, number: float, value: float) -> bool:
        """Whether a constant that a node reads stands for this number."""
        half = self.e.tensors[node.outputs[0]].dtype == "f16"
        return isclose(number, value, rel_tol=CLOSE_HALF if half else CLOSE)

    def scaling(self, node: Node) -> tuple[int, float] | None:
        """What a node multiplies by which finite number, where it does only that."""
        if node.op == "neg" and not node.epilogue and self.plain(node):
            return node.operand(), -1.0
        kind = ops.traits(node.op).affine
        if kind not in ("factor", "divisor") or node.epilogue or not self.plain(node):
            return None
        if node.attributes.get("activation", "none") != "none":
            return None
        x, number = node.operand(), self.number(node.inputs[1])
        if number is None and kind == "factor":
            x, number = node.operand(1), self.number(node.inputs[0])
        if not number or self.e.shape(x) != self.e.shape(node.outputs[0]):
            return None
        number = 1 / number if kind == "divisor" else number
        return (x, number) if isfinite(number) else None

    def product(self, tensor: int, depth: int = DEPTH) -> tuple[float, list[int]]:
        """The numbers that a tensor is a product of, as one, and its other factors, down to this
        depth; what divides by a number is by its inverse."""
        node = self.made_by(tensor, "mul", "div") if depth else None
        scaled = self.scaling(node) if node else None
        if scaled is not None:
            scale, rest = self.product(scaled[0], depth - 1)
            return scale * scaled[1], rest
        if node is None or node.op == "div":
            return 1.0, [tensor]
        first, second = (self.product(node.operand(k), depth - 1) for k in range(2))
        return first[0] * second[0], first[1] + second[1]

    def replaced(
        self, node: Node, op: str, x: int, merging: list[Node], **attributes: object
    ) -> Node:
        """`op` of x in place of the node. Of those `merging` with it the unread ones go later."""
        made = replace(node, op=op, inputs=(x,), attributes=attributes, **merged(node, *merging))
        self.producer[node.outputs[0]] = made
        return made


def either(node: Node | None) -> Iterator[tuple[int, int]]:
    """The two operands of a node, and the other way round."""
    if node is not None:
        a, b = node.operand(), node.operand(1)
        yield a, b
        yield b, a
