"""Three networks with seeded weights, described once for all engines: MobileNet v1, ResNet-18, a
U-Net.

They have 569, 1814 and 2679 million multiply-adds. Batch norms are folded into the biases, so that
every engine computes the same thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layer:
    """One step: `op` is conv, max_pool, mean (over the map), dense, add, relu, resize (twice the
    size, bilinear, half-pixel centres), concat or softmax.

    `shape` is that of the result, [H, W, C] or [C]. Weights are [O, KH, KW, I / groups] for a conv
    and [O, I] for dense; a conv pads `pad` on every side. `activation` is relu, relu6 or empty."""

    name: str
    op: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    weights: Array | None = field(default=None, repr=False)
    bias: Array | None = field(default=None, repr=False)
    stride: int = 1
    pad: int = 0
    window: int = 0
    groups: int = 1
    activation: str = ""


@dataclass
class Network:
    """Layers in order; the first reads "input" ([H, W, 3], channels last), the last is the result.

    `random` gives the weights while the network is described."""

    name: str
    shape: tuple[int, int, int]
    layers: list[Layer] = field(default_factory=list)
    random: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(42))

    def shape_of(self, name: str) -> tuple[int, ...]:
        return self.shape if name == "input" else self._by_name()[name].shape

    def add(self, op: str, *inputs: str, shape: tuple[int, ...], **more: Any) -> str:
        """Appends a layer and returns the name of its result."""
        name = f"{op}{len(self.layers)}"
        self.layers.append(Layer(name, op, inputs, shape, **more))
        return name

    def conv(self, x: str, outputs: int, size: int, stride: int = 1, **more: Any) -> str:
        """Appends a square convolution padded so that stride 1 keeps the size; He-initialized."""
        height, width, inputs = self.shape_of(x)
        groups, pad = int(more.get("groups", 1)), (size - 1) // 2
        fan_in = inputs // groups * size * size
        weights = self.random.randn(outputs, inputs // groups, size, size) * np.sqrt(2.0 / fan_in)
        bias = self.random.randn(outputs) * 0.05
        return self.add(
            "conv", x, stride=stride, pad=pad, **{"activation": "relu", **more},
            shape=(_moved(height, size, stride), _moved(width, size, stride), outputs),
            weights=_f32(weights.transpose(0, 2, 3, 1)), bias=_f32(bias),
        )  # fmt: skip

    def head(self, x: str, classes: int) -> None:
        """Appends the mean over the map, a dense layer, softmax."""
        inputs = self.shape_of(x)[-1]
        x = self.add("mean", x, shape=(inputs,))
        weights, bias = self.random.randn(inputs, classes) * 0.03, self.random.randn(classes) * 0.01
        x = self.add("dense", x, shape=(classes,), weights=_f32(weights.T), bias=_f32(bias))
        self.add("softmax", x, shape=(classes,))

    def picture(self, seed: int = 0) -> Array:
        """Returns a seeded input [1, H, W, 3]."""
        random = np.random.RandomState(seed)
        return random.uniform(-1, 1, (1, *self.shape)).astype(np.float32)

    def _by_name(self) -> Mapping[str, Layer]:
        return {layer.name: layer for layer in self.layers}


def mobilenet_v1() -> Network:
    """Returns MobileNet v1 1.0 224 (https://arxiv.org/abs/1704.04861, table 1)."""
    net = Network("mobilenet_v1_224", (224, 224, 3))
    x, channels = net.conv("input", 32, 3, 2, activation="relu6"), 32
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5]
    for outputs, stride in [*blocks, (1024, 2), (1024, 1)]:
        x = net.conv(x, channels, 3, stride, groups=channels, activation="relu6")
        x, channels = net.conv(x, outputs, 1, activation="relu6"), outputs
    net.head(x, 1001)
    return net


def resnet18() -> Network:
    """Returns ResNet-18 (https://arxiv.org/abs/1512.03385, table 1)."""
    net = Network("resnet18_224", (224, 224, 3))
    x = net.conv("input", 64, 7, 2)
    x = net.add("max_pool", x, shape=(56, 56, 64), window=3, stride=2, pad=1)
    channels = 64
    for outputs, stride in [(64, 1)] * 2 + [(c, s) for c in (128, 256, 512) for s in (2, 1)]:
        y = net.conv(net.conv(x, outputs, 3, stride), outputs, 3, activation="")
        plain = stride == 1 and channels == outputs
        skip = x if plain else net.conv(x, outputs, 1, stride, activation="")
        y = net.add("add", y, skip, shape=net.shape_of(y))
        x, channels = net.add("relu", y, shape=net.shape_of(y)), outputs
    net.head(x, 1000)
    return net


def unet() -> Network:
    """Returns a U-Net (https://arxiv.org/abs/1505.04597) of 4 levels, 16 to 128 channels, with
    bilinear upsampling."""
    net, x = Network("unet_256", (256, 256, 3)), "input"
    skips: list[str] = []
    for level, outputs in enumerate([16, 32, 64, 128]):
        x = net.conv(net.conv(x, outputs, 3, 1 if level == 0 else 2), outputs, 3)
        skips.append(x)
    for skip in skips[-2::-1]:
        height, width, outputs = net.shape_of(skip)
        channels = net.shape_of(x)[-1]
        x = net.add("resize", x, shape=(height, width, channels))
        x = net.add("concat", x, skip, shape=(height, width, channels + outputs))
        x = net.conv(net.conv(x, outputs, 3), outputs, 3)
    x = net.conv(x, 8, 1, activation="")
    net.add("softmax", x, shape=net.shape_of(x))
    return net


NETWORKS: dict[str, Callable[[], Network]] = {
    "mobilenet_v1_224": mobilenet_v1,
    "resnet18_224": resnet18,
    "unet_256": unet,
}


def _moved(extent: int, size: int, stride: int) -> int:
    return (extent + 2 * ((size - 1) // 2) - size) // stride + 1


def _f32(values: npt.NDArray[Any]) -> Array:
    return np.ascontiguousarray(values, np.float32)
