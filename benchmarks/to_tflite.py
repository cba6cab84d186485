"""Writes a network as a TFLite file."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks import Layer, Network
from conformance.models.tflite import Model

ACTIVATIONS = {"": "NONE", "relu": "RELU", "relu6": "RELU6"}


def to_tflite(network: Network) -> bytes:
    """Returns a model with one input [1, H, W, 3], one output."""
    model = Model()
    found = {"input": model.input("input", (1, *network.shape))}
    for layer in network.layers:
        found[layer.name] = _add(model, layer, [found[name] for name in layer.inputs], network)
    model.output(found[network.layers[-1].name])
    return model.to_bytes()


def _add(model: Model, layer: Layer, inputs: list[int], network: Network) -> int:
    shape, activation = (1, *layer.shape), ACTIVATIONS[layer.activation]
    more: dict[str, Any] = {"shape": shape, "name": layer.name}
    if layer.op == "conv":
        return _conv(model, layer, inputs, network, {"fusedActivationFunction": activation})
    if layer.op == "max_pool":
        padded, padding = _pad(model, layer, inputs[0], network)
        window = {"filterHeight": layer.window, "filterWidth": layer.window}
        options = {**window, **_strides(layer), "padding": padding}
        return model.op("MAX_POOL_2D", [padded], "Pool2DOptions", options, **more)
    if layer.op == "mean":
        axes = model.constant(np.array([1, 2], np.int32))
        return model.op("MEAN", [*inputs, axes], "ReducerOptions", {"keepDims": False}, **more)
    if layer.op == "dense":
        parts = [model.constant(layer.weights), model.constant(layer.bias)]
        return model.op("FULLY_CONNECTED", [*inputs, *parts], "FullyConnectedOptions", **more)
    if layer.op == "resize":
        size = model.constant(np.array(layer.shape[:2], np.int32))
        options = {"halfPixelCenters": True}
        operands = [*inputs, size]
        return model.op(
            "RESIZE_BILINEAR", operands, "ResizeBilinearOptions", options, version=3, **more
        )
    kinds: dict[str, tuple[str, str | None, dict[str, Any]]] = {
        "add": ("ADD", "AddOptions", {}),
        "relu": ("RELU", None, {}),
        "concat": ("CONCATENATION", "ConcatenationOptions", {"axis": 3}),
        "softmax": ("SOFTMAX", "SoftmaxOptions", {"beta": 1.0}),
    }
    op, options_type, values = kinds[layer.op]
    return model.op(op, inputs, options_type, values, **more)


def _conv(
    model: Model, layer: Layer, inputs: list[int], network: Network, options: dict[str, Any]
) -> int:
    assert layer.weights is not None
    padded, padding = _pad(model, layer, inputs[0], network)
    options |= {"padding": padding, **_strides(layer)}
    depthwise = layer.groups > 1
    weights = layer.weights.transpose(3, 1, 2, 0) if depthwise else layer.weights
    operands = [padded, model.constant(np.ascontiguousarray(weights)), model.constant(layer.bias)]
    op, kind = ("CONV_2D", "Conv2DOptions")
    if depthwise:
        op, kind = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        options["depthMultiplier"] = 1
    return model.op(op, operands, kind, options, shape=(1, *layer.shape), name=layer.name)


def _strides(layer: Layer) -> dict[str, int]:
    return {"strideH": layer.stride, "strideW": layer.stride}


def _pad(model: Model, layer: Layer, source: int, network: Network) -> tuple[int, str]:
    """Returns (padded tensor, padding of the operator): with a stride, SAME pads differently."""
    if layer.stride == 1 or not layer.pad:
        return source, "SAME"
    around = [layer.pad, layer.pad]
    paddings = model.constant(np.array([[0, 0], around, around, [0, 0]], np.int32))
    height, width, channels = network.shape_of(layer.inputs[0])
    shape = (1, height + 2 * layer.pad, width + 2 * layer.pad, channels)
    return model.op("PAD", [source, paddings], "PadOptions", shape=shape), "VALID"
