"""Common subexpression elimination: models compute the same masks, positions and angles again in
every layer."""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import blake2b
from typing import Any

import numpy as np

from tflgpu_plugin.ir import STORE, Array, Graph, Node, renamed
from tflgpu_plugin.ir.symbolic import hashed
from tflgpu_plugin.ops.views import View
from tflgpu_plugin.passes.rewriter import Rewriter

SAMPLE = 16  # elements by which most constants differ
MAX_COMPARED_BYTES = 1 << 22  # of a constant; larger ones are weights of a single layer


def share_common_subexpressions(graph: Graph) -> Graph:
    """Merges nodes that compute the same result from the same tensors; the first of them
    remains."""
    e = Rewriter(graph)
    first: dict[Hashable, Node] = {}
    names: dict[int, int] = {}
    equal = _equal_constants(graph)
    states = {tensor for pair in graph.states for tensor in pair}
    for node in graph.nodes:
        found = renamed(node, names)
        if node.op in ("", STORE) or not states.isdisjoint(found.reads):
            continue
        if any(e.tensors[t].quantization is not None for t in (*found.reads, *found.outputs)):
            continue  # later passes match one (de)quantize node per reader
        same = first.setdefault(_key(e, renamed(found, equal)), node)
        if same is not node and e.needed.isdisjoint(node.outputs):
            names |= dict(zip(node.outputs, same.outputs, strict=True))
    if not names:
        return graph
    e.rename(names)
    e.drop_unused()
    return e.finish()


def _equal_constants(graph: Graph) -> dict[int, int]:
    """Returns the first constant with the same elements, for each constant that repeats one: some
    exporters write a table again for each layer."""
    found: dict[int, int] = {}
    alike: dict[Hashable, dict[int, Array]] = {}
    for number, tensor in graph.tensors.items():
        data = tensor.data
        if data is None or tensor.quantization is not None or data.dtype == object:
            continue
        if data.nbytes > MAX_COMPARED_BYTES:
            continue
        key = (
            data.shape,
            tensor.dtype,
            str(data.dtype),
            tensor.keep_f32,
            data.flat[:SAMPLE].tobytes(),
        )
        alike.setdefault(key, {})[number] = data
    for group in (group for group in alike.values() if len(group) > 1):
        first: dict[bytes, int] = {}
        for number, data in group.items():
            same = first.setdefault(blake2b(data.tobytes()).digest(), number)
            if same != number:
                found[number] = same
    return found


def _key(e: Rewriter, node: Node) -> Hashable:
    """Returns a key that is equal for nodes that compute the same result."""
    made = [e.tensors[t] for t in node.outputs]
    kinds = tuple((hashed(t.shape), t.dtype, t.host_dtype, t.keep_f32, t.variable) for t in made)
    return node.op, node.inputs, attributes_key(node), node.epilogue, kinds


def attributes_key(node: Node) -> str:
    """Returns a key that is equal for equal attributes."""
    return repr(tuple(sorted((name, _held(value)) for name, value in node.attributes.items())))


def _held(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return value.key if isinstance(value, View) else repr(value)
