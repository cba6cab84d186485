"""Fuses elementwise nodes into the producer of their input, as epilogue ops applied to each result
before it is stored."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import EpilogueOp, Graph, Node, is_integer, merged

MAX_PARAMETERS = 20  # of 64 words in the uniform block; the largest kernel needs 40
MAX_STEPS = 8  # compilers inline every step; compile time grows with the square of a kernel's size
MAX_OPERANDS = 3  # a convolution binds at least three storage buffers, and adapters promise eight


def fuse_epilogue(graph: Graph) -> Graph:
    """Fuses elementwise nodes into the node whose result they change. Nodes are visited in order,
    so that a chain collapses into its first node. An add of two results is fused into the later of
    their producers. A producer moves to the position of the fused node if an operand is not ready
    earlier."""
    fusion = _Fusion(graph)
    for node in graph.nodes:
        for producer in fusion.candidates(node):
            each = _step(graph, producer, node)
            if each is not None:
                fusion.merge(producer, node, each)
                break
    return graph.with_nodes(sorted(fusion.nodes.values(), key=lambda n: fusion.place[n.id]))


class _Fusion:
    """A graph that is being changed: nodes by id, their positions in the order of execution, and
    the ids of each tensor's writer and readers."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = {node.id: node for node in graph.nodes}
        self.place = {node.id: k for k, node in enumerate(graph.nodes)}
        self.needed = graph.needed()
        self.writer = {t: node.id for node in graph.nodes for t in node.outputs}
        self.readers: dict[int, list[int]] = {}
        for node in graph.nodes:
            for tensor in _operands(node):
                self.readers.setdefault(tensor, []).append(node.id)

    def candidates(self, node: Node) -> list[Node]:
        """Returns the producers that `node` may be fused into: those whose result only `node`
        reads, once. The last in order of execution comes first."""
        if ops.rows()[node.op].as_epilogue is None:
            return []
        made = [t for t in node.inputs if t in self.writer and self.readers[t] == [node.id]]
        found = [self.nodes[self.writer[t]] for t in made if t not in self.needed]
        found = [p for p in found if len(p.outputs) == 1 and ops.rows()[p.op].fuses]
        return sorted(found, key=lambda p: -self.place[p.id])

    def merge(self, producer: Node, node: Node, each: EpilogueOp) -> None:
        epilogue = (*producer.epilogue, each, *node.epilogue)
        self.nodes[producer.id] = replace(
            producer, outputs=node.outputs, epilogue=epilogue, **merged(producer, node)
        )
        del self.nodes[node.id]
        place, end = self.place[producer.id], self.place[node.id]
        # The earlier position shortens the lifetime of the producer's inputs, but every operand
        # must be ready there.
        added = [t for t in _operands(node) if t in self.writer and t not in producer.outputs]
        if any(self.place[self.writer[t]] > place for t in added):
            self.place[producer.id] = end
        for tensor in _operands(node):
            self.readers[tensor] = [
                producer.id if n == node.id else n for n in self.readers[tensor]
            ]
        self.writer |= dict.fromkeys(node.outputs, producer.id)


def _operands(node: Node) -> list[int]:
    """Returns the tensors that a node reads, as often as it reads them."""
    return [t for t in (*node.inputs, *(p.tensor for p in node.epilogue)) if t is not None]


def _step(graph: Graph, producer: Node, node: Node) -> EpilogueOp | None:
    """Returns the epilogue op that applies `node` to the producer's output, None if there is
    none."""
    made, result = producer.outputs[0], node.outputs[0]
    if graph.shape(made) != graph.shape(result) or made not in node.inputs[:2]:
        return None
    if is_integer(graph.tensors[made]) or is_integer(graph.tensors[result]):  # steps are of floats
        return None
    rule = ops.rows()[node.op].as_epilogue
    each = rule(graph, node, node.inputs.index(made)) if rule else None
    if each is None:
        return None
    epilogue = (*producer.epilogue, each, *node.epilogue)
    operands = [p.tensor for p in epilogue if p.tensor is not None]
    fits = sum(len(p.parameters) for p in epilogue) <= MAX_PARAMETERS
    fits = fits and len(epilogue) <= MAX_STEPS and len(operands) <= MAX_OPERANDS
    return each if fits else None
