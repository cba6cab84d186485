"""What is kept of a claimed subgraph so that it can be planned for other shapes: its nodes, and the
shape arithmetic behind its constants, which is worked out anew and never kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tflgpu_plugin import ops
from tflgpu_plugin.frontend import fold
from tflgpu_plugin.ir.graph import Graph, Node, Shape, Tensor


@dataclass(frozen=True)
class Arithmetic:
    """The shape arithmetic behind a subgraph's constants. `nodes` are those of the subgraph and the
    KNOWN ones, in execution order (empty: it holds no such constant), over `tensors` besides its
    own. `witnesses` are tensors from outside whose shapes are read, but no value.
    """

    nodes: tuple[Node, ...] = ()
    tensors: Mapping[int, Tensor] = field(default_factory=dict)
    witnesses: tuple[int, ...] = ()


def behind(part: Graph, whole: Graph) -> Arithmetic:
    """The arithmetic behind a subgraph of `whole`, which has the KNOWN nodes. What follows from
    constants alone is the same for all shapes.
    """
    makers: dict[int, Node] = {}
    for node in whole.nodes:
        step = fold.step_of(node)
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
        return Arithmetic()
    inside = {t for node in part.nodes for t in node.outputs} | set(part.inputs)
    read = {t for node in used.values() for t in (*node.reads, *node.outputs)}
    tensors = {t: whole.tensors[t] for t in read - inside}
    witnesses = tuple(sorted(t for t, tensor in tensors.items() if tensor.data is None))
    order = {node.id: k for k, node in enumerate(whole.nodes)}
    nodes = sorted([*part.nodes, *used.values()], key=lambda node: order[node.id])
    return Arithmetic(tuple(nodes), tensors, witnesses)


def reshape(part: Graph, by: Arithmetic, given: Mapping[int, Shape]) -> Graph:
    """The subgraph for other shapes of its inputs and witnesses, its constants worked out anew.
    Raises ValueError with a sentence.
    """
    tensors: dict[int, Tensor] = {**by.tensors, **part.tensors}
    for index, shape in given.items():
        tensors[index] = replace(tensors[index], shape=tuple(shape))
    for node in by.nodes or part.nodes:
        for index, tensor in zip(node.outputs, _outputs(node, tensors), strict=False):
            tensors[index] = tensor
    return replace(part, tensors={t: tensors[t] for t in part.tensors})


def _outputs(node: Node, tensors: Mapping[int, Tensor]) -> Sequence[Tensor]:
    before = [tensors[t] for t in node.outputs]
    if step := fold.step_of(node):
        found = fold.known(step, [tensors[t] for t in node.inputs if t is not None], before)
        if found is None:
            raise ValueError(f"{node.host_op} {node.name!r} has no value for these input shapes.")
        return found
    graph = Graph(tensors, (node,), (), ())
    try:
        shapes = ops.rows()[node.op].shapes(graph, node)
    except Exception as error:
        raise ValueError(f"{node.host_op} cannot take these input shapes: {error}") from error
    if any(min(shape, default=0) < 0 for shape in shapes):
        given = [list(tensors[t].shape) for t in node.reads[:1]]
        raise ValueError(
            f"{node.host_op} cannot take these input shapes: {given[0]} is too small for it."
        )
    pairs = zip(before, shapes, strict=False)
    return [replace(tensor, shape=tuple(shape)) for tensor, shape in pairs]
