"""Joins dense layers that read the same tensor into one, if its result can be read in parts:
queries, keys and values of attention, or the layers that read the time step in all blocks of a
diffusion model.

Requires that the parts can be read in place: a batch of one, and parts that start at a vec4.
Readers of a single row can read any part, but an elementwise reader stays with a layer of its own,
as an epilogue, where a part would cost it a launch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, Graph, Node
from tflgpu_plugin.ops.table import BIAS
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_JOINED = 1 << 22  # total elements of weights, which are copied


@dataclass(frozen=True)
class _Layer:
    """A matrix product with an optional bias node after it, and its result."""

    nodes: tuple[Node, ...]
    weights: Array
    bias: Array | None
    output: int


def join_dense(graph: Graph) -> Graph:
    """Joins dense layers that read the same tensor, if parts of the joint result can be read in
    place."""
    e = Rewriter(graph)
    uses = DefUse(e)
    by_input: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "fully_connected":
            by_input.setdefault(node.operand(), []).append(node)
    for x, nodes in by_input.items():
        # A node alone is not looked at, since that guards whether its batch is one.
        found = [_layer(uses, node) for node in nodes] if len(nodes) > 1 else []
        layers = [layer for layer in found if layer is not None]
        if len(layers) > 1 and sum(layer.weights.size for layer in layers) <= MAX_JOINED:
            _join(e, x, layers)
    return graph if e.nodes == list(graph.nodes) else e.finish()


def _layer(uses: DefUse, node: Node) -> _Layer | None:
    e, output = uses.e, node.outputs[0]
    shape, weights = e.shape(output), e.data(node.operand(1))
    given = node.inputs[BIAS] if len(node.inputs) > BIAS else None
    bias, nodes = e.data(given), [node]
    if weights is None or weights.dtype != np.float32 or (given is not None and bias is None):
        return None
    single = prod(shape) == shape[-1] and e.shape(node.operand()) == (*shape[:-1], weights.shape[1])
    kept = single or node.attributes.get("keep_num_dims")
    if uses.made_by(output, node.op) is None or not kept:
        return None
    if len(shape) < 3 - single or shape[0] != 1 or shape[-1] % 4:
        return None
    near = uses.reader(output)
    if near is not None and uses.made_by(near.outputs[0], "add"):
        added = _added(e, near, output)
        if added is not None:
            bias = added if bias is None else bias + added
            nodes, output = [*nodes, near], near.outputs[0]
    if output in e.needed or not (_stays(uses, output) if single else _apart(uses, output)):
        return None
    return _Layer(tuple(nodes), weights, bias, output)


def _stays(uses: DefUse, tensor: int) -> bool:
    """Whether no reader of a tensor becomes an epilogue of the layer that makes it."""
    near = uses.reader(tensor)  # None if there are several
    if near is None or ops.rows()[near.op].as_epilogue is None:
        return True
    return uses.e.shape(near.outputs[0]) != uses.e.shape(tensor)


def _apart(uses: DefUse, tensor: int) -> bool:
    """Whether every reader of a tensor can read a part of another one instead: it reads heads in
    place, or moves elements."""
    read = [(node, ops.rows()[node.op]) for node in uses.readers.get(tensor, [])]
    return tensor in uses.e.needed or (
        bool(read)
        and all(
            row.by_head
            or (row.kind == "movement" and (not row.views or _apart(uses, n.outputs[0])))
            for n, row in read
        )
    )


def _added(e: Rewriter, node: Node, tensor: int) -> Array | None:
    """Returns the constant that a node adds to a tensor, if it has one value per channel; else
    None."""
    (other,) = [t for t in node.inputs[:2] if t != tensor] or [None]
    if other is None or e.shape(node.outputs[0]) != e.shape(tensor):
        return None
    found = e.per_channel(other, tensor)
    return found if found is not None and found.dtype == np.float32 else None


def _join(e: Rewriter, x: int, layers: list[_Layer]) -> None:
    """Adds the joint layer, and a view of its result for each original one."""
    first, origin = layers[0].nodes[0], [node for layer in layers for node in layer.nodes]
    sizes = [len(layer.weights) for layer in layers]
    whole = e.tensor((*e.shape(first.outputs[0])[:-1], sum(sizes)), like=first.outputs[0])
    weights = e.constant(np.concatenate([layer.weights for layer in layers]))
    bias = None
    if any(layer.bias is not None for layer in layers):
        parts = [np.zeros(n) if each.bias is None else each.bias
                 for n, each in zip(sizes, layers, strict=True)]  # fmt: skip
        bias = e.constant(np.concatenate(parts).astype(np.float32))
    attributes = {"keep_num_dims": True, "activation": "none"}
    made = [e.node("fully_connected", (x, weights, bias), (whole,), origin, **attributes)]
    for layer, start in zip(layers, accumulate(sizes[:-1], initial=0), strict=True):
        made.append(e.cut(whole, layer.output, start, *layer.nodes))
    e.put(made, *origin)
