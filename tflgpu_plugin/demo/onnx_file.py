"""Writes the demo's network as an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflgpu_plugin.demo.network import CLASSES, SIZE, Layer, Network
from tflgpu_plugin.harness.protobuf import Model


def to_onnx(network: Network) -> bytes:
    """Returns the ONNX file: 58 nodes, input [1, 3, 224, 224], outputs `logits` and
    `probabilities`."""
    model, size, x = Model(), SIZE, "image"
    limits = [
        model.constant("low", np.zeros((), np.float32)),
        model.constant("high", np.full((), 6, np.float32)),
    ]
    for layer in network.layers:
        if layer.name == "logits":
            x, size = model.node("GlobalAveragePool", [x], "pool"), 1
        x = _add_layer(model, layer, x, size, limits)
        size = -(-size // layer.stride)
    x = model.node("Flatten", [x], "logits", axis=1)
    model.node("Softmax", [x], "probabilities", axis=1)
    outputs = {name: (1, CLASSES) for name in ("logits", "probabilities")}
    return model.serialize({"image": (1, 3, SIZE, SIZE)}, outputs, "mobilenet_v1_1.0_224")


def _add_layer(model: Model, layer: Layer, x: str, size: int, limits: Sequence[str]) -> str:
    depthwise = layer.kind == "depthwise"
    weights = layer.weights[..., None, :] if depthwise else layer.weights
    kernel = weights.shape[0]
    total = max((-(-size // layer.stride) - 1) * layer.stride + kernel - size, 0)
    before, after = total // 2, total - total // 2  # TFLite's SAME padding
    inputs = [
        x,
        model.constant(f"{layer.name}/weights", weights.transpose(3, 2, 0, 1)),
        model.constant(f"{layer.name}/bias", layer.bias),
    ]
    result = model.node(
        "Conv", inputs, f"{layer.name}/sum",
        kernel_shape=[kernel] * 2, strides=[layer.stride] * 2,
        pads=[before, before, after, after], group=weights.shape[3] if depthwise else 1,
    )  # fmt: skip
    return model.node("Clip", [result, *limits], layer.name) if layer.activation else result
