"""Folds zero padding of height and width before a convolution into the convolution's padding."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, always_equal, merged
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter

Padding = tuple[int, int, int, int]  # top, bottom, left, right


def fuse_pad(graph: Graph) -> Graph:
    """Moves zero padding into the layer that alone reads it, unless the layer's own padding depends
    on the size ("same")."""
    e, replaced = Rewriter(graph), dict[int, Node | None]()
    pads = [(node, added) for node in graph.nodes if (added := _added(e, node))]
    if not pads:
        return graph
    uses = DefUse(e)
    for node, added in pads:
        reader = uses.reader(node.outputs[0])
        if reader is None or not ops.rows()[reader.op].padding:
            continue
        reader = replaced.get(reader.id) or reader
        own = _own_padding(reader)
        if own is None or reader.inputs[0] != node.outputs[0]:
            continue
        top, bottom, left, right = (a + b for a, b in zip(added, own, strict=True))
        replaced[node.id] = None
        replaced[reader.id] = replace(
            reader,
            inputs=(node.inputs[0], *reader.inputs[1:]),
            attributes={**reader.attributes, "padding": (top, bottom, left, right)},
            **merged(node, reader),
        )
    rewritten = [replaced.get(node.id, node) for node in graph.nodes]
    return graph.with_nodes([node for node in rewritten if node is not None])


def _added(e: Rewriter, node: Node) -> Padding | None:
    """Returns the padding that a pad adds, if it is zero padding of height and width of [B, H, W,
    C] only, else None."""
    view = e.view(node)
    margins = None if view is None or view.value else view.margins(e.shape(node.operand()))
    if margins is None or len(margins) != 4 or any(margins[0] + margins[3]):
        return None
    padding = (*margins[1], *margins[2])
    return None if all(always_equal(n, 0) for n in padding) else padding


def _own_padding(node: Node) -> Padding | None:
    padding = node.attributes["padding"]
    if padding == "valid":
        return 0, 0, 0, 0
    if isinstance(padding, str):
        return None
    top, bottom, left, right = padding
    return top, bottom, left, right
