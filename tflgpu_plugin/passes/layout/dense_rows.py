"""Removes the reshapes by which exporters flatten the leading axes for a dense layer and restore
them.

A tensor [batch, rows, channels] is stored differently from one with a single axis of rows, so each
reshape costs a launch and keeps later elementwise ops out of the layer's epilogue."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin.ir import Graph, Node, Shape
from tflgpu_plugin.ops.fully_connected import KEPT, MANY_ROWS
from tflgpu_plugin.ops.views import View, identity, through
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.layout.cleanup import clean
from tflgpu_plugin.passes.rewriter import Rewriter


def keep_dense_rows(graph: Graph) -> Graph:
    """Removes reshapes before and after dense layers that keep the last axis."""
    if not any(node.op == "fully_connected" for node in graph.nodes):
        return graph
    e = Rewriter(graph)
    uses = DefUse(e)
    layers = [node for node in graph.nodes if node.op == "fully_connected"]
    names: dict[int, int] = {}
    for node in layers:
        names |= _kept(uses, node)
    if not names:
        return graph
    e.rename(names)
    clean(e)
    return e.finish()


def _kept(uses: DefUse, node: Node) -> dict[int, int]:
    """Replaces a layer by one that keeps the axes of its rows, if the reshapes after it restore
    these. Returns the new result for each tensor that it replaces."""
    e = uses.e
    layer = e.shape(node.outputs[0])
    if node.epilogue or not _floats(uses, node) or node.outputs[0] in e.needed:
        return {}
    for source, view, _ in list(uses.sources(node.operand()))[:0:-1]:
        given = e.shape(source)
        if not view.reshapes(given) or given[-1:] != e.shape(node.operand())[-1:]:
            continue
        after = (*given[:-1], layer[-1])
        read = uses.readers.get(node.outputs[0], [])
        apart = [_back(uses, reader, after) for reader in read]
        if not apart or None in apart or len(given) > KEPT or not _fits(given):
            continue
        made = e.tensor(after, like=node.outputs[0])
        attributes = {**node.attributes, "keep_num_dims": True}
        inputs = (source, *node.inputs[1:])
        again = replace(node, inputs=inputs, outputs=(made,), attributes=attributes)
        e.put([again, e.layout("reshape", made, node.outputs[0], node, shape=layer)], node)
        return {end: made for end in apart if end is not None}
    return {}


def _floats(uses: DefUse, node: Node) -> bool:
    """Whether a layer computes floats from floats; its weights may be stored in another way."""
    read = [t for t in node.reads if uses.e.data(t) is None]
    return all(map(uses.floats, (*read, *node.outputs)))


def _back(uses: DefUse, node: Node, shape: Shape) -> int | None:
    """Follows the movements after this node that keep the order of elements, and returns the first
    result that has this shape; None if there is none."""
    given = uses.e.shape(node.operand())
    view: View | None = identity(given)
    while (view := through(view, uses.e.view(node))) is not None:
        output = node.outputs[0]
        if view.reshapes(given) and view.shape == shape:
            return output
        near = uses.readers.get(output, [])
        if len(near) != 1:
            return None
        node = near[0]
    return None


def _fits(shape: Shape) -> bool:
    """Whether a layer over rows of this shape is as fast as over a single axis of rows."""
    rows = prod(shape[1:-1])
    return rows == 1 or rows >= MANY_ROWS or prod(shape[:-1]) < MANY_ROWS
