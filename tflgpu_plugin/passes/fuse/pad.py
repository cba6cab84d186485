"""Zero padding of height and width in front of a convolution becomes the convolution's own explicit
padding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.passes.sources import merged, only_reader

Padding = tuple[int, int, int, int]  # top, bottom, left, right


def fuse_pad(graph: Graph) -> Graph:
    """Only pads whose sole reader is a convolution without padding of its own choice ("same"
    depends on the size)."""
    replaced: dict[int, Node | None] = {}
    for node in graph.nodes:
        added = _added(graph, node)
        reader = only_reader(graph, node) if added else None
        if added is None or reader is None or not ops.rows()[reader.op].padding:
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


def _added(graph: Graph, node: Node) -> Padding | None:
    """The padding that a pad adds, when it is constant, zero, and on height and width of [B, H, W,
    C] only."""
    if node.op != "pad" or node.epilogue or node.attributes.get("mode", "constant") != "constant":
        return None
    widths = graph.constant(node.inputs[1])
    if widths is None or widths.shape != (4, 2) or widths[[0, 3]].any() or (widths < 0).any():
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        value = graph.constant(node.inputs[2])
        if value is None or np.any(value != 0):
            return None
    top, bottom, left, right = (int(v) for v in widths[1:3].reshape(-1))
    return top, bottom, left, right


def _own_padding(node: Node) -> Padding | None:
    padding = node.attributes["padding"]
    if padding == "valid":
        return 0, 0, 0, 0
    if isinstance(padding, str):
        return None
    top, bottom, left, right = padding
    return top, bottom, left, right
