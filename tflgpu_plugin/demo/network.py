"""MobileNet v1 1.0 224 (https://arxiv.org/abs/1704.04861, table 1) with seeded weights: the network
that the demo generates.

Random weights usually make a deep network's signal vanish or explode, so that a comparison shows
nothing. Here each layer is scaled and shifted, channel by channel, by the statistics of its own
response to the demo's picture: the same step as folding a batch norm, so that every block's output
keeps a spread near one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.harness import flatbuffer
from tflgpu_plugin.harness.flatbuffer import RELU6, SAME, VALID, Model

Array = npt.NDArray[np.float32]

SIZE, CLASSES = 224, 1001
BLOCKS = (
    [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    + [(512, 1)] * 5
    + [(1024, 2), (1024, 1)]
)
# Mean and deviation before relu6; its result then has a standard deviation near 1.1.
_MEAN, _SPREAD = 0.7, 1.7
_LOGIT_SPREAD = 3.0  # one class dominates, the others remain visible in the softmax


@dataclass(frozen=True)
class Layer:
    """A convolution: `kind` is conv or depthwise; weights are [KH, KW, I, O] or [KH, KW, C]; bias
    is [O]."""

    name: str
    kind: str
    weights: Array
    bias: Array
    stride: int
    activation: bool = True


@dataclass(frozen=True)
class Network:
    """The layers, and the standard deviation of each block's output on the demo's picture."""

    layers: tuple[Layer, ...]
    spreads: dict[str, float]


def picture(seed: int = 0, size: int = SIZE) -> Array:
    """Returns a seeded picture [1, size, size, 3] in [-1, 1]: noise at five scales, so that it has
    shapes and texture."""
    random = np.random.default_rng([seed, size])
    total = np.zeros((size, size, 3))
    for cells in (2, 4, 8, 32, size):
        grid = random.uniform(-1, 1, (cells, cells, 3))
        index = np.arange(size) * cells // size
        total += grid[index][:, index]
    return np.clip(total / 2.5, -1, 1).astype(np.float32)[None]


def build(seed: int = 1) -> Network:
    """Returns weights for all 28 layers; takes about half a second."""
    random = np.random.default_rng(seed)
    x = picture()[0]
    layers: list[Layer] = []
    spreads: dict[str, float] = {}

    def add(
        name: str, kind: str, shape: tuple[int, ...], stride: int, activation: bool = True
    ) -> None:
        nonlocal x
        layer, x = _calibrated(name, kind, random.standard_normal(shape), stride, activation, x)
        layers.append(layer)

    add("stem", "conv", (3, 3, 3, 32), 2)
    spreads["stem"] = float(x.std())
    channels = 32
    for number, (width, stride) in enumerate(BLOCKS, start=1):
        add(f"block{number}/depthwise", "depthwise", (3, 3, channels), stride)
        add(f"block{number}", "conv", (1, 1, channels, width), 1)
        spreads[f"block{number}"] = float(x.std())
        channels = width
    # A pooled picture is one sample, so the classifier is scaled by its fan-in instead of by
    # statistics.
    pooled = x.mean((0, 1))
    weights = (
        random.standard_normal((1, 1, channels, CLASSES)) * _LOGIT_SPREAD / np.linalg.norm(pooled)
    )
    bias = random.standard_normal(CLASSES) * 0.1
    layers.append(Layer("logits", "conv", _f32(weights), _f32(bias), 1, activation=False))
    return Network(tuple(layers), spreads)


def _calibrated(
    name: str, kind: str, weights: npt.NDArray[np.float64], stride: int, activation: bool, x: Array
) -> tuple[Layer, Array]:
    response = _respond(kind, _f32(weights), stride, x)
    scale = _SPREAD / np.maximum(response.std((0, 1)), 1e-6)
    bias = _MEAN - response.mean((0, 1)) * scale
    layer = Layer(name, kind, _f32(weights * scale), _f32(bias), stride, activation)
    return layer, np.clip(response * _f32(scale) + _f32(bias), 0, 6)


def _respond(kind: str, weights: Array, stride: int, x: Array) -> Array:
    """Returns the convolution without bias, SAME padding, [H, W, C]: one shifted product per
    tap."""
    taps_h, taps_w = weights.shape[:2]
    height, width = -(-x.shape[0] // stride), -(-x.shape[1] // stride)
    pads = [
        max((o - 1) * stride + k - i, 0)
        for o, k, i in ((height, taps_h, x.shape[0]), (width, taps_w, x.shape[1]))
    ]
    padded = np.pad(x, [(p // 2, p - p // 2) for p in pads] + [(0, 0)])
    channels = weights.shape[-1]
    total = np.zeros((height, width, channels), np.float32)
    for i in range(taps_h):
        for j in range(taps_w):
            window = padded[i : i + height * stride : stride, j : j + width * stride : stride][
                :height, :width
            ]
            total += window * weights[i, j] if kind == "depthwise" else window @ weights[i, j]
    return total


def to_tflite(network: Network) -> bytes:
    """Returns the TFLite file: 31 operators, input [1, 224, 224, 3], output [1, 1001]
    probabilities."""
    model = Model()
    size, channels = SIZE, 3
    image = x = model.tensor("image", (1, size, size, 3))
    for layer in network.layers:
        if layer.name == "logits":
            pooled = model.tensor("pool", (1, 1, 1, channels))
            window = {"stride_w": 1, "stride_h": 1, "window_w": size, "window_h": size}
            model.operator("AVERAGE_POOL_2D", [x], [pooled], padding=VALID, **window)
            x, size = pooled, 1
        size, channels = -(-size // layer.stride), layer.weights.shape[-1]
        x = _add_layer(model, layer, x, (1, size, size, channels))
    flat = model.tensor("flat_logits", (1, CLASSES))
    shape = model.tensor("flat_shape", (2,), np.array([1, CLASSES], np.int32))
    model.operator("RESHAPE", [x, shape], [flat])
    softmax = model.tensor("probabilities", (1, CLASSES))
    model.operator("SOFTMAX", [flat], [softmax], beta=1.0)
    return model.serialize([image], [softmax], "MobileNet v1 1.0 224, seeded weights (tflgpu demo)")


def probes(model: bytes) -> list[int]:
    """Returns the tensors that are compared: the results of stem, blocks, pool and classifier."""
    results = flatbuffer.activations(model)
    blocks = 1 + 2 * len(BLOCKS)  # the stem, then a depthwise and a pointwise layer per block
    return results[0:blocks:2] + results[blocks : blocks + 2]


def _add_layer(model: Model, layer: Layer, x: int, shape: tuple[int, ...]) -> int:
    depthwise = layer.kind == "depthwise"
    weights = layer.weights[None] if depthwise else layer.weights.transpose(3, 0, 1, 2)
    constants = [
        model.tensor(f"{layer.name}/weights", weights.shape, weights),
        model.tensor(f"{layer.name}/bias", layer.bias.shape, layer.bias),
    ]
    result = model.tensor(layer.name, shape)
    options = {"padding": SAME, "stride_w": layer.stride, "stride_h": layer.stride}
    if layer.activation:
        options["activation"] = RELU6
    if depthwise:
        options["multiplier"] = 1
    model.operator(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, *constants], [result], **options
    )
    return result


def _f32(values: npt.NDArray[Any]) -> Array:
    return np.ascontiguousarray(values, np.float32)
