"""Writes a network as an ONNX file (opset 17)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.networks import Layer, Network


def to_onnx(network: Network) -> bytes:
    """Returns a model with one input [1, 3, H, W], one output; channels first, as in ONNX."""
    builder = _Builder()
    for layer in network.layers:
        builder.add(layer)
    last = network.layers[-1]
    graph = helper.make_graph(
        builder.nodes,
        network.name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, _planar(network.shape))],
        [helper.make_tensor_value_info(last.name, TensorProto.FLOAT, _planar(last.shape))],
        builder.constants,
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    content: bytes = onnx.shape_inference.infer_shapes(model).SerializeToString()
    return content


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, values: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def add(self, layer: Layer) -> None:
        inputs, name = list(layer.inputs), layer.name
        strides, pads = [layer.stride] * 2, [layer.pad] * 4
        if layer.op == "conv":
            self._conv(layer)
        elif layer.op == "max_pool":
            kernel = [layer.window] * 2
            self.node("MaxPool", inputs, name, kernel_shape=kernel, strides=strides, pads=pads)
        elif layer.op == "mean":
            self.node("GlobalAveragePool", inputs, f"{name}/map")
            self.node("Flatten", [f"{name}/map"], name, axis=1)
        elif layer.op == "dense":
            assert layer.weights is not None
            weights = self.constant(f"{name}/weights", layer.weights.T)
            self.node("Gemm", [*inputs, weights, self.constant(f"{name}/bias", layer.bias)], name)
        elif layer.op == "resize":
            scales = self.constant(f"{name}/scales", np.array([1, 1, 2, 2], np.float32))
            mode = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
            self.node("Resize", [*inputs, "", scales], name, **mode)
        elif layer.op in ("concat", "softmax"):
            self.node({"concat": "Concat", "softmax": "Softmax"}[layer.op], inputs, name, axis=1)
        else:
            self.node({"add": "Add", "relu": "Relu"}[layer.op], inputs, name)

    def _conv(self, layer: Layer) -> None:
        assert layer.weights is not None
        name, before = layer.name, f"{layer.name}/sum" if layer.activation else layer.name
        weights = self.constant(f"{name}/weights", layer.weights.transpose(0, 3, 1, 2))
        self.node(
            "Conv",
            [*layer.inputs, weights, self.constant(f"{name}/bias", layer.bias)],
            before,
            kernel_shape=list(layer.weights.shape[1:3]),
            strides=[layer.stride] * 2,
            pads=[layer.pad] * 4,
            group=layer.groups,
        )
        if layer.activation == "relu6":
            low = self.constant(f"{name}/low", np.float32(0))
            self.node("Clip", [before, low, self.constant(f"{name}/high", np.float32(6))], name)
        elif layer.activation:
            self.node("Relu", [before], name)


def _planar(shape: tuple[int, ...]) -> list[int]:
    return [1, shape[-1], *shape[:-1]]
