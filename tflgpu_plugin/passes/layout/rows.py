"""Dense layers work on rows wherever these lie: a model that puts all rows on one axis for a layer
and takes them apart again, as exporters write it, has them where they were.

In memory a tensor [batch, rows, channels] and the rows on one axis are not the same, so that each
way costs a launch, and what comes after could not be applied where the layer stores its result.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin.ir.graph import Graph, Node, Shape
from tflgpu_plugin.ops.fully_connected import KEPT, MANY_ROWS
from tflgpu_plugin.passes.layout.cleanup import clean
from tflgpu_plugin.passes.makers import Makers
from tflgpu_plugin.passes.rewriter import Editor


def keep_rows(graph: Graph) -> Graph:
    """Layers between two reshapes that leave the last axis alone."""
    if not any(node.op == "fully_connected" for node in graph.nodes):
        return graph
    e = Editor(graph)
    makers, readers = Makers(e), e.readers()
    changed = False
    for node in graph.nodes:
        if node.op == "fully_connected":
            changed |= _kept(e, makers, readers, node)
    if not changed:
        return graph
    clean(e)
    return e.finish()


def _kept(e: Editor, makers: Makers, readers: dict[int, list[Node]], node: Node) -> bool:
    before = makers.producer.get(node.operand())
    if before is None or not _reshapes(e, before) or not makers.plain(node) or node.epilogue:
        return False
    given, layer = e.shape(before.operand()), e.shape(node.outputs[0])
    read = readers.get(node.outputs[0], [])
    apart = [n for n in read if _reshapes(e, n) and e.shape(n.outputs[0])[:-1] == given[:-1]]
    if not apart or len(apart) < len(read) or node.outputs[0] in e.needed:
        return False
    if len(given) > KEPT or e.shape(node.operand())[-1:] != given[-1:] or not _fits(given):
        return False
    made = e.tensor((*given[:-1], layer[-1]), like=node.outputs[0])
    attributes = {**node.attributes, "keep_num_dims": True}
    inputs = (before.operand(), *node.inputs[1:])
    again = e.node("reshape", (made,), node.outputs, [node], shape=layer)
    place = next(k for k, each in enumerate(e.nodes) if each.id == node.id)
    e.nodes[place : place + 1] = [
        replace(node, inputs=inputs, outputs=(made,), attributes=attributes),
        replace(again, layout=True),
    ]
    return True


def _reshapes(e: Editor, node: Node) -> bool:
    """Whether a node only gives its input other axes in front."""
    view = e.view(node)
    shape = e.shape(node.operand()) if view else ()
    return bool(view and view.reshapes(shape) and view.shape[-1:] == shape[-1:])


def _fits(shape: Shape) -> bool:
    """Whether rows of this shape are as quick as those on one axis."""
    rows = prod(shape[1:-1])
    return rows == 1 or rows >= MANY_ROWS or prod(shape[:-1]) < MANY_ROWS
