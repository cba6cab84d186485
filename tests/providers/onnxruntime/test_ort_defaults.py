"""Tests defaults of attributes that an ONNX node omits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_nodes import CHANNELS, FILTERS, GRID, IMAGE, MS, STORED, F, Node, rows

WINDOW: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0),
                          "auto_pad": b"NOTSET"}  # fmt: skip
RECURRENT = ((5, 2, 3), rows(1, 8, 3), rows(1, 8, 2))  # of four gates
CELL: dict[str, Any] = {"direction": b"forward", "layout": 0}
RESIZED: dict[str, Any] = {
    "mode": b"nearest", "coordinate_transformation_mode": b"half_pixel",
    "nearest_mode": b"round_prefer_floor", "cubic_coeff_a": -0.75, "exclude_outside": 0,
    "extrapolation_value": 0.0, "keep_aspect_ratio_policy": b"stretch", "antialias": 0,
}  # fmt: skip
HALF = np.array([1, 1, 0.5, 0.5], F)
DEFAULTS = [
    Node("Celu", (3,), alpha=1.0),
    Node("Elu", (3,), alpha=1.0),
    Node("HardSigmoid", (3,), alpha=0.2, beta=0.5),
    Node("LeakyRelu", (3,), alpha=0.01),
    Node("Selu", (3,), alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    Node("Shrink", (3,), lambd=0.5, bias=0.0),
    Node("Swish", (3,), alpha=1.0),
    Node("ThresholdedRelu", (3,), alpha=1.0),
    Node("Gelu", (3,), approximate=b"none"),
    Node("IsInf", (3,), detect_negative=1, detect_positive=1, kinds=["bool"]),
    Node("Mod", ("i32", (3,)), ("i32", (3,)), fmod=0, kinds=["i32"]),
    Node("Affine", (3,), alpha=1.0, beta=0.0),
    Node("ImageScaler", IMAGE, scale=1.0, bias=(0.0,)),
    Node("Clip", (3,), version=6, min=-np.inf, max=np.inf),
    Node("Softmax", (2, 3, 4), axis=-1),
    Node("Softmax", (2, 3, 4), version=11, axis=1),
    Node("LogSoftmax", (2, 3, 4), version=1, axis=1),
    Node("LogSoftmax", (2, 3, 4), axis=-1),
    *(Node("Hardmax", (2, 3, 4), version=version, axis=axis)
      for version, axis in ((1, 1), (11, 1), (12, 1), (13, -1))),
    Node("ReduceSum", (2, 3), keepdims=1, noop_with_empty_axes=0),
    Node("ArgMax", (2, 3), axis=0, keepdims=1, select_last_index=0, kinds=["i64"]),
    Node("CumSum", (2, 3), np.array(1), exclusive=0, reverse=0),
    Node("TopK", (2, 3), np.array([2]), axis=-1, largest=1, outputs=("y", "z"),
         kinds=["f32", "i64"]),
    Node("Gemm", (2, 3), rows(3, 4), rows(4), alpha=1.0, beta=1.0, transA=0, transB=0),
    Node("Gemm", (2, 3), (3, 4), (4,), alpha=1.0, beta=1.0, transA=0, transB=0),
    Node("BatchNormalization", IMAGE, *CHANNELS, epsilon=1e-5, training_mode=0),
    Node("BatchNormalization", IMAGE, (4,), (4,), (4,), (4,), epsilon=1e-5),
    Node("InstanceNormalization", IMAGE, (4,), (4,), epsilon=1e-5),
    Node("LayerNormalization", (2, 3, 4), (4,), axis=-1, epsilon=1e-5),
    Node("GroupNormalization", IMAGE, (4,), (4,), epsilon=1e-5, num_groups=1),
    Node("RMSNormalization", (2, 3, 4), (4,), axis=-1, epsilon=1e-5),
    Node("MeanVarianceNormalization", IMAGE, axes=(0, 2, 3)),
    Node("Conv", IMAGE, FILTERS, group=1, **WINDOW),
    Node("ConvTranspose", IMAGE, FILTERS, group=1, output_padding=(0, 0), **WINDOW),
    Node("LRN", IMAGE, size=1, alpha=1e-4, beta=0.75, bias=1.0),
    Node("Reshape", (2, 3), np.array([3, 2]), allowzero=0),
    Node("Flatten", (2, 3, 4), axis=1),
    Node("Split", (4, 3), outputs=("a", "b"), axis=0),
    Node("Concat", (4, 3), (4, 3), axis=0),
    Node("Pad", (2, 3), np.array([1, 0, 0, 2]), mode=b"constant"),
    Node("Pad", (2, 3), version=2, asks="pads", mode=b"constant", pads=(1, 0, 0, 2), value=0.0),
    Node("Gather", (2, 3), ("i64", (2,)), axis=0),
    Node("GatherND", (2, 3), ("i64", (2, 1)), batch_dims=0),
    Node("ReverseSequence", (2, 3), ("i64", (3,)), batch_axis=1, time_axis=0),
    Node("DepthToSpace", (1, 4, 2, 3), blocksize=1, mode=b"DCR"),
    Node("SpaceToDepth", (1, 4, 2, 3), blocksize=1),
    Node("Crop", IMAGE, border=(0, 0, 0, 0)),
    Node("Transpose", (2, 3, 4), perm=(2, 1, 0)),
    Node("Resize", IMAGE, None, HALF, **RESIZED),
    Node("Resize", IMAGE, None, None, np.array([2, 4, 5, 5]), **RESIZED, axes=(0, 1, 2, 3)),
    Node("Upsample", IMAGE, HALF, version=9, mode=b"nearest"),
    Node("LSTM", *RECURRENT, outputs=("y", "h", "c"), **CELL, input_forget=0,
         activations=(b"Sigmoid", b"Tanh", b"Tanh")),
    Node("GRU", (5, 2, 3), rows(1, 6, 3), rows(1, 6, 2), rows(1, 12), outputs=("y", "h"), **CELL,
         linear_before_reset=0, activations=(b"Sigmoid", b"Tanh")),
    Node("RNN", (5, 2, 3), rows(1, 2, 3), rows(1, 2, 2), outputs=("y", "h"), **CELL,
         activations=(b"Tanh",)),
    Node("QuantizeLinear", (2, 4), *GRID, axis=1, block_size=0, output_dtype=0, kinds=["u8"]),
    Node("QuantizeLinear", (2, 4), np.float32(0.5), axis=1, output_dtype=2, kinds=["u8"]),
    Node("QuantizeLinear", (2, 4), rows(4), axis=1, kinds=["u8"]),
    Node("QuantizeLinear", (2, 4), rows(2, 2), axis=1, block_size=2, asks="block_size",
         kinds=["u8"]),
    Node("DequantizeLinear", STORED, *GRID, axis=1, block_size=0),
    Node("DequantizeLinear", STORED, rows(4), axis=1),
    Node("DequantizeLinear", STORED, rows(2, 2), axis=1, block_size=2, asks="block_size"),
    Node("DequantizeLinear", STORED, (4,), ("u8", (4,)), axis=1),
    *[Node(f"{name}Pool", IMAGE, asks="kernel_shape", kernel_shape=(2, 3), ceil_mode=0,
          **WINDOW, **more)
      for name, more in (("Max", {}), ("Average", {"count_include_pad": 0}), ("Lp", {"p": 2}))],
    Node(f"{MS}:FusedConv", IMAGE, FILTERS, group=1, activation=b"", **WINDOW),
    *[Node(f"{MS}:FusedConv", IMAGE, FILTERS, asks="activation", activation=name.encode(),
          activation_params=numbers)
      for name, numbers in (
          ("Elu", (1.0,)), ("LeakyRelu", (0.01,)), ("ThresholdedRelu", (1.0,)),
          ("HardSigmoid", (0.2, 0.5)))
      ],
    Node(f"{MS}:FusedGemm", (2, 3), rows(3, 4), rows(4), alpha=1.0, beta=1.0, transA=0, transB=0,
         activation=b""),
    Node(f"{MS}:FusedMatMul", (2, 3), (3, 4), alpha=1.0, transA=0, transB=0, transBatchA=0,
         transBatchB=0),
    Node(f"{MS}:QuickGelu", (3,), alpha=1.702),
    Node(f"{MS}:SkipLayerNormalization", (2, 3, 4), (2, 3, 4), (4,), epsilon=1e-12),
    Node(f"{MS}:SkipSimplifiedLayerNormalization", (2, 3, 4), (2, 3, 4), (4,), epsilon=1e-12),
    Node(f"{MS}:Attention", (2, 5, 4), rows(4, 6), rows(6), ("i32", (2, 5)), num_heads=1, scale=0.0,
         mask_filter_value=-10000.0, unidirectional=0, do_rotary=0),
    Node(f"{MS}:EmbedLayerNormalization", ("i32", (2, 5)), None, (9, 4), (7, 4), None, (4,), (4,),
         epsilon=1e-12),
    Node(f"{MS}:MatMulNBits", (2, 16), np.ones((3, 1, 8), np.uint8), rows(3), asks="K N block_size",
         K=16, N=3, block_size=16, bits=4, weight_prepacked=0),
    Node(f"{MS}:QGemm", STORED, *GRID, np.ones((4, 3), np.uint8), *GRID, alpha=1.0, transA=0,
         transB=0),
    Node(f"{MS}:QLinearLeakyRelu", STORED, *GRID, *GRID, alpha=0.01, kinds=["u8"]),
    Node(f"{MS}:QLinearSoftmax", ("u8", (2, 3, 4)), *GRID, *GRID, opset=13, axis=-1, kinds=["u8"]),
    Node(f"{MS}:QLinearConcat", *GRID, STORED, *GRID, STORED, *GRID, axis=0, kinds=["u8"]),
    Node(f"{MS}:QLinearAveragePool", ("u8", IMAGE), *GRID, *GRID, asks="kernel_shape",
         kernel_shape=(2, 3), ceil_mode=0, count_include_pad=0, channels_last=0, **WINDOW,
         kinds=["u8"]),
]  # fmt: skip


def written(node: Node) -> str:
    """Returns what a node becomes: ops, attributes, constants and their quantization."""
    reading = node.read()
    assert not reading.refusals, reading.refusals
    text = []
    for made in reading.graph.nodes:
        text.append(f"{made.op} {dict(made.attributes)} {made.inputs} {made.outputs}")
    for number, tensor in reading.graph.tensors.items():
        data = None if tensor.data is None else tensor.data.tolist()
        text.append(f"{number} {tensor.dtype} {tensor.shape} {tensor.quantization} {data}")
    return "\n".join(text)


@pytest.mark.parametrize("node", DEFAULTS, ids=lambda node: node.snapshot.nodes[0].op)
def test_an_attribute_that_is_left_out_has_its_default(node: Node) -> None:
    whole = written(node)
    for name in node.attributes.keys() - node.asked:
        rest = {n: v for n, v in node.attributes.items() if n != name}
        assert written(node.but(**rest)) == whole, name
