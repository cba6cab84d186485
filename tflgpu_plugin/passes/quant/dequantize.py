"""Converts constants stored in 16 or 8 bits to float32, once, and removes nodes that only convert
them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import (
    FOLDED,
    INT16,
    Array,
    Graph,
    Node,
    Quantization,
    Tensor,
    is_int16,
    merged,
    quantization,
)  # fmt: skip
from tflgpu_plugin.ops.table import BIAS
from tflgpu_plugin.passes.rewriter import Rewriter

Made = dict[int, tuple[Array, Array]]  # by tensor: the constant and its float32 version


def dequantize(graph: Graph) -> Graph:
    """Converts constants of 16 and 8 bits to float32 once, and removes nodes that only convert
    them, whose readers take the float32 constant."""
    graph = widen(graph)
    readers: dict[int, Node] = {}
    for node in graph.nodes:
        for tensor in node.reads:
            readers.setdefault(tensor, node)
    added: dict[int, list[Node]] = {}
    nodes = []
    for node in graph.nodes:
        reader = readers.get(node.outputs[0]) if folded(graph, node) else None
        if reader is None:
            nodes.append(node)
        else:
            added.setdefault(reader.id, []).append(node)
    return graph.with_nodes(
        [replace(n, **merged(n, *added[n.id])) if n.id in added else n for n in nodes]
    )


def folded(graph: Graph, node: Node) -> bool:
    """Whether a node computes a constant that the graph already contains."""
    return node.op == FOLDED or (
        ops.quantizes(node) == "from" and graph.constant(node.outputs[0]) is not None
    )


def widen(graph: Graph) -> Graph:
    """Returns the same nodes over float32 constants: the results that `known` has made constant,
    quantized constants, and biases."""
    graph = known(graph)
    tensors = dict(graph.tensors)
    _values(graph, tensors)
    e, made = Rewriter(replace(graph, tensors=tensors)), dict[tuple[object, ...], int]()
    nodes = tuple(_with_bias(e, node, made) for node in e.nodes)
    return replace(graph, tensors=e.tensors, nodes=nodes)


def known(graph: Graph, made: Made | None = None) -> Graph:
    """Returns the same nodes, with the results of dequantize nodes of constants as constants. The
    nodes stay, so that each reader can have its own copy. `made` caches results for other graphs of
    a model."""
    tensors, made = dict(graph.tensors), {} if made is None else made
    for node in graph.nodes:
        if ops.quantizes(node) == "from":
            _fold(tensors, node, made)
    return replace(graph, tensors=tensors)


def forgotten(graph: Graph) -> Graph:
    """Undoes `known`, so that its constants can be freed."""
    made = {
        n.outputs[0]
        for n in graph.nodes
        if ops.quantizes(n) == "from" and all(graph.constant(t) is not None for t in n.reads)
    }
    return replace(
        graph,
        tensors={t: replace(x, data=None, quantization=None) if t in made else x
                 for t, x in graph.tensors.items()},
    )  # fmt: skip


def _fold(tensors: dict[int, Tensor], node: Node, made: Made) -> None:
    given, result = node.inputs[0], tensors[node.outputs[0]]
    source = None if given is None else tensors[given]
    if source is None or result.data is not None or result.dtype != "f32":
        return
    source_data, value = made.get(node.outputs[0], (None, None))
    if value is None or source_data is not source.data:
        value = dequantized(source)
    if value is None or source.data is None:
        return
    made[node.outputs[0]] = source.data, value
    held = source.quantization if source.dtype in quantization.STORED else None
    tensors[node.outputs[0]] = replace(result, data=value, quantization=held)


def dequantized(source: Tensor) -> Array | None:
    """Returns a constant as float32; None if it is not constant or does not hold real numbers."""
    if source.data is None:
        return None
    if source.dtype == "f32":  # converted before
        return source.data
    if source.dtype == "f16":
        return source.data.astype(np.float32)
    scaled = source.dtype in ("i8", "u8", "i16", "i32") or quantization.real(source)
    if source.quantization is not None and scaled:
        return quantization.dequantize(source.data, source.quantization)
    return None


def _values(graph: Graph, tensors: dict[int, Tensor]) -> None:
    """Dequantizes constants in place; they keep their quantization, which says what type is
    stored. An op that has int16 among its types takes the stored numbers."""
    made = (n for n in graph.nodes if n.op not in ("", FOLDED))
    readers = [n for n in made if ops.quantizes(n) != "from"]
    whole = {t for n in readers if INT16 in ops.rows()[n.op].types for t in n.reads}
    whole = {t for t in whole if graph.tensors[t].dtype == INT16}
    for index in {t for node in readers for t in node.reads} - whole - set(graph.outputs):
        tensor = tensors[index]
        if quantization.real(tensor) and tensor.data is not None:
            assert tensor.quantization is not None
            value = quantization.dequantize(tensor.data, tensor.quantization)
            tensors[index] = replace(tensor, dtype="f32", data=value)


def _with_bias(e: Rewriter, node: Node, made: dict[tuple[object, ...], int]) -> Node:
    """Returns a node of a quantized layer with its int32 bias as float32; `made` caches one for
    each bias and scale. As in the hosts' kernels, the scale is the input's times the weights',
    whatever the bias tensor states."""
    x, weights, bias = (*node.inputs, None, None)[:3]
    if ops.bias(node) is None or x is None or weights is None or bias is None:
        return node
    if is_int16(e.tensors[x]):  # float32 cannot hold it
        return node
    tensor, scales = e.tensors[bias], _scales(e, x, weights)
    if tensor.dtype != "i32" or tensor.data is None or scales is None:
        return node
    if len(scales) not in (1, tensor.data.size):
        return node
    key = (bias, scales)
    if key not in made:
        quantized = Quantization(scales, (0,) * len(scales))
        value = (tensor.data.astype(np.float64) * np.array(scales)).astype(np.float32)
        made[key] = e.add(replace(tensor, dtype="f32", data=value, quantization=quantized))
    return replace(node, inputs=(*node.inputs[:BIAS], made[key], *node.inputs[BIAS + 1 :]))


def _scales(e: Rewriter, x: int, weights: int) -> tuple[float, ...] | None:
    first, second = (e.tensors[t].quantization for t in (x, weights))
    if first is None or second is None or len(first.scale) != 1:
        return None
    return tuple(first.scale[0] * scale for scale in second.scale)
