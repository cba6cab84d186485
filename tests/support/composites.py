"""Models with a STABLEHLO_COMPOSITE, which hosts run as a graph of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import numpy as np

from conformance.models.tflite import Model
from conformance.models.tflite_file import schema

Adds = Callable[[Model, int], int]


def absolute(model: Model, given: int) -> int:
    return model.op("ABS", [given], shape=model.tensors[given].shape)


def model(shape: Sequence[int], inside: Adds, after: Adds = absolute) -> bytes:
    """Returns y = after(composite(exp(x))) for x of this shape, which the model also states for the
    composite; `inside` adds nodes to the composite's own graph and returns their result."""
    outer, inner = Model(), Model()
    powers = outer.op("EXP", [outer.input("x", shape)], shape=shape)
    outer.output(after(outer, outer.op("STABLEHLO_COMPOSITE", [powers], shape=shape)))
    inner.output(inside(inner, inner.input("given", shape)))
    whole, part = outer.unpacked(), inner.unpacked()
    for operator in part.subgraphs[0].operators:
        operator.opcodeIndex += len(whole.operatorCodes)
    for tensor in part.subgraphs[0].tensors:
        tensor.buffer += len(whole.buffers) - 1 if tensor.buffer else 0
    whole.operatorCodes += part.operatorCodes
    whole.buffers += part.buffers[1:]
    whole.subgraphs += part.subgraphs
    options = schema().StableHLOCompositeOptionsT()
    options.name, options.decompositionSubgraphIndex = b"odml.thing", 1
    attributes = import_module("flatbuffers.flexbuffers").Dumps({"number": 1})
    options.compositeAttributes = np.frombuffer(bytes(attributes), np.uint8)
    node = whole.subgraphs[0].operators[1]
    node.builtinOptions2Type = schema().BuiltinOptions2.StableHLOCompositeOptions
    node.builtinOptions2 = options
    builder = import_module("flatbuffers").Builder(1 << 16)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())
