"""Joins TFLite models into one with several signatures."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from conformance.models.tflite_file import schema


def joined(models: Mapping[str, bytes]) -> bytes:
    """Returns a model with a graph and a signature for each of these, by name. The arguments of a
    signature have the names of its tensors."""
    kinds = schema()
    whole, *others = [kinds.ModelT.InitFromPackedBuf(one, 0) for one in models.values()]
    for other in others:
        buffers, codes = len(whole.buffers), len(whole.operatorCodes)
        (graph,) = other.subgraphs
        for tensor in graph.tensors:
            tensor.buffer += buffers
        for operator in graph.operators:
            operator.opcodeIndex += codes
        whole.buffers += other.buffers
        whole.operatorCodes += other.operatorCodes
        whole.subgraphs.append(graph)
    whole.signatureDefs = [
        _signature(name, number, whole.subgraphs[number]) for number, name in enumerate(models)
    ]
    builder = import_module("flatbuffers").Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _signature(name: str, number: int, graph: Any) -> Any:
    made = schema().SignatureDefT()
    made.signatureKey, made.subgraphIndex = name, number
    made.inputs, made.outputs = [
        [_named(graph.tensors[t], t) for t in tensors] for tensors in (graph.inputs, graph.outputs)
    ]
    return made


def _named(tensor: Any, index: int) -> Any:
    made = schema().TensorMapT()
    made.name, made.tensorIndex = tensor.name, int(index)
    return made
