"""Moves multiplications of a feature map by channel gates, as in squeeze-and-excitation, into the
convolution that reads the product, which saves a launch over the feature map.

Only gates between -1 and 1 are moved, so that products cannot overflow float16."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Graph, Node, merged
from tflgpu_plugin.ops.table import BIAS, GATES
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter


def fuse_channel_gates(graph: Graph) -> Graph:
    """Moves multiplications of a feature map by channel gates into the node that reads the product,
    if it is the only reader and its op takes gates."""
    e = Rewriter(graph)
    uses = DefUse(e)
    gone: set[int] = set()
    for number, node in enumerate(e.nodes):
        gated = ops.traits(node.op).gated
        if gated is None or len(node.inputs) > GATES:
            continue
        product = uses.made_by(node.operand(), "mul")
        if product is None or not uses.plain(node) or not gated(graph, node):
            continue
        made, found = product.outputs[0], _map_and_gates(uses, product)
        if found is None or uses.reader(made) != node or e.tensors[made].keep_f32:
            continue
        inputs = (found[0], *node.inputs[1:], *[None] * (BIAS + 1 - len(node.inputs)), found[1])
        e.nodes[number] = replace(node, inputs=inputs, **merged(product, node))
        gone.add(product.id)
    e.nodes = [node for node in e.nodes if node.id not in gone]
    return e.finish() if gone else graph


def _map_and_gates(uses: DefUse, product: Node) -> tuple[int, int] | None:
    """Returns the factors of a product as (feature map, gates), with one gate per batch and
    channel."""
    shape = uses.e.shape(product.outputs[0])
    for x, gates in permutations(product.reads):
        if uses.e.data(x) is not None or uses.e.shape(x) != shape:
            continue
        given = uses.e.shape(gates)
        spread = given[-1:] == shape[-1:] and prod(given) == shape[0] * shape[-1]
        if spread and len(given) in (1, len(shape)) and _bounded(uses, gates):
            return x, gates
    return None


def _bounded(uses: DefUse, tensor: int) -> bool:
    """Whether a tensor is the result of a function with values between -1 and 1."""
    node = uses.producer.get(tensor)
    last = (node.epilogue[-1].op if node.epilogue else node.op) if node else ""
    return ops.traits(last).errors.bounded
