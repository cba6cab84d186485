"""Tests the ops that ONNX nodes become, in order, with some of their attributes and constants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_nodes import CHANNELS, FILTERS, GRID, IMAGE, MS, STORED, F, Node, rows
from tflgpu_plugin.ir import NUMBERS
from tflgpu_plugin.providers.onnxruntime.reader import read

X3 = (2, 3, 4)
TURNED, BACK = (0, 2, 3, 1), (0, 3, 1, 2)
LARGEST = np.float32(np.finfo(np.float32).max)
IDS = ("i32", (2, 5))
CUBIC: dict[str, Any] = {"mode": b"cubic", "version": 10}
CUT: dict[str, Any] = {"coordinate_transformation_mode": b"tf_crop_and_resize"}


@pytest.mark.parametrize(
    ("node", "ops"),
    [
        (Node("Add", X3, X3), "add"),
        (Node("Sum", X3, X3, X3), "add add"),
        (Node("Sum", X3), "reshape"),
        (Node("Mean", X3, X3), "add mul"),
        (Node("Clip", (3,), F(0), F(6)), "relu6"),
        (Node("Clip", (3,), F(0)), "relu"),
        (Node("Clip", (3,), F(0), LARGEST), "relu"),
        (Node("Clip", (3,), F(-1), F(1)), "relu_n1_to_1"),
        (Node("Clip", (3,), F(-1), F(2)), "clip"),
        (Node("Clip", (3,), np.zeros(0, F), F(6)), "clip"),
        (Node("Clip", (3,), (), F(6)), "maximum minimum"),
        (Node("Clip", (3,), None, ()), "minimum"),
        (Node("Clip", (3,), ()), "maximum"),
        (Node("Clip", ("i32", (3,)), np.int32(0), kinds=["i32"]), "maximum"),
        (Node("Clip", (3,), version=6, min=0.0, max=6.0), "relu6"),
        (Node("Pow", (3,), F(1)), "reshape"),
        (Node("Pow", (3,), F(2)), "square"),
        (Node("Pow", (3,), F(3)), "cube"),
        (Node("Pow", (3,), F(0.5)), "sqrt"),
        (Node("Pow", (3,), F(-1)), "reciprocal"),
        (Node("Pow", (3,), F(-0.5)), "rsqrt"),
        (Node("Pow", (3,), rows(1) + 1), "square"),
        (Node("Pow", (3,), rows(1, 1) + 1), "pow"),
        (Node("Pow", (3,), F(1.5)), "pow"),
        (Node("Pow", (3,), rows(3)), "pow"),
        (Node("Pow", (3,), (3,)), "pow"),
        (Node("Softmax", X3, version=11, axis=2), "softmax"),
        (Node("Softmax", X3, version=11, axis=1), "reshape softmax reshape"),
        (Node("Softmax", X3, axis=1), "softmax"),
        (Node("ReduceSum", X3, np.zeros(0, int)), "reduce_sum"),
        (Node("ReduceSum", X3, noop_with_empty_axes=1), "reshape reduce_sum reshape"),
        (Node("ReduceSum", X3, np.array([1]), noop_with_empty_axes=1), "reduce_sum"),
        (Node("Cast", (3,), to=10, kinds=["f16"]), "reshape"),
        (Node("Cast", ("f16", (3,)), to=1), "reshape"),
        (Node("Cast", (3,), to=9, kinds=["bool"]), "cast"),
        (Node("Cast", ("bool", (3,)), to=1), "reshape"),
        (Node("Cast", ("i32", (3,)), to=1), "cast"),
        (Node("Cast", (3,), to=6, kinds=["i32"]), "cast"),
        (Node("Cast", ("u8", (3,)), to=2, kinds=["u8"]), "reshape"),
        (Node("Mod", (3,), (3,), fmod=1), "fmod"),
        (Node("Mod", ("i32", (3,)), ("i32", (3,)), kinds=["i32"]), "floor_mod"),
        (Node("Gelu", (3,), approximate=b"tanh"), "gelu_tanh"),
        # Products.
        (Node("Gemm", (2, 3), rows(3, 4)), "fully_connected"),
        (Node("Gemm", (2, 3), rows(3, 4), F(2)), "fully_connected"),
        (Node("Gemm", (2, 3), rows(3, 4), rows(4), alpha=0.5, beta=0.5), "fully_connected"),
        (Node("Gemm", (2, 3), rows(3, 4), rows(2, 1), beta=0.5), "fully_connected add"),
        (Node("Gemm", (2, 3), rows(3, 4), rows(2, 4)), "fully_connected add"),
        (Node("Gemm", (1, 3), rows(3, 4), rows(4, 1)[:1]), "fully_connected"),
        (Node("Gemm", (2, 3), rows(3, 4), (4,), beta=0.5), "fully_connected mul add"),
        (Node("Gemm", (2, 3), rows(3, 4), (4,), beta=0.0), "fully_connected"),
        (Node("Gemm", (3, 2), rows(3, 4), transA=1), "transpose fully_connected"),
        (Node("Gemm", (2, 3), (3, 4), (4,)), "matmul add"),
        (Node("Gemm", (2, 3), (3, 4), (4,), alpha=0.5, beta=0.5), "matmul mul mul add"),
        (Node("MatMul", (3,), (3, 4)), "reshape matmul reshape"),
        (Node("MatMul", (2, 3), (3,)), "reshape matmul reshape"),
        (Node("MatMul", (3,), (3,)), "reshape reshape matmul reshape"),
        (Node(f"{MS}:FusedMatMul", (2, 3), (3, 4), alpha=0.5), "matmul mul"),
        (Node(f"{MS}:FusedMatMul", (3,), (4, 3), transB=1, transA=1),
         "transpose reshape matmul reshape"),
        (Node(f"{MS}:FusedMatMul", (3, 2), (3, 4), transA=1, transBatchA=1), "matmul"),
        (Node(f"{MS}:FusedMatMul", (4, 2, 3), (2, 3, 4), transBatchA=1), "transpose matmul"),
        # Layers.
        (Node("Conv", IMAGE, FILTERS), "transpose conv_2d transpose"),
        (Node("Conv", (2, 4, 9), rows(4, 4, 3)),
         "transpose reshape conv_2d reshape transpose"),
        (Node("Conv", (2, 4, 9), (4, 4, 3)),
         "transpose transpose reshape reshape conv_2d reshape transpose"),
        (Node("Conv", IMAGE, rows(8, 1, 3, 3), group=4), "transpose depthwise_conv_2d transpose"),
        (Node("Conv", (2, 1, 9, 8), rows(8, 1, 3, 3)), "transpose conv_2d transpose"),
        (Node("Conv", IMAGE, rows(4, 2, 3, 3), group=2), "transpose conv_2d transpose"),
        (Node("ConvTranspose", IMAGE, rows(4, 2, 3, 3), group=2),
         "transpose transpose_conv transpose"),
        (Node("ConvTranspose", IMAGE, (4, 2, 3, 3), group=2),
         "reshape transpose reshape transpose transpose_conv transpose"),
        (Node("BatchNormalization", IMAGE, *CHANNELS), "mul add"),
        (Node("BatchNormalization", IMAGE, *CHANNELS[:3], (4,)),
         "reshape reshape reshape reshape add rsqrt mul sub mul add"),
        (Node("LayerNormalization", X3, (4,), (4,)), "layer_normalization"),
        (Node("LayerNormalization", X3, (4,), outputs=("y", None, "i")),
         "mean sub reduce_mean_square add rsqrt mul mul"),
        (Node("LayerNormalization", X3, (4,), (4,), outputs=("y", "m")),
         "mean sub reduce_mean_square add rsqrt mul mul add"),
        (Node("GroupNormalization", IMAGE, (4,), (4,), num_groups=2),
         "reshape layer_normalization reshape reshape mul reshape add"),
        (Node("GroupNormalization", IMAGE, (2,), (2,), num_groups=2, version=18),
         "reshape layer_normalization reshape mul reshape add reshape"),
        (Node(f"{MS}:FusedConv", IMAGE, FILTERS, None, (2, 4, 7, 6), activation=b"Relu"),
         "transpose conv_2d transpose add relu"),
        (Node(f"{MS}:FastGelu", (3,), (3,)), "add gelu_tanh"),
        (Node(f"{MS}:FastGelu", (3,)), "gelu_tanh"),
        (Node(f"{MS}:Gelu", (3,)), "gelu"),
        (Node(f"{MS}:SkipLayerNormalization", X3, X3, (4,), (4,), (4,), outputs=("y",)),
         "add add layer_normalization"),
        (Node(f"{MS}:SkipSimplifiedLayerNormalization", X3, X3, (4,), (4,)),
         "add add reduce_mean_square add rsqrt mul mul"),
        # Elements that move.
        (Node("Pad", X3, np.array([0, 1, 0, 0, 0, 0])), "pad"),
        (Node("Pad", X3, np.array([0, 1, 0, 0, -1, 0])), "strided_slice pad"),
        (Node("Identity", X3), "reshape"),
        (Node("Split", (4, 3), outputs=("a", "b")), "strided_slice strided_slice"),
        (Node("DepthToSpace", (1, 4, 2, 3), blocksize=2), "transpose depth_to_space transpose"),
        (Node("Resize", IMAGE, None, np.array([1, 1, 2, 2], F)), "transpose resize transpose"),
        (Node("Resize", IMAGE, None, np.array([1, 2, 2, 1], F)), "resize"),
        (Node("Resize", (4, 6), None, np.array([2, 2], F)), "reshape resize reshape"),
        (Node("Resize", IMAGE, None, np.array([1, 1, 1, 1], F)), "reshape"),
        (Node("Resize", STORED, None, np.array([1, 2], F), kinds=["u8"]),
         "dequantize reshape resize reshape quantize"),
        # Stored numbers.
        (Node("QuantizeLinear", (2, 4), *GRID, kinds=["u8"]), "quantize"),
        (Node("QuantizeLinear", (2, 4), rows(4), kinds=["u8"]), "div round quantize"),
        (Node("QuantizeLinear", (2, 4), rows(2), axis=0, kinds=["u8"]),
         "reshape div round quantize"),
        (Node("DequantizeLinear", STORED, *GRID), "dequantize"),
        (Node("DequantizeLinear", STORED, ()), "dequantize mul"),
        (Node(f"{MS}:QLinearSigmoid", STORED, *GRID, *GRID, kinds=["u8"]),
         "dequantize logistic quantize"),
        (Node(f"{MS}:EmbedLayerNormalization", IDS, None, (9, 4), (7, 4), None, (4,), (4,)),
         "gather strided_slice add layer_normalization"),
        (Node(f"{MS}:EmbedLayerNormalization", IDS, IDS, (9, 4), (7, 4), (2, 4), (4,), (4,)),
         "gather strided_slice add gather add layer_normalization"),
    ],
)  # fmt: skip
def test_nodes_become_these_ops(node: Node, ops: str) -> None:
    reading = node.read()
    assert not reading.refusals
    assert " ".join(made.op for made in reading.graph.nodes) == ops


@pytest.mark.parametrize(
    ("node", "op", "attributes"),
    [
        (Node("Resize", IMAGE, None, np.array([1, 1, 0.5, 0.5], F), version=11), "resize",
         {"coordinates": "half_pixel", "nearest": "round_prefer_floor", "scales": (0.5, 0.5)}),
        (Node("Resize", IMAGE, np.array([1, 1, 0.5, 1], F), version=10), "resize",
         {"coordinates": "asymmetric", "nearest": "ceil", "mode": "nearest", "scales": (0.5, 1)}),
        (Node("Resize", IMAGE, np.array([1, 1, 2, 1], F), version=10), "resize",
         {"nearest": "floor", "cubic_a": -0.75, "exclude_outside": False, "extrapolation": 0.0}),
        (Node("Resize", IMAGE, np.array([1, 1, 2, 2], F), **CUBIC), "resize", {"mode": "cubic"}),
        (Node("Resize", IMAGE, np.array([1, 1, 2, 2], F), version=10, mode=b"bilinear"), "resize",
         {"mode": "linear"}),
        (Node("Resize", IMAGE, np.array([0, 0, 0.25, 0, 1, 1, 0.75, 1], F),
              np.array([1, 1, 2, 2], F), **CUT), "resize", {"roi": (0.25, 0.75, 0.0, 1.0)}),
        (Node("Resize", IMAGE, None, None, np.array([12, 12]), axes=(2, 3),
              keep_aspect_ratio_policy=b"not_smaller"), "resize", {"scales": (1.5, 1.5)}),
        (Node("Conv", IMAGE, FILTERS, strides=(2, 1), dilations=(1, 2), pads=(1, 2, 3, 4)),
         "conv_2d", {"strides": (2, 1), "dilations": (1, 2), "padding": (1, 3, 2, 4)}),
        (Node("Conv", (1, 4, 9), rows(4, 4, 3), strides=(2,), dilations=(3,), pads=(1, 2)),
         "conv_2d", {"strides": (1, 2), "dilations": (1, 3), "padding": (0, 0, 1, 2)}),
        *[(Node("Conv", (1, 4, 9), rows(4, 4, 4), auto_pad=auto), "conv_2d", {"padding": padding})
          for auto, padding in ((b"SAME_UPPER", (0, 0, 1, 2)), (b"SAME_LOWER", (0, 0, 2, 1)),
                                (b"VALID", (0, 0, 0, 0)))],
        (Node("Conv", (1, 4, 10), rows(4, 4, 4), auto_pad=b"SAME_UPPER", strides=(3,)), "conv_2d",
         {"padding": (0, 0, 1, 2)}),
        *[(Node("ConvTranspose", (1, 4, 5), rows(4, 2, 4), strides=(3,), output_shape=(13,),
                **more), "transpose_conv", {"padding": padding})
          for more, padding in (({}, (0, 0, 2, 1)), ({"auto_pad": b"SAME_UPPER"}, (0, 0, 1, 2)),
                                ({"auto_pad": b"SAME_LOWER"}, (0, 0, 2, 1)))],
        (Node("ConvTranspose", (1, 4, 5), rows(4, 2, 4), strides=(3,), output_shape=(17,)),
         "transpose_conv", {"padding": (0, 0, 0, 0)}),
        (Node("MaxPool", (1, 2, 8), kernel_shape=(3,), strides=(2,), pads=(1, 0), ceil_mode=1),
         "max_pool_2d", {"window": (3,), "strides": (2,), "padding": (1, 0), "ceil_mode": True}),
        (Node("Softmax", X3, version=11, axis=1), "softmax", {"axis": 1, "beta": 1.0}),
        (Node("Flatten", X3, axis=-1), "reshape", {"shape": (6, 4)}),
        (Node("Flatten", X3, axis=0), "reshape", {"shape": (1, 24)}),
        (Node("Flatten", X3, axis=3), "reshape", {"shape": (24, 1)}),
        (Node("GatherND", X3, ("i64", (2, 1)), batch_dims=1), "gather_nd",
         {"batch": 1, "wraps": True}),
        (Node(f"{MS}:EmbedLayerNormalization", IDS, None, (9, 4), (7, 4), None, (4,), (4,)),
         "gather", {"axis": 0, "wraps": False}),
        (Node(f"{MS}:EmbedLayerNormalization", IDS, None, (9, 4), (7, 4), None, (4,), (4,), None,
              IDS), "gather", {"axis": 0, "wraps": False}),
        (Node(f"{MS}:EmbedLayerNormalization", IDS, IDS, (9, 4), (7, 4), (2, 4), (4,), (4,)),
         "gather", {"axis": 0, "wraps": False}),
        (Node("Clip", (3,), F(7), F(3)), "clip", {"low": 3.0, "high": 3.0}),
        (Node("Clip", (3,), -LARGEST, F(3)), "clip", {"low": -np.inf, "high": 3.0}),
        (Node("Max", (3,), (3,)), "maximum", {"nan": True}),
        (Node("TopK", (2, 3), np.array([2]), outputs=("y", "z"), kinds=["f32", "i64"], axis=0,
              largest=0), "top_k", {"axis": 0, "largest": 0}),
        (Node("ConvInteger", ("u8", IMAGE), ("u8", (4, 4, 3, 3)), kinds=["i32"]), "quantize",
         {"whole": True}),
        (Node("MatMulInteger", ("u8", (2, 5)), ("u8", (5, 3)), kinds=["i32"]), "quantize",
         {"whole": True}),
    ],
)  # fmt: skip
def test_an_op_has_these_attributes(node: Node, op: str, attributes: dict[str, Any]) -> None:
    """All ops with this name are checked."""
    made = [one for one in node.read().graph.nodes if one.op == op]
    assert made
    for one in made:
        assert {name: one.attributes.get(name, False) for name in attributes} == attributes


@pytest.mark.parametrize(
    "node",
    [
        Node("Transpose", ("u8", (2, 3)), kinds=["u8"]),
        Node("Identity", ("i8", (2, 3)), kinds=["i8"]),
        Node("Split", ("u8", (2, 3)), outputs=("a", "b"), kinds=["u8", "u8"]),
        Node("Concat", ("u8", (2, 3)), ("u8", (2, 3)), axis=1, kinds=["u8"]),
    ],
    ids=lambda node: node.snapshot.nodes[0].op,
)
def test_stored_numbers_that_move_stand_for_themselves(node: Node) -> None:
    tensors = node.read().graph.tensors.values()
    held = {tensor.quantization for tensor in tensors if tensor.dtype in ("u8", "i8")}
    assert held == {NUMBERS}


def test_scales_along_an_axis_go_where_the_axis_goes() -> None:
    """Weights [4, 4, 3] of a convolution of rows become [outputs, 1, width, inputs]."""
    for axis, there in ((0, 0), (1, 3), (2, 2)):
        size = (4, 4, 3)[axis]
        weights = Node("DequantizeLinear", np.ones((4, 4, 3), np.int8), rows(size), axis=axis)
        conv = Node("Conv", (1, 4, 9), rows(4, 4, 3))
        (first,), (last,) = weights.snapshot.nodes, conv.snapshot.nodes
        values = {f"w{name}": value for name, value in weights.snapshot.values.items()}
        chain = (
            replace(first, inputs=("wx0", "wx1"), outputs=("wy",)),
            replace(last, id=1, inputs=("x0", "wy")),
        )
        given = replace(conv.snapshot, nodes=chain, values={**conv.snapshot.values, **values})
        reading = read(given, {})
        (made,) = (one for one in reading.graph.nodes if one.op == "conv_2d")
        held = reading.graph.tensors[made.inputs[1] or 0]
        assert held.shape == (4, 1, 3, 4)
        assert held.quantization is not None and held.quantization.axis == there
