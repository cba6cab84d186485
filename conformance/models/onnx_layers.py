"""Judges each layer of a quantized ONNX model by exact integer arithmetic on the inputs that the
layer has in a run, so that a rounding difference of an earlier layer does not count against later
ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from conformance.references import integers
from tflgpu_plugin.ir import Array

GIVEN = " given"  # ends the name of a quantized tensor that is an input


@dataclass(frozen=True)
class Layers:
    """`shown` is the model with its quantized tensors (`names`) as additional outputs. `cut`
    computes each of these from the others: it has each as an output, and as an input for its
    readers."""

    names: tuple[str, ...]
    shown: bytes
    cut: bytes


def split(model: bytes) -> Layers:
    """Returns a model whose layers are between QuantizeLinear and DequantizeLinear."""
    shown = onnx.ModelProto.FromString(model)
    names = [node.output[0] for node in shown.graph.node if node.op_type == "QuantizeLinear"]
    written = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
    shown.graph.output.extend(written)
    cut = onnx.ModelProto.FromString(model)
    for node in cut.graph.node:
        node.input[:] = [name + GIVEN if name in names else name for name in node.input]
    cut.graph.input.extend(onnx.helper.make_empty_tensor_value_info(n + GIVEN) for n in names)
    del cut.graph.output[:]
    cut.graph.output.extend(written)
    return Layers(tuple(names), shown.SerializeToString(), cut.SerializeToString())


def off(layers: Layers, feed: Mapping[str, Array], given: Sequence[Array]) -> Array:
    """Returns by how many steps each number of each quantized tensor (`given`, in the order of the
    names) differs from its expected value."""
    fed = {name + GIVEN: array for name, array in zip(layers.names, given, strict=True)}
    exact = integers.evaluate(layers.cut, {**feed, **fed})
    pairs = zip(exact, given, strict=True)
    return np.concatenate([np.abs(a.astype(np.int64) - b).reshape(-1) for a, b in pairs])
