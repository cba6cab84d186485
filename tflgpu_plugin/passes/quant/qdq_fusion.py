"""Lets nodes between a dequantize and a quantize node work on the quantized tensors directly, like
hosts that fuse the three into one integer kernel. The values stored on the device stay the same.

Applies only to hosts that round halves to even, such as onnxruntime; in models of hosts with
fixed-point kernels, quantized layers are already single nodes."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import EpilogueOp, Graph, Node, merged, quantization
from tflgpu_plugin.ops import movement
from tflgpu_plugin.passes.rewriter import Rewriter


def fuse_qdq(graph: Graph) -> Graph:
    """Lets nodes between a dequantize and a quantize node work on quantized tensors. Activations
    with limits join their layer, a result that only a quantize node reads is quantized by its
    producer, readers of a dequantize node read its input, and nodes that only move elements move
    stored numbers."""
    if not any(_stands_between(graph, node) for node in graph.nodes):
        return graph
    return _kept(_bypassed(_Merging(graph).run()))


def _stands_between(graph: Graph, node: Node) -> bool:
    """Whether a node quantizes float32 values or dequantizes to them, and rounds halves to even."""
    first = node.inputs[0] if node.inputs else None
    if first is None or node.epilogue:
        return False
    if ops.quantizes(node) == "from":
        stored, values = graph.tensors[first], graph.tensors[node.outputs[0]]
    elif ops.quantizes(node) == "to":
        values, stored = graph.tensors[first], graph.tensors[node.outputs[0]]
    else:
        return False
    return values.dtype == "f32" and quantization.real(stored) and quantization.even(stored)


def _moves(graph: Graph, node: Node) -> bool:
    """Whether a node's results are elements of its first input, moved but not padded."""
    view = movement.view_of(graph, node)
    valued = view is not None and view.value != 0
    return ops.rows()[node.op].keeps == "first" and not node.epilogue and not valued


class _Merging:
    """A graph that is being changed, in which activations and quantize nodes are merged into the
    node before them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.nodes = {node.id: node for node in graph.nodes}
        self.makers = {t: node.id for node in graph.nodes for t in node.outputs}
        self.readers = graph.consumers()
        self.needed = graph.needed()

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if ops.rows()[node.op].limits and not node.epilogue:
                self._limit(node)
        for node in self.graph.nodes:
            if ops.quantizes(node) == "to" and _stands_between(self.graph, node):
                self._quantize(node)
        return replace(self.graph, tensors=self.tensors, nodes=tuple(self.nodes.values()))

    def _limit(self, node: Node) -> None:
        """Merges an activation with limits into the layer before it, if a quantize node follows."""
        layer, readers = self._maker(node), self.readers.get(node.outputs[0], ())
        if layer is None or ops.weights(layer) is None:
            return
        if [ops.quantizes(n) for n in readers] != ["to"]:
            return
        if all(each.op == "add" for each in layer.epilogue):
            self._merge(layer, node, (*layer.epilogue, EpilogueOp(node.op)))

    def _quantize(self, node: Node) -> None:
        """Quantizes the result of the producer, and of movements after it."""
        maker, result = self._maker(node), self.tensors[node.outputs[0]]
        if maker is None or ops.quantizes(maker) == "from":
            return
        self._merge(maker, node, maker.epilogue)
        while _moves(self.graph, maker):
            before = self._maker(maker)
            if before is None or ops.quantizes(before) == "from":
                break
            held = self.tensors[before.outputs[0]]
            self.tensors[before.outputs[0]] = replace(
                held, dtype=result.dtype, quantization=result.quantization
            )
            maker = before
        if node.attributes.get("whole"):
            last = self.nodes[maker.id]
            self.nodes[maker.id] = replace(last, epilogue=(*last.epilogue, EpilogueOp("whole")))

    def _maker(self, node: Node) -> Node | None:
        """Returns the producer of this node's input, if its only result is a float32 tensor without
        other readers; else None."""
        tensor = node.inputs[0]
        if tensor not in self.makers or tensor in self.needed:
            return None
        maker = self.nodes[self.makers[tensor]]
        alone = len(maker.outputs) == 1 and len(self.readers[tensor]) == 1
        return maker if alone and self.tensors[tensor].dtype == "f32" else None

    def _merge(self, maker: Node, node: Node, epilogue: tuple[EpilogueOp, ...]) -> None:
        self.nodes[maker.id] = replace(
            maker, outputs=node.outputs, epilogue=epilogue, **merged(maker, node)
        )
        del self.nodes[node.id]
        self.makers[node.outputs[0]] = maker.id


def _bypassed(graph: Graph) -> Graph:
    """Lets readers of a dequantize node read its input. The node stays if its result leaves the
    graph."""
    e = Rewriter(graph)
    made = (n for n in graph.nodes if ops.quantizes(n) == "from")
    gone = {n.id: n for n in made if _stands_between(graph, n)}
    names: dict[int, int] = {}
    for node in gone.values():
        names[node.outputs[0]] = names.get(node.operand(), node.operand())
    e.rename(names)
    dropped = {n: node for n, node in gone.items() if node.outputs[0] not in e.needed}
    e.nodes = [node for node in e.nodes if node.id not in dropped]
    e.credit(dropped.values())
    return e.finish()


def _kept(graph: Graph) -> Graph:
    """Quantizes the results of nodes that move elements of a quantized tensor."""
    tensors, needed = dict(graph.tensors), graph.needed()
    for node in graph.nodes:
        first = tensors[node.inputs[0]] if node.inputs and node.inputs[0] is not None else None
        if first is None or not _moves(graph, node) or not quantization.real(first):
            continue
        if not quantization.even(first) or not needed.isdisjoint(node.outputs):
            continue
        for output in node.outputs:
            if tensors[output].dtype == "f32":
                tensors[output] = replace(
                    tensors[output], dtype=first.dtype, quantization=first.quantization
                )
    return replace(graph, tensors=tensors)
