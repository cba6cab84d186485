"""Splits a real model into models of one node each, with the inputs that the node gets in a run:
this distinguishes a wrong operator from rounding errors that add up over a network."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from conformance import host
from conformance.host import Array, Feed
from conformance.models import tflite as models, tflite_file
from tflgpu_plugin.ir import NUMPY_DTYPES, Quantization
from tflgpu_plugin.ir.quantization import dequantize


@dataclass(frozen=True)
class Part:
    """One node: its operator, a model with nothing else, and an input for each of its inputs."""

    op: str
    content: bytes
    feed: Feed


def parts(content: bytes, feed: Feed, name: str | None = None) -> Iterator[Part]:
    """Yields the nodes of a model in order, except those without computed inputs, and those of
    variables; values are those of the reference kernels, and state begins at zero."""
    schema = tflite_file.schema()
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    numbers = _numbers()
    values = _values(content, feed, name)
    names = tflite_file.operator_names(model)
    for operator in graph.operators:
        code, op = model.operatorCodes[operator.opcodeIndex], names[operator.opcodeIndex]
        fed = [int(t) for t in operator.inputs if t >= 0 and t in values]
        fed = [t for t in dict.fromkeys(fed) if not graph.tensors[t].isVariable]
        used = [int(t) for t in (*operator.inputs, *operator.outputs) if t >= 0]
        if fed and op != "CUSTOM" and all(graph.tensors[t].type in numbers for t in used):
            shapes = {
                t: values[t].shape for t in (*fed, *map(int, operator.outputs)) if t in values
            }
            single = alone(schema, model, operator, code, fed, shapes)
            yield Part(op, single, [values[t] for t in fed])


def _numbers() -> set[int]:
    """Returns the types of tensors that are arrays; others, such as variables, cannot be read."""
    kinds = tflite_file.schema().TensorType
    return {getattr(kinds, kind) for n, kind in models.SCHEMA_TYPES.items() if n in NUMPY_DTYPES}


def _values(content: bytes, feed: Feed, name: str | None) -> dict[int, Array]:
    """Returns the value of every tensor that is not constant, after a run."""
    cpu = host.interpreter(content, name, experimental_preserve_all_tensors=True)
    cpu.allocate_tensors()
    host.invoke(cpu, [feed])
    model = tflite_file.schema().ModelT.InitFromPackedBuf(content, 0)
    found = {}
    for index, tensor in enumerate(model.subgraphs[0].tensors):
        data = model.buffers[tensor.buffer].data
        if tensor.type in _numbers() and (data is None or len(data) == 0):
            try:
                found[index] = np.array(cpu.get_tensor(index))
            except ValueError:
                continue  # no value, for example scratch of a node
    return found


def alone(
    schema: Any, model: Any, operator: Any, code: Any, fed: list[int], shapes: dict[int, Any]
) -> bytes:
    """Returns a model of one operator whose inputs are the tensors `fed`, with these shapes."""
    graph = model.subgraphs[0]
    inner = [] if operator.intermediates is None else list(map(int, operator.intermediates))
    used = list(dict.fromkeys([*map(int, operator.inputs), *map(int, operator.outputs), *inner]))
    used = [t for t in used if t >= 0]
    place = {t: k for k, t in enumerate(used)} | {-1: -1}
    single, only = schema.ModelT(), schema.SubGraphT()
    single.version, single.buffers = 3, [schema.BufferT()]
    only.tensors = []
    for t in used:
        tensor, kept = graph.tensors[t], schema.TensorT()
        vars(kept).update(vars(tensor))
        kept.buffer, kept.shapeSignature = 0, None
        if t in shapes:
            kept.shape = list(shapes[t])
        data = model.buffers[tensor.buffer].data
        if data is not None and len(data):
            kept.buffer = len(single.buffers)
            single.buffers.append(model.buffers[tensor.buffer])
        only.tensors.append(kept)
    own = schema.OperatorT()
    vars(own).update(vars(operator))
    own.opcodeIndex = 0
    own.inputs = [place[int(t)] for t in operator.inputs]
    own.outputs = [place[int(t)] for t in operator.outputs]
    own.intermediates = [place[t] for t in inner] or None
    only.operators, only.name = [own], b"main"
    only.inputs = [place[t] for t in fed]
    only.outputs = list(own.outputs)
    single.operatorCodes, single.subgraphs = [code], [only]
    builder = import_module("flatbuffers").Builder(1 << 16)
    builder.Finish(single.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def hybrid(content: bytes) -> frozenset[int]:
    """Returns the nodes of the first subgraph that multiply float32 values with 8-bit weights."""
    model = tflite_file.schema().ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    return frozenset(k for k, operator in enumerate(graph.operators) if _weights(graph, operator))


def _weights(graph: Any, operator: Any) -> list[int]:
    """Returns the 8-bit constants that a float32 node reads."""
    kinds = tflite_file.schema().TensorType
    data, *others = (int(t) for t in operator.inputs) if len(operator.inputs) else (-1,)
    if data < 0 or graph.tensors[data].type != kinds.FLOAT32:
        return []
    read = [(t, graph.tensors[t]) for t in others if t >= 0]
    return [t for t, w in read if w.type == kinds.INT8 and w.quantization is not None]


def widened(content: bytes, nodes: Collection[int]) -> bytes:
    """Returns the model with the weights of these hybrid nodes in float32, and of no others: the
    computation of a dynamic-range model with these weights dequantized, while the host's kernels
    also quantize the other factor."""
    schema = tflite_file.schema()
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    copies: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        weights = _weights(graph, operator) if number in nodes else []
        for index in weights:
            if index not in copies:  # other nodes may read the stored ones
                copies[index] = len(graph.tensors)
                graph.tensors.append(_float_copy(schema, model, graph.tensors[index]))
        operator.inputs = [copies[int(t)] if int(t) in weights else int(t) for t in operator.inputs]
    model.signatureDefs = None
    builder = import_module("flatbuffers").Builder(len(content) * 4)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _float_copy(schema: Any, model: Any, tensor: Any) -> Any:
    stored = np.frombuffer(bytes(bytearray(model.buffers[tensor.buffer].data)), np.int8)
    given = tensor.quantization
    zero = given.zeroPoint if given.zeroPoint is not None else [0]
    scaled = Quantization(
        tuple(float(s) for s in given.scale),
        tuple(int(zero[min(k, len(zero) - 1)]) for k in range(len(given.scale))),
        int(given.quantizedDimension),
    )
    values = dequantize(stored.reshape(tuple(tensor.shape)), scaled)
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    copy = schema.TensorT()
    vars(copy).update(vars(tensor))
    copy.buffer, copy.type, copy.quantization = len(model.buffers), 0, None
    model.buffers.append(buffer)
    return copy
