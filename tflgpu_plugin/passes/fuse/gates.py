"""Channels that are multiplied by a gate each, as squeeze-and-excitation does, are so where the
next convolution reads them: no launch goes through the map for that alone.

Gates only, between -1 and 1: products in float16 stay in its range.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, merged
from tflgpu_plugin.ops.table import BIAS, GATES
from tflgpu_plugin.passes.makers import Makers, either
from tflgpu_plugin.passes.rewriter import Rewriter


def take_gates(graph: Graph) -> Graph:
    """Of products of a map and gates whose only reader can (`gated` of its row)."""
    e = Rewriter(graph)
    view = Makers(e)
    gone: set[int] = set()
    for number, node in enumerate(e.nodes):
        gated = ops.traits(node.op).gated
        if gated is None or len(node.inputs) > GATES:
            continue
        product = view.made_by(node.operand(), "mul")
        if product is None or not view.plain(node) or not gated(graph, node):
            continue
        made, found = product.outputs[0], _map_and_gates(view, product)
        if found is None or view.reader(made) != node or e.tensors[made].wide:
            continue
        inputs = (found[0], *node.inputs[1:], *[None] * (BIAS + 1 - len(node.inputs)), found[1])
        e.nodes[number] = replace(node, inputs=inputs, **merged(product, node))
        gone.add(product.id)
    e.nodes = [node for node in e.nodes if node.id not in gone]
    return e.finish() if gone else graph


def _map_and_gates(view: Makers, product: Node) -> tuple[int, int] | None:
    """The two factors, of which the second is one value per batch and channel."""
    shape = view.e.shape(product.outputs[0])
    for x, gates in either(product):
        if view.e.data(x) is not None or view.e.shape(x) != shape:
            continue
        given = view.e.shape(gates)
        spread = given[-1:] == shape[-1:] and prod(given) == shape[0] * shape[-1]
        if spread and len(given) in (1, len(shape)) and _bounded(view, gates):
            return x, gates
    return None


def _bounded(view: Makers, tensor: int) -> bool:
    """What makes it ends with a function of results of magnitude 1 at most."""
    node = view.producer.get(tensor)
    last = (node.epilogue[-1].op if node.epilogue else node.op) if node else ""
    return ops.traits(last).errors.bounded
