"""Joins dense layers that read the same tensor into one, if its result can be read in parts:
queries, keys and values of attention, or the layers that read the time step in all blocks of a
diffusion model.

Requires that the parts can be read in place: a batch of one, and parts that start at a vec4.
Readers of a single row can read any part, but an elementwise reader stays with a layer of its own,
as an epilogue, where a part would cost it a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, Graph, Node
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.rewriter import Rewriter

MAX_JOINED = 1 << 22  # total elements of constants, which are copied


@dataclass(frozen=True)
class _Layer:
    """A matrix product with an optional bias node after it, the constants that have a row for each
    output (by their positions, without the bias), the bias, and the result."""

    nodes: tuple[Node, ...]
    constants: Mapping[int, Array]
    bias: Array | None
    output: int

    @property
    def kind(self) -> tuple[object, ...]:
        """Returns what layers of one input must have in common."""
        node = self.nodes[0]
        rows = [(k, data.shape[1:], data.dtype.str) for k, data in self.constants.items()]
        plain = {k: v for k, v in node.attributes.items() if k != "keep_num_dims"}
        return node.op, repr(sorted(plain.items())), *rows

    @property
    def size(self) -> int:
        return sum(data.size for data in self.constants.values())


def join_dense(graph: Graph) -> Graph:
    """Joins dense layers that read the same tensor, if parts of the joint result can be read in
    place."""
    e = Rewriter(graph)
    uses = DefUse(e)
    by_input: dict[tuple[str, int], list[Node]] = {}
    for node in graph.nodes:
        if ops.rows()[node.op].output_rows:
            by_input.setdefault((node.op, node.operand()), []).append(node)
    for nodes in by_input.values():
        # A node alone is not looked at, since that guards whether its batch is one.
        alike: dict[tuple[object, ...], list[_Layer]] = {}
        for node in nodes if len(nodes) > 1 else ():
            if layer := _layer(uses, node):
                alike.setdefault(layer.kind, []).append(layer)
        for layers in alike.values():
            if len(layers) > 1 and sum(layer.size for layer in layers) <= MAX_JOINED:
                _join(e, layers)
    return graph if e.nodes == list(graph.nodes) else e.finish()


def _layer(uses: DefUse, node: Node) -> _Layer | None:
    """Returns a dense layer that may be joined with others, None for any other node."""
    e, output = uses.e, node.outputs[0]
    shape, x, given = e.shape(output), e.shape(node.operand()), ops.bias(node)
    constants, bias, nodes = _constants(e, node), e.data(given), [node]
    if constants is None or (given is not None and bias is None):
        return None
    single = prod(shape) == shape[-1]
    if uses.made_by(output, node.op) is None or x[:-1] != shape[:-1]:
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
    return _Layer(tuple(nodes), constants, bias, output)


def _constants(e: Rewriter, node: Node) -> dict[int, Array] | None:
    """Returns the constants that have a row for each output, by their positions; None if one is
    unknown or quantized."""
    found = dict[int, Array]()
    for position in ops.rows()[node.op].output_rows:
        tensor = node.inputs[position] if position < len(node.inputs) else None
        data = e.data(tensor)
        if tensor is not None and (data is None or e.tensors[tensor].quantization is not None):
            return None
        if data is not None:
            found[position] = data
    return found


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


def _join(e: Rewriter, layers: list[_Layer]) -> None:
    """Adds the joint layer, and a view of its result for each original one."""
    first, origin = layers[0].nodes[0], [node for layer in layers for node in layer.nodes]
    sizes = [e.shape(layer.output)[-1] for layer in layers]
    whole = e.tensor((*e.shape(first.outputs[0])[:-1], sum(sizes)), like=first.outputs[0])
    inputs: list[int | None] = [first.operand(), *[None] * max(layers[0].constants)]
    for position in layers[0].constants:
        rows = np.concatenate([layer.constants[position] for layer in layers])
        inputs[position] = e.constant(rows)
    bias = None
    if any(layer.bias is not None for layer in layers):
        parts = [np.zeros(n) if each.bias is None else each.bias
                 for n, each in zip(sizes, layers, strict=True)]  # fmt: skip
        bias = e.constant(np.concatenate(parts).astype(np.float32))
    made = _product(e, first, inputs, bias, whole, origin)
    for layer, start in zip(layers, accumulate(sizes[:-1], initial=0), strict=True):
        made.append(e.cut(whole, layer.output, start, *layer.nodes))
    e.put(made, *origin)


def _product(
    e: Rewriter, first: Node, inputs: list[int | None], bias: int | None, y: int, origin: list[Node]
) -> list[Node]:
    """Returns the nodes of a layer like `first` with these inputs and this bias, which its op takes
    or another node adds."""
    attributes = dict(first.attributes)
    if ops.weights(first) is not None:
        attributes |= {"keep_num_dims": True}
        return [e.node(first.op, (*inputs, bias), (y,), origin, **attributes)]
    if bias is None:
        return [e.node(first.op, tuple(inputs), (y,), origin, **attributes)]
    product = e.tensor(e.shape(y), like=y)
    return [
        e.node(first.op, tuple(inputs), (product,), origin, **attributes),
        e.node("add", (product, bias), (y,), origin, activation="none"),
    ]
