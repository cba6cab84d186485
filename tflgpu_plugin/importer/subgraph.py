"""What is kept of a claimed subgraph so that it can be planned for other shapes: its graph, and the
shape arithmetic that makes its constants, which is worked out anew and never kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tflgpu_plugin import ops
from tflgpu_plugin.errors import BuildError
from tflgpu_plugin.importer import folding
from tflgpu_plugin.ir.graph import Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.refusal import Refusal


@dataclass(frozen=True)
class Subgraph:
    """`nodes` are those of `graph` and the folded producers of its constants, in execution
    order (empty: it holds no such constant), over `tensors` besides those of the graph.
    `shape_only` are tensors from outside whose shapes are read, but no value."""

    graph: Graph
    nodes: tuple[Node, ...] = ()
    tensors: Mapping[int, Tensor] = field(default_factory=dict)
    shape_only: tuple[int, ...] = ()

    @property
    def keys(self) -> tuple[int, ...]:
        """The tensors whose shapes choose a plan: the inputs, then the shape-only ones."""
        return (*self.graph.inputs, *self.shape_only)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Those of `keys` when the subgraph was claimed."""
        tensors = {**self.tensors, **self.graph.tensors}
        return tuple(tensors[t].shape for t in self.keys)

    def reshaped(self, given: Sequence[Shape]) -> Graph:
        """The graph for these shapes of `keys`, its constants worked out anew. Raises BuildError
        with a sentence.
        """
        tensors: dict[int, Tensor] = {**self.tensors, **self.graph.tensors}
        for index, shape in zip(self.keys, given, strict=True):
            tensors[index] = replace(tensors[index], shape=tuple(shape))
        for node in self.nodes or self.graph.nodes:
            for index, tensor in zip(node.outputs, _outputs(node, tensors), strict=False):
                tensors[index] = tensor
        return replace(self.graph, tensors={t: tensors[t] for t in self.graph.tensors})


def kept(part: Graph, whole: Graph) -> Subgraph:
    """Of a subgraph of `whole`, which has the constant-folded nodes. What follows from constants
    alone is the same for all shapes."""
    makers: dict[int, Node] = {}
    for node in whole.nodes:
        step = folding.step_of(node)
        if step is not None and (step.of_shapes or makers.keys() & set(node.reads)):
            makers |= dict.fromkeys(node.outputs, node)
    wanted = {t for node in part.nodes for t in node.reads if t in makers}
    used: dict[int, Node] = {}
    while wanted:
        node = makers[wanted.pop()]
        if node.id not in used:
            used[node.id] = node
            wanted.update(t for t in node.reads if t in makers)
    if not used:
        return Subgraph(part)
    inside = {t for node in part.nodes for t in node.outputs} | set(part.inputs)
    read = {t for node in used.values() for t in (*node.reads, *node.outputs)}
    tensors = {t: whole.tensors[t] for t in read - inside}
    shape_only = tuple(sorted(t for t, tensor in tensors.items() if tensor.data is None))
    order = {node.id: k for k, node in enumerate(whole.nodes)}
    nodes = sorted([*part.nodes, *used.values()], key=lambda node: order[node.id])
    return Subgraph(part, tuple(nodes), tensors, shape_only)


def _outputs(node: Node, tensors: Mapping[int, Tensor]) -> Sequence[Tensor]:
    before, name = [tensors[t] for t in node.outputs], node.host_op or node.op
    if step := folding.step_of(node):
        found = folding.known(step, [tensors[t] for t in node.inputs if t is not None], before)
        if found is None:
            raise BuildError(
                (node.id,),
                Refusal(
                    "dynamic.value", f"{name} {node.name!r} has no value for these input shapes."
                ),
            )
        return found
    try:
        shapes = ops.rows()[node.op].shapes(Graph.over(tensors, node), node)
    except Exception as error:
        refusal = Refusal("shape.unsupported", f"{name} cannot take these input shapes: {error}")
        raise BuildError((node.id,), refusal) from error
    if any(extent < 0 for shape in shapes for extent in shape):
        given = [list(tensors[t].shape) for t in node.reads[:1]]
        raise BuildError(
            (node.id,),
            Refusal(
                "shape.unsupported",
                f"{name} cannot take these input shapes: {given[0]} is too small for it.",
            ),
        )
    pairs = zip(before, shapes, strict=False)
    return [replace(tensor, shape=tuple(shape)) for tensor, shape in pairs]
