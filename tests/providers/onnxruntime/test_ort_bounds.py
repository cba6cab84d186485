"""Tests conditions of ONNX rows, at each limit and one beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_nodes import (
    CHANNELS,
    FILTERS,
    GRID,
    IMAGE,
    MS,
    STORED,
    F,
    Input,
    Node,
    rows,
)
from tflgpu_plugin.ir import type_name
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS


def conv(shape: Sequence[int], weights: Sequence[int], *, op: str = "Conv", **given: Any) -> Node:
    return Node(op, shape, rows(*weights), **given)


def pool(*shape: int, op: str = "MaxPool", **given: Any) -> Node:
    return Node(op, shape, **{"kernel_shape": (2,) * (len(shape) - 2), **given})


def attention(*more: Input, x: Any = (2, 5, 6), w: Any = (6, 24), **given: Any) -> Node:
    return Node(f"{MS}:Attention", x, rows(*w), *more, **{"num_heads": 4, **given})


def layer(op: str, gates: int, *more: Input, x: Any = (5, 2, 3), w: Any = None, r: Any = None,
          **given: Any) -> Node:  # fmt: skip
    w, r = w or (1, gates * 2, 3), r or (1, gates * 2, 2)
    return Node(op, x, rows(*w), rows(*r), *more, **given)


def resized(scales: Sequence[float] = (), sizes: Any = None, roi: Any = None,
            shape: Any = (1, 3, 4, 6), version: int = 19, **given: Any) -> Node:  # fmt: skip
    if version < 11:
        return Node("Resize", shape, np.array(scales, F), version=version, **given)
    told = None if sizes is None else np.array(sizes)
    region = None if roi is None else np.array(roi, F)
    return Node("Resize", shape, region, np.array(scales, F), told, version=version, **given)


CUT = {"coordinate_transformation_mode": b"tf_crop_and_resize"}
SAME, LOWER = b"SAME_UPPER", b"SAME_LOWER"
SCALES, ZEROS = np.ones((2, 2), F), np.ones((2, 2), np.uint8)


def q_attention(mask: Any = None, past: Any = None, x: Any = (2, 5, 6), w: Any = (6, 24),
                **given: Any) -> Node:  # fmt: skip
    """Returns a QAttention node of four heads with two values each."""
    return Node(f"{MS}:QAttention", ("u8", x), np.ones(w, np.int8), rows(w[1]), F(1), F(1), mask,
                np.uint8(1), np.int8(1), past, **{"num_heads": 4, **given})  # fmt: skip


def dynamic_lstm(scales: Any = (1,), w: Any = (1, 3, 8), **given: Any) -> Node:
    """Returns a DynamicQuantizeLSTM node of two units."""
    zeros = np.zeros(scales, np.int8)
    return Node(f"{MS}:DynamicQuantizeLSTM", (5, 2, 3), np.ones(w, np.int8),
                np.ones((1, 2, 8), np.int8), None, None, None, None, None,
                np.ones(scales, F), zeros, np.ones(scales, F), zeros, **given)  # fmt: skip


def multi_head(*more: Any, **given: Any) -> Node:
    """Returns a MultiHeadAttention node of four heads with two values each."""
    return Node(f"{MS}:MultiHeadAttention", (2, 5, 8), *(more or ((2, 5, 8),) * 2),
                **{"num_heads": 4, **given})  # fmt: skip


SCORED = ("y", None, None, "scores")


def dot_product(*shapes: Any, **given: Any) -> Node:
    """Returns an Attention node of four heads with two values each."""
    return Node("Attention", *(shapes or ((2, 4, 5, 2),) * 3), **given)


def grouped(*more: Any, total: int = 8, batch: int = 1, length: int = 5, told: Any = None,
            **given: Any) -> Node:  # fmt: skip
    """Returns a GroupQueryAttention node for five positions after three: four heads with two values
    each, and two heads of keys."""
    wide, past = [(batch, length, n) for n in (8, 4, 4)], (batch, 2, 3, 2)
    inputs = (*wide, past, past, ("i32", told or (batch,)))
    heads = {"num_heads": 4, "kv_num_heads": 2}
    return Node(f"{MS}:GroupQueryAttention", *inputs, np.array(total, np.int32), *more,
                **{**heads, **given})  # fmt: skip


def turned(x: Any, places: Any = ("i32", (2, 5)), op: str = f"{MS}:RotaryEmbedding",
           **given: Any) -> Node:  # fmt: skip
    """Returns a RotaryEmbedding node with two pairs per head and nine positions."""
    table = ((9, 2),) * 2
    return Node(op, x, *((places, *table) if MS in op else (*table, places)), **given)


HEADS, FIT, ROWS = "shape.mismatch", "shape.mismatch", "rank.unsupported"
LSTM_BIAS, PEEPHOLES = rows(1, 16), rows(1, 6)
BOUNDS: list[tuple[Node, str]] = [
    # Conditions of every node.
    (Node("Relu", (3,), bodies=["b"]), "operator.host_only"),
    (pool(1, 2, 4, 4, outputs=("y", "i", "more")), "output.unsupported"),
    (pool(1, 2, 4, 4, outputs=("y", "i"), ceil_mode=1), "attribute.unsupported"),
    (pool(1, 2, 4, 4, outputs=("y", "i")), ""),
    (pool(1, 2, 4, 4, outputs=("y", None)), ""),
    (Node("Add", (3,), None), "input.missing"),
    (Node("Pad", (3,), ("i64", (2,))), ""),
    (Node("Pad", (3,), ("i64", (65,))), "constant.required"),
    (Node("Relu", (-1, 3)), "dynamic.shape"),
    (Node("Relu", (0, 3)), ""),
    (Node("Relu", ()), ""),
    # Elements and layers.
    (Node("Mod", (3,), (3,), version=13), "attribute.unsupported"),
    (Node("Mod", (3,), (3,), version=28), ""),
    (Node("Mod", (3,), (3,), fmod=1), ""),
    (Node("BatchNormalization", IMAGE, *CHANNELS, training_mode=1), ""),
    (Node("BatchNormalization", (2,), *[(1,)] * 4, training_mode=1), "attribute.unsupported"),
    (Node("Gemm", (2, 3), rows(2, 3, 4)), ROWS),
    (Node("Gemm", (2, 2, 3), rows(3, 4)), ROWS),
    (Node("Gemm", (3,), rows(3, 4)), ROWS),
    (Node("GroupNormalization", (2,), (2,), (2,), num_groups=1), "shape.mismatch"),
    (Node("GroupNormalization", (2, 4), (4,), (4,), num_groups=2), ""),
    (Node("GroupNormalization", IMAGE, (4,), (4,), num_groups=3), "shape.mismatch"),
    (Node("GroupNormalization", IMAGE, (4,), (4,), num_groups=0), "shape.mismatch"),
    (Node(f"{MS}:QLinearAveragePool", ("u8", IMAGE), *GRID, *GRID, kernel_shape=(2, 3),
          channels_last=1), "attribute.unsupported"),
    *[(Node(f"{MS}:QLinearAveragePool", ("u8", (1, 2, 6, 5)), *GRID, *GRID, kernel_shape=(2, 3),
            strides=(2, stride), count_include_pad=counts, ceil_mode=up),
       "host.ambiguous" if (stride, counts, up) == (3, 1, 1) else "")
      for stride in (2, 3) for counts in (0, 1) for up in (0, 1)],
    (Node(f"{MS}:SkipSimplifiedLayerNormalization", (2, 3, 4), (2, 3, 4), (4,),
          outputs=("y", "mean")), "output.unsupported"),
    (Node(f"{MS}:SkipSimplifiedLayerNormalization", (2, 3, 4), (2, 3, 4), (4,),
          outputs=("y", None, "inverse")), ""),
    (Node(f"{MS}:FusedConv", IMAGE, FILTERS, activation=b"Clip"), "activation.unsupported"),
    (Node(f"{MS}:FusedConv", IMAGE, FILTERS, activation=b"Clip", activation_params=(0.0, 1.0)), ""),
    (Node(f"{MS}:FusedConv", IMAGE, FILTERS, activation=b"Clip", activation_params=(0.0,)),
     "activation.unsupported"),
    (Node(f"{MS}:FusedGemm", (2, 3), rows(3, 4), activation=b"Sin"), "activation.unsupported"),
    # Convolutions.
    (conv((2, 4), (4, 4)), "rank.unsupported"),
    (conv((1, 2, 4, 4, 4, 4), (3, 2, 1, 1, 1, 1)), "rank.unsupported"),
    (conv((1, 2, 4, 4), (3, 2, 1)), "rank.unsupported"),
    (conv((1, 2, 4, 4, 4), (2, 3, 1, 1, 1), op="ConvTranspose"), ""),
    (conv((1, 2, 4, 4, 4, 4), (2, 3, 1, 1, 1, 1), op="ConvTranspose"), "rank.unsupported"),
    (conv((1, 4, 4, 4), (4, 2, 1, 1), group=2), ""),
    (conv((1, 4, 4, 4), (4, 4, 1, 1), group=0), "shape.mismatch"),
    (conv((1, 4, 4, 4), (3, 2, 1, 1), group=2), "shape.mismatch"),
    (conv((1, 4, 4, 4), (4, 3, 1, 1), group=2), "shape.mismatch"),
    (conv((1, 4, 4, 4), (4, 3, 1, 1), group=2, op="ConvTranspose"), ""),
    (conv((1, 4, 4, 4), (3, 3, 1, 1), op="ConvTranspose"), "shape.mismatch"),
    (conv((1, 3, 4, 4), (3, 3, 1, 1), group=2, op="ConvTranspose"), "shape.mismatch"),
    (conv((1, 2, 4, 5), (3, 2, 4, 5)), ""),
    (conv((1, 2, 3, 5), (3, 2, 4, 5)), "shape.window_too_large"),
    (conv((1, 2, 3, 5), (3, 2, 4, 5), pads=(0, 0, 1, 0)), ""),
    (conv((1, 2, 3, 3), (3, 2, 3, 3), pads=(0, 1, 0, 1), dilations=(1, 3)),
     "shape.window_too_large"),
    *[(conv((1, 2, 4, 4), (3, 2, 1, 1), **{name: value}), "attribute.invalid")
      for name, count, least in (("strides", 2, 1), ("dilations", 2, 1), ("pads", 4, 0))
      for value in ((1,) * (count - 1), (1,) * (count + 1), (1,) * (count - 1) + (least - 1,))],
    (conv((1, 2, 4, 4), (3, 2, 0, 1)), "attribute.invalid"),
    (conv((1, 2, 4, 4), (3, 2, 1, 1), pads=(-1, 0, 0, 0), auto_pad=SAME), ""),
    (conv((1, 2, 4, 4), (3, 2, 1, 1), pads=(0, 0, 0, 0), auto_pad=b"VALID"), ""),
    (conv((1, 2, 8), (3, 2, 3), strides=(4,), auto_pad=SAME), ""),
    (conv((1, 2, 8), (3, 2, 2), strides=(4,), auto_pad=SAME), "host.ambiguous"),
    (conv((1, 2, 8), (3, 2, 2), strides=(4,), auto_pad=LOWER), "host.ambiguous"),
    (conv((1, 2, 8), (3, 2, 2), strides=(4,), auto_pad=b"VALID"), ""),
    (conv((1, 2, 3, 3), (2, 3, 2, 2), op="ConvTranspose", output_padding=(0, -1)),
     "attribute.invalid"),
    (conv((1, 2, 3, 3), (2, 3, 2, 2), op="ConvTranspose", output_padding=(0, 1)),
     "attribute.invalid"),
    (conv((1, 2, 3, 3), (2, 3, 2, 2), op="ConvTranspose", pads=(2, 1, 2, 1)),
     "shape.window_too_large"),
    (conv((1, 2, 3, 3), (2, 3, 2, 2), op="ConvTranspose", pads=(1, 1, 2, 1)), ""),
    # Pooling.
    (pool(1, 2), "rank.unsupported"),
    (Node("GlobalMaxPool", (1, 2)), "rank.unsupported"),
    (Node("GlobalMaxPool", (1, 2, 3)), ""),
    (pool(1, 2, 6, 6, kernel_shape=(2,)), "attribute.invalid"),
    (pool(1, 2, 6, 6, kernel_shape=()), "attribute.invalid"),
    (pool(1, 2, 6, auto_pad=SAME, dilations=(2,)), "host.ambiguous"),
    (pool(1, 2, 6, auto_pad=SAME, dilations=(1,)), ""),
    (pool(1, 2, 6, auto_pad=b"VALID", dilations=(2,)), ""),
    (pool(0, 2, 6), "shape.empty"),
    (pool(1, 0, 6), "shape.empty"),
    (pool(1, 2, 0), "shape.empty"),
    (pool(1, 2, 6, kernel_shape=(11,), strides=(3,), ceil_mode=1), ""),
    (pool(1, 2, 6, kernel_shape=(12,), strides=(3,), ceil_mode=1), "shape.window_too_large"),
    (pool(1, 2, 6, kernel_shape=(7,), strides=(3,)), "host.ambiguous"),
    (pool(1, 2, 6, kernel_shape=(9,), strides=(3,)), ""),
    (pool(1, 2, 6, kernel_shape=(7,)), ""),
    (pool(1, 2, 8, kernel_shape=(4,), strides=(4,), auto_pad=SAME), ""),
    (pool(1, 2, 8, kernel_shape=(3,), strides=(4,), auto_pad=SAME), "host.ambiguous"),
    # Elements that move.
    (Node("Reshape", (2, 3), np.array([0, 3, 0])), "shape.mismatch"),
    (Node("Reshape", (2, 3), np.array([0, 0, 1])), ""),
    (Node("Reshape", (2, 3), np.array([3, 0])), "shape.mismatch"),
    (Node("Reshape", (2, 3), np.array([2, 0])), ""),
    (Node("Reshape", (0, 3), np.array([3, 1, 0]), allowzero=1), ""),
    (Node("Transpose", (2, 3), perm=(0, 0)), "attribute.invalid"),
    (Node("Transpose", (2, 3), perm=(0,)), "attribute.invalid"),
    (Node("Slice", (4, 3), np.array([1]), np.array([2, 3])), "attribute.invalid"),
    (Node("Slice", (4, 3), np.array([1]), np.array([2]), np.array([0, 1])), "attribute.invalid"),
    (Node("Slice", (4, 3), np.array([1]), np.array([2]), np.array([0]), np.array([1, 1])),
     "attribute.invalid"),
    (Node("Slice", (4, 3), np.array([1]), np.array([2]), np.array([0]), np.array([0])),
     "attribute.invalid"),
    (Node("Slice", (4, 3), np.array([1]), np.array([2]), np.array([0]), np.array([1])), ""),
    (Node("Pad", (2, 3), np.array([1, 1, 1])), "attribute.invalid"),
    (Node("Pad", (2, 3), np.array([1, 1, 1, 1]), None, np.array([0])), "attribute.invalid"),
    (Node("Pad", (2, 3), np.array([1, 1]), None, np.array([-1])), ""),
    (Node("Unsqueeze", (2, 3), np.array([0, 0])), "attribute.invalid"),
    (Node("Squeeze", (2, 1, 1), np.array([0])), "shape.mismatch"),
    (Node("Squeeze", (2, 1, 1), np.array([0, 1])), "shape.mismatch"),
    (Node("Squeeze", (2, 1, 1), np.array([-1, 1])), ""),
    (Node("Split", (6,), np.array([2, 3]), outputs=("a", "b")), "shape.mismatch"),
    (Node("Split", (6,), np.array([2, 2, 2]), outputs=("a", "b")), "shape.mismatch"),
    (Node("Split", (6,), np.array([7, -1]), outputs=("a", "b")), "shape.mismatch"),
    (Node("Split", (6,), np.array([6, 0]), outputs=("a", "b")), ""),
    (Node("Split", (), outputs=("a",)), "rank.unsupported"),
    # Resizing.
    (resized([1, 1, 2, 2]), ""),
    (resized([1, 1, 2]), "input.missing"),
    (resized([1, 1, 2, -1]), "input.missing"),
    (resized([1, 1, 2, 0.5], version=10), "attribute.unsupported"),
    (resized([1, 1, 2, 1], version=10), ""),
    (resized([1, 1, 0.5, 1], version=10), ""),
    (resized([1, 1, 2, 0.5], version=10, mode=b"linear"), ""),
    (resized([1, 1, 2, 0.5], version=11), ""),
    (resized([1, 1, 2, 2], **CUT), "attribute.invalid"),
    (resized([1, 1, 2, 2], roi=[0] * 4 + [1] * 3, **CUT), "attribute.invalid"),
    (resized([1, 1, 2, 2], roi=[0] * 4 + [1] * 4, **CUT), ""),
    (resized([1, 1, 2, 2], roi=[0] * 4 + [1, 1, 0.5, 1], **CUT), ""),
    (resized([1, 1, 2, 1], roi=[0] * 4 + [1, 1, 1, 0.5], **CUT), "host.ambiguous"),
    (resized([1, 1, 1.1, 1], roi=[0] * 4 + [1, 1, 0.5, 1], **CUT), "host.ambiguous"),
    (resized(sizes=[1, 3, 0, 2], shape=(1, 3, 0, 6)), "shape.empty"),
    (resized(sizes=[2, 2], shape=(0, 3, 4, 6), axes=(2, 3)), "shape.empty"),
    (resized([1, 2, 2, 1], mode=b"cubic"), "attribute.unsupported"),
    (resized([1, 1, 2, 2], mode=b"cubic"), ""),
    (resized([2, 2], shape=(4, 6), mode=b"cubic"), ""),
    (resized([2, 1, 2, 1]), "attribute.unsupported"),
    (resized([1, 2, 1, 2]), "attribute.unsupported"),
    (resized([1, 2, 2, 1]), ""),
    (resized([2, 2], shape=(4, 6)), ""),
    (resized([1, 1, 2, 2], antialias=1), "attribute.unsupported"),
    (resized([1, 1, 2, 2], coordinate_transformation_mode=b"tf_half_pixel_for_nn"), ""),
    (resized([1, 1, 2, 2], coordinate_transformation_mode=b"tf_half_pixel_for_nn", mode=b"linear"),
     "attribute.unsupported"),
    (resized(sizes=[8, 8], axes=(-2, -1), keep_aspect_ratio_policy=b"not_larger"),
     "host.ambiguous"),
    (resized(sizes=[8, 8], axes=(2, 3), keep_aspect_ratio_policy=b"not_larger"), ""),
    (resized(sizes=[8, 8], axes=(-2, -1)), ""),
    (resized([2, 2], axes=(-2, -1), keep_aspect_ratio_policy=b"not_larger"), ""),
    # Recurrent layers.
    (layer("LSTM", 4), ""),
    (layer("LSTM", 4, x=(5, 3)), "rank.unsupported"),
    (layer("LSTM", 4, direction=b"sideways"), "attribute.invalid"),
    (layer("LSTM", 4, None, np.array([5, 5], np.int32)), ""),
    (layer("LSTM", 4, None, np.array([5, 0], np.int32)), ""),
    *[(layer("LSTM", 4, None, np.array([5, n], np.int32)), "constant.invalid") for n in (-1, 6)],
    (layer("LSTM", 4, None, np.array([2] * 5, np.int32), layout=1), ""),
    (layer("LSTM", 4, None, np.array([5] * 5, np.int32), layout=1), "constant.invalid"),
    (layer("LSTM", 4, None, ("i32", (2,))), ""),
    (layer("LSTM", 4, None, ("i32", (5,))), "shape.mismatch"),
    (layer("LSTM", 4, None, ("i32", (5,)), layout=1), ""),
    (layer("LSTM", 4, None, ("i32", (2,)), x=(0, 2, 3)), "shape.empty"),
    (layer("LSTM", 4, None, np.zeros(2, np.int32), x=(0, 2, 3)), ""),
    *[(layer("LSTM", 4, **{f"activation_{name}": (0.1,)}), "") for name in ("alpha", "beta")],
    (layer("LSTM", 4, direction=b"bidirectional"), FIT),
    (layer("LSTM", 4, direction=b"bidirectional", w=(2, 8, 3), r=(2, 8, 2)), ""),
    (layer("LSTM", 4, w=(1, 8, 3), r=(1, 9, 2)), FIT),
    (layer("LSTM", 4, w=(1, 9, 3), r=(1, 8, 2)), FIT),
    (layer("LSTM", 4, w=(1, 9, 3), r=(1, 9, 2)), FIT),
    (layer("LSTM", 4, w=(8, 3), r=(1, 8, 2)), FIT),
    (layer("LSTM", 4, LSTM_BIAS), ""),
    (layer("LSTM", 4, rows(1, 15)), FIT),
    (layer("LSTM", 4, LSTM_BIAS, None, None, None, PEEPHOLES), ""),
    (layer("LSTM", 4, LSTM_BIAS, None, None, None, rows(1, 5)), FIT),
    (layer("GRU", 4), FIT),
    (layer("GRU", 3), ""),
    (layer("RNN", 2), FIT),
    (layer("LSTM", 4, activations=(b"Sigmoid", b"Tanh", b"Relu")), ""),
    (layer("LSTM", 4, activations=(b"Sigmoid", b"Tanh", b"Elu")), ""),
    (layer("LSTM", 4, activations=(b"Sigmoid", b"Tanh", b"Gelu")), "activation.unsupported"),
    (layer("LSTM", 4, activations=(b"Sigmoid", b"Tanh")), "activation.unsupported"),
    (layer("RNN", 1, activations=(b"Relu",)), ""),
    (layer("RNN", 1, activations=(b"Elu",)), ""),
    (layer("RNN", 1, activations=(b"Gelu",)), "activation.unsupported"),
    (layer("LSTM", 4, input_forget=1), ""),
    (layer("LSTM", 4, clip=0.5), ""),
    *[(layer("LSTM", 4, clip=limit), "attribute.unsupported") for limit in (0.0, -0.5)],
    # Attention.
    (attention(), ""),
    (attention(None, None, (2, 2, 4, 1, 2)), ""),
    (attention(outputs=("y", "present")), ""),
    (attention(outputs=("y", "present"), w=(6, 28), qkv_hidden_sizes=(8, 8, 12)),
     "shape.unsupported"),
    (attention(outputs=("y", None)), ""),
    (attention(None, None, None, None, ("i32", (1,))), "input.unsupported"),
    (attention(past_present_share_buffer=1), "input.unsupported"),
    (attention(None, None, None, (2, 4, 5, 5)), ""),
    (attention(do_rotary=1), "attribute.unsupported"),
    (attention(x=(5, 6)), "rank.unsupported"),
    (attention(w=(1, 6, 24)), "rank.unsupported"),
    (attention(num_heads=0), HEADS),
    (attention(w=(6, 3), num_heads=1), ""),
    (attention(w=(6, 9)), HEADS),
    (attention(w=(6, 16), qkv_hidden_sizes=(8, 8)), HEADS),
    (attention(qkv_hidden_sizes=(8, 8, 4)), HEADS),
    (attention(qkv_hidden_sizes=(8, 8, 8)), ""),
    (attention(w=(6, 25), qkv_hidden_sizes=(8, 8, 9)), HEADS),
    (attention(qkv_hidden_sizes=(0, 0, 24)), HEADS),
    (attention(None, ("i32", (2, 5))), ""),
    (attention(None, ("i32", (2,))), ""),
    (attention(None, ("i32", (2, 6))), "input.unsupported"),
    (attention(None, ("i32", (2, 6)), (2, 2, 4, 1, 2)), ""),
    # MultiHeadAttention.
    (multi_head(), ""),
    (multi_head((2, 7, 8), (2, 7, 8)), ""),
    (multi_head((2, 7, 8), (2, 7, 8), unidirectional=1), "host.ambiguous"),
    (multi_head((2, 4, 7, 2), (2, 4, 7, 2), unidirectional=1), "host.ambiguous"),
    (multi_head((2, 5, 8), (2, 5, 8), unidirectional=1), ""),
    (multi_head((2, 3, 8), (2, 3, 8), unidirectional=1), ""),
    (multi_head((2, 4, 7, 2), (2, 4, 7, 2)), ""),
    (multi_head((2, 4, 7, 2), (2, 4, 7, 2), (24,)), "rank.unsupported"),
    (multi_head((2, 7, 4, 2, 2), None), "rank.unsupported"),
    (multi_head((2, 7, 8), (2, 7, 8), None, ("i32", (2, 7))), ""),
    (multi_head((2, 7, 8), (2, 7, 8), None, ("i32", (2, 6))), "input.unsupported"),
    (multi_head((2, 7, 8), (2, 7, 8), None, None, None, (2, 4, 3, 2)), "input.missing"),
    (multi_head((2, 7, 8), (2, 7, 8), None, ("i32", (2, 10)), None, (2, 4, 3, 2), (2, 4, 3, 2)),
     ""),
    (multi_head(*((2, 7, 8),) * 2, *(None,) * 5, ("i32", (1,))), "input.unsupported"),
    (multi_head(outputs=("y", None, None, "scores")), "output.unsupported"),
    (multi_head(outputs=("y", "k", "v")), ""),
    # GroupQueryAttention.
    (grouped(), ""),
    (grouped(local_window_size=2), ""),
    (grouped(total=9), "shape.mismatch"),
    (grouped(total=7), "shape.mismatch"),
    (grouped(total=3), "shape.mismatch"),
    (grouped(batch=2, length=1, total=4), ""),
    (grouped(batch=2, length=1, total=4, told=(2, 1)), ""),
    (grouped(batch=2, length=1, total=4, told=(1,)), "shape.mismatch"),
    (grouped(batch=2, total=5), "shape.mismatch"),
    (grouped(batch=2, total=8), "shape.unsupported"),
    (grouped(num_heads=3), "shape.mismatch"),
    (grouped(smooth_softmax=1), "attribute.unsupported"),
    (grouped(do_rotary=1), "shape.mismatch"),
    (grouped((9, 1), (9, 1), do_rotary=1), ""),
    (grouped((7, 1), (7, 1), do_rotary=1), "shape.mismatch"),
    (grouped(None, None, ("i32", (1, 5))), "input.unsupported"),
    (grouped(outputs=("y", "k", "v", "scores")), "output.unsupported"),
    # RotaryEmbedding, of com.microsoft and of ONNX.
    (turned((2, 5, 8)), ""),
    (turned((2, 5, 8), ("i32", (1,))), ""),
    (turned((2, 5, 8), ("i32", (2, 4))), "shape.mismatch"),
    (turned((2, 5, 6)), "shape.mismatch"),
    (turned((2, 4, 5, 3)), "shape.mismatch"),
    (turned((2, 5, 8), scale=2.0), "attribute.unsupported"),
    (turned((10, 8), is_packed_batching=1), "attribute.unsupported"),
    (turned((2, 5, 8), op="RotaryEmbedding"), "shape.mismatch"),
    (turned((2, 5, 8), op="RotaryEmbedding", num_heads=2), ""),
    (turned((2, 5, 12), op="RotaryEmbedding", num_heads=2), "shape.mismatch"),
    (turned((2, 5, 12), op="RotaryEmbedding", num_heads=2, rotary_embedding_dim=4), ""),
    (Node("RotaryEmbedding", (2, 4, 5, 4), (2, 5, 2), (2, 5, 2)), ""),
    (Node("RotaryEmbedding", (2, 4, 5, 4), (9, 2), (9, 2)), "shape.mismatch"),
    # Attention of ONNX.
    (dot_product(), ""),
    (dot_product((2, 5, 8), (2, 7, 8), (2, 7, 8)), "shape.mismatch"),
    (dot_product((2, 5, 8), (2, 7, 8), (2, 7, 8), q_num_heads=2, kv_num_heads=2), ""),
    (dot_product((2, 5, 8), (2, 7, 8), (2, 7, 8), q_num_heads=2), "shape.mismatch"),
    (dot_product(outputs=SCORED), ""),
    (dot_product(outputs=SCORED, qk_matmul_output_mode=1), ""),
    (dot_product(outputs=SCORED, qk_matmul_output_mode=2), ""),
    (dot_product(outputs=SCORED, qk_matmul_output_mode=3), ""),
    (dot_product(qk_matmul_output_mode=1), ""),
    (dot_product((2, 4, 5, 2), *((2, 4, 512, 2),) * 2, outputs=SCORED, qk_matmul_output_mode=3),
     ""),
    (dot_product((2, 4, 5, 2), *((2, 4, 513, 2),) * 2, outputs=SCORED, qk_matmul_output_mode=3),
     "output.unsupported"),
    (dot_product((2, 4, 5, 2), *((2, 4, 511, 2),) * 2, None, *((2, 4, 1, 2),) * 2, outputs=SCORED,
                 qk_matmul_output_mode=3), ""),
    (dot_product((2, 4, 5, 2), *((2, 4, 511, 2),) * 2, None, *((2, 4, 2, 2),) * 2, outputs=SCORED,
                 qk_matmul_output_mode=3), "output.unsupported"),
    *((dot_product((2, 4, 5, 2), *((2, 4, 513, 2),) * 2, outputs=SCORED,
                   qk_matmul_output_mode=mode), "") for mode in (0, 1, 2)),
    (dot_product(*((2, 4, 5, 2),) * 3, ("bool", (5, 5))), ""),
    (dot_product(*((2, 4, 5, 2),) * 3, None, (2, 4, 3, 2)), "input.missing"),
    (dot_product(*((2, 4, 5, 2),) * 3, None, None, None, ("i64", (2,))), ""),
    (Node(f"{MS}:EmbedLayerNormalization", ("i32", (2, 5)), ("i32", (2, 5)), (9, 4), (7, 4), None,
          (4,), (4,)), "input.missing"),
    (Node(f"{MS}:EmbedLayerNormalization", ("i32", (2, 5)), None, (9, 4), (7, 4), None, (4,), (4,),
          outputs=("y", "mask")), "input.missing"),
    (Node(f"{MS}:EmbedLayerNormalization", ("i32", (2, 5)), None, (9, 4), (7, 4), None, (4,), (4,),
          ("i32", (2, 5)), outputs=("y", "mask"), kinds=["f32", "i32"]), ""),
    (q_attention(), ""),
    (q_attention(mask=("i32", (2,))), ""),
    (q_attention(mask=("i32", (2, 5))), ""),
    (q_attention(mask=("i32", (2, 8))), "input.unsupported"),
    (q_attention(mask=("i32", (2, 8)), past=(2, 2, 4, 3, 2)), ""),
    (q_attention(mask=("i32", (2, 5)), past=(2, 2, 4, 3, 2)), "input.unsupported"),
    (q_attention(w=(6, 25)), "shape.mismatch"),
    (q_attention(x=(5, 6)), "rank.unsupported"),
    (q_attention(do_rotary=1), "attribute.unsupported"),
    (q_attention(past_present_share_buffer=1), "input.unsupported"),
    (dynamic_lstm(), ""),
    (dynamic_lstm(scales=(1, 8)), ""),
    (dynamic_lstm(scales=(1, 2)), "quantization.unsupported"),
    (dynamic_lstm(scales=(8,)), "quantization.unsupported"),
    (dynamic_lstm(w=(1, 8, 3)), FIT),
    (dynamic_lstm(hidden_size=2), ""),
    (dynamic_lstm(input_forget=1), ""),
    (dynamic_lstm(activations=(b"Elu", b"Tanh", b"Tanh")), ""),
    (dynamic_lstm(activations=(b"Gelu", b"Tanh", b"Tanh")), "activation.unsupported"),
    *((Node("GlobalLpPool", (1, 3, 4, 5), p=p), "attribute.unsupported" * (p not in (1, 2)))
      for p in range(4)),
    # Stored numbers.
    (Node("QuantizeLinear", (3,), np.float32(1), kinds=["i8"], output_dtype=3), ""),
    (Node("QuantizeLinear", (3,), np.float32(1), output_dtype=1), "dtype.unsupported"),
    (Node("QuantizeLinear", (3,), np.float32(1), np.int32(0), output_dtype=2),
     "dtype.unsupported"),
    (Node("DequantizeLinear", ("u8", (3,)), ("f16", ())), "dtype.unsupported"),
    (Node("DequantizeLinear", ("u8", (3,)), np.float32(1), axis=5), ""),
    (Node("DequantizeLinear", ("u8", ()), rows(3)), "shape.mismatch"),
    (Node("DequantizeLinear", ("u8", (3, 4)), rows(4)), ""),
    (Node("DequantizeLinear", ("u8", (3, 4)), rows(3)), "shape.mismatch"),
    (Node("DequantizeLinear", ("u8", (2, 4)), SCALES, block_size=-1), "shape.mismatch"),
    (Node("DequantizeLinear", ("u8", (2, 4)), SCALES, ZEROS, block_size=2), ""),
    (Node("DequantizeLinear", ("u8", (2, 3)), SCALES, ZEROS, block_size=2), ""),
    (Node("DequantizeLinear", ("u8", (2, 4)), SCALES, ZEROS, block_size=3), ""),
    (Node("DequantizeLinear", ("u8", (2, 4)), SCALES, ZEROS, block_size=4), "shape.mismatch"),
    (Node("DequantizeLinear", ("u8", (2, 4)), SCALES, ZEROS[:1], block_size=2), "shape.mismatch"),
    (Node("DequantizeLinear", ("u8", (2, 3)), (2, 2), ZEROS, block_size=2), "constant.required"),
    (Node("DequantizeLinear", ("u8", (2, 3)), SCALES, ("u8", (2, 2)), block_size=2),
     "constant.required"),
    (Node("DequantizeLinear", ("u8", (2, 4)), (2, 2), ("u8", (2, 2)), block_size=2), ""),
    (Node(f"{MS}:QGemm", STORED, *GRID, np.ones((4, 3), np.uint8), *GRID, None, np.float32(1)),
     "input.missing"),
    (Node(f"{MS}:QGemm", STORED, *GRID, np.ones((4, 3), np.uint8), *GRID, None, *GRID,
          kinds=["u8"]), ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "wanted"), BOUNDS, ids=[n.snapshot.nodes[0].op for n, _ in BOUNDS]
)
def test_a_row_asks_for_what_it_needs_and_no_more(node: Node, wanted: str) -> None:
    assert node.code == wanted, node.reason


@pytest.mark.parametrize("op", HOST_OPS)
def test_a_row_reads_its_versions_and_no_others(op: str) -> None:
    first, last = HOST_OPS[op].versions
    for version in (first - 1, first, last, last + 1):
        given, span = version or -1, f"s {first} to {last} are" if first < last else f" {first} is"
        reason = Node(op, (2, 2), (2, 2), version=given).reason
        said = f"This is opset {given} of {op}. Opset{span} supported."
        assert (reason == said) == (not first <= version <= last)


WHOLE = ("u8", "i8", "u16", "i16")
CAST = ("f32", "f16", "bool", "i32", "i64")
NUMBERS = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9,
           "f16": 10, "f64": 11}  # fmt: skip


@pytest.mark.parametrize("held", [*CAST, *WHOLE])
@pytest.mark.parametrize("wanted", NUMBERS)
def test_what_is_cast(held: str, wanted: str) -> None:
    runs = wanted in (*CAST, *WHOLE)
    node = Node("Cast", (held, (3,)), to=NUMBERS[wanted], kinds=[wanted])
    option = " With the option double=float32, float64 is computed as float32."
    refused = f"Casting {type_name(held)} to {type_name(wanted)} is not supported.{option}"
    assert node.reason == ("" if runs else refused)
