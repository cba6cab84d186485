"""Writes a network as the compiler's own graph: for figures of kernels, without any host."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks import Layer, Network
from tflgpu_plugin.ir import Graph, Node, Tensor


def to_graph(network: Network) -> Graph:
    """Returns a graph with one input [1, H, W, 3], one output; channels last."""
    builder = _Builder(network)
    for layer in network.layers:
        builder.add(layer)
    last = builder.ids[network.layers[-1].name]
    return Graph(builder.tensors, tuple(builder.nodes), (builder.ids["input"],), (last,))


class _Builder:
    def __init__(self, network: Network) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.nodes: list[Node] = []
        self.ids = {"input": self.tensor("input", (1, *network.shape))}

    def tensor(self, name: str, shape: tuple[int, ...], data: Any = None) -> int:
        number = len(self.tensors)
        dtype = "i32" if data is not None and data.dtype.kind == "i" else "f32"
        self.tensors[number] = Tensor(name, shape, dtype, data)
        return number

    def constant(self, name: str, data: Any) -> int:
        return self.tensor(name, data.shape, data)

    def add(self, layer: Layer) -> None:
        op, more, attributes = self._form(layer)
        self.ids[layer.name] = self.tensor(layer.name, (1, *layer.shape))
        inputs = (*(self.ids[name] for name in layer.inputs), *more)
        outputs = (self.ids[layer.name],)
        number = len(self.nodes)
        self.nodes.append(Node(number, op, inputs, outputs, attributes, layer.name, layer.op))

    def _form(self, layer: Layer) -> tuple[str, tuple[int, ...], dict[str, Any]]:
        """Returns (op, further inputs, attributes)."""
        window: dict[str, Any] = {"strides": (layer.stride,) * 2, "padding": (layer.pad,) * 4}
        window["activation"] = layer.activation or "none"
        if layer.op == "conv":
            assert layer.weights is not None
            depthwise = layer.groups > 1
            weights = layer.weights.transpose(3, 1, 2, 0) if depthwise else layer.weights
            parts = (
                self.constant(f"{layer.name}/weights", np.ascontiguousarray(weights)),
                self.constant(f"{layer.name}/bias", layer.bias),
            )
            window |= {"dilations": (1, 1)} | ({"multiplier": 1} if depthwise else {})
            return ("depthwise_conv_2d" if depthwise else "conv_2d"), parts, window
        if layer.op == "max_pool":
            return "max_pool_2d", (), {**window, "window": (layer.window,) * 2}
        if layer.op == "mean":
            axes = self.constant(f"{layer.name}/axes", np.array([1, 2], np.int32))
            return "mean", (axes,), {"keep_dims": False}
        if layer.op == "dense":
            parts = (
                self.constant(f"{layer.name}/weights", layer.weights),
                self.constant(f"{layer.name}/bias", layer.bias),
            )
            return "fully_connected", parts, {"keep_num_dims": False, "activation": "none"}
        if layer.op == "resize":
            size = self.constant(f"{layer.name}/size", np.array(layer.shape[:2], np.int32))
            return "resize_bilinear", (size,), {"align_corners": False, "half_pixel_centers": True}
        more: dict[str, dict[str, Any]] = {
            "add": {"activation": "none"},
            "concat": {"axis": 3, "activation": "none"},
            "softmax": {"beta": 1.0},
        }
        return layer.op, (), more.get(layer.op, {})
