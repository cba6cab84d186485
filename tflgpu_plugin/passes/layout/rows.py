"""Dense layers work on rows wherever these lie: a model that puts all rows on one axis for a layer
and takes them apart again, as exporters write it, has them where they were.

In memory a tensor [batch, rows, channels] and the rows on one axis are not the same, so that each
way costs a launch, and what comes after could not be applied where the layer stores its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.fully_connected import KEPT, MANY_ROWS
from tflgpu_plugin.ops.views import View, whole
from tflgpu_plugin.passes.layout.cleanup import clean
from tflgpu_plugin.passes.makers import Makers
from tflgpu_plugin.passes.rewriter import Rewriter


def keep_rows(graph: Graph) -> Graph:
    """Layers between two reshapes that leave the last axis alone."""
    if not any(node.op == "fully_connected" for node in graph.nodes):
        return graph
    e = Rewriter(graph)
    makers, readers = Makers(e), e.readers()
    changed = False
    for node in graph.nodes:
        if node.op == "fully_connected":
            changed |= _kept(e, makers, readers, node)
    if not changed:
        return graph
    clean(e)
    return e.finish()


def _kept(e: Rewriter, makers: Makers, readers: dict[int, list[Node]], node: Node) -> bool:
    layer = e.shape(node.outputs[0])
    if node.epilogue or not makers.plain(node) or node.outputs[0] in e.needed:
        return False
    for source in reversed(list(_sources(e, makers, node.operand()))):
        given = e.shape(source)
        after = (*given[:-1], layer[-1])
        read = readers.get(node.outputs[0], [])
        apart = [_back(e, readers, reader, after) for reader in read]
        if not apart or None in apart or len(given) > KEPT or not _fits(given):
            continue
        made = e.tensor(after, like=node.outputs[0])
        attributes = {**node.attributes, "keep_num_dims": True}
        inputs = (source, *node.inputs[1:])
        again = e.node("reshape", (made,), node.outputs, [node], shape=layer)
        place = next(k for k, each in enumerate(e.nodes) if each.id == node.id)
        e.nodes[place : place + 1] = [
            replace(node, inputs=inputs, outputs=(made,), attributes=attributes),
            replace(again, layout=True),
        ]
        e.rename({end: made for end in apart if end is not None})
        return True
    return False


def _sources(e: Rewriter, makers: Makers, tensor: int) -> Iterator[int]:
    """Tensors further back that have the same rows in the same order, on other axes."""
    view, channels = whole(e.shape(tensor)), e.shape(tensor)[-1]
    while (node := makers.producer.get(tensor)) is not None:
        moved = e.view(node)
        found = moved.then(view) if moved else None
        if found is None or not makers.plain(node):
            return
        view, tensor = found, node.operand()
        if view.reshapes(e.shape(tensor)) and e.shape(tensor)[-1:] == (channels,):
            yield tensor


def _back(e: Rewriter, readers: dict[int, list[Node]], node: Node, shape: Shape) -> int | None:
    """The result of moving rows from this node on, as soon as they are in this shape."""
    given = e.shape(node.operand())
    view: View | None = whole(given)
    while (moved := e.view(node)) is not None and view is not None:
        view, output = view.then(moved), node.outputs[0]
        if view and view.reshapes(given) and view.shape == shape:
            return output
        near = readers.get(output, [])
        if len(near) != 1:
            return None
        node = near[0]
    return None


def _fits(shape: Shape) -> bool:
    """Whether rows of this shape are as quick as those on one axis."""
    rows = prod(shape[1:-1])
    return rows == 1 or rows >= MANY_ROWS or prod(shape[:-1]) < MANY_ROWS
