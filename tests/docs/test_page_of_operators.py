"""Tests what docs/ops.md says of rows: a sample of its sentences, each with a node that satisfies
it and one that does not, and the editions of its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.providers.onnxruntime.test_ort_reader import snapshot
from tests.providers.tflite.test_reader import CONV, POOL, host_node, refused
from tests.support.subprocesses import ROOT
from tflgpu_plugin.importer import partition_rules, rules
from tflgpu_plugin.importer.row_conditions import AFTER_ROW, BY_ROLES, FIRST
from tflgpu_plugin.importer.support import support
from tflgpu_plugin.ir import Target, requirement
from tflgpu_plugin.providers.onnxruntime import conditions as onnx_conditions, ops as onnx_ops
from tflgpu_plugin.providers.onnxruntime.reader import read
from tflgpu_plugin.providers.tflite import conditions as tflite_conditions, ops as tflite_ops

TFLITE, _, ONNX = (ROOT / "docs" / "ops.md").read_text().partition("## ONNX operators")
LSTM = {"W": (1, 8, 3), "R": (1, 8, 2)}
# Operator, the page's sentence, its inputs (a shape, or a constant), attributes with which a node
# runs, and those with which it does not.
SAMPLE: list[tuple[str, str, Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]] = [
    ("GlobalLpPool", "A norm p of 1 or 2.", {"x": (1, 2, 3, 3)}, {"p": 1}, {"p": 3}),
    ("Cast", "Input and result of floats of 8 to 32 bits, bool,", {"x": (4,)}, {"to": 16},
     {"to": 11}),
    ("Resize", "No antialiasing except of height", {"x": (1, 1, 2, 2), "r": np.zeros(0, np.float32),
     "s": np.float32([1, 1, 2, 2])}, {}, {"antialias": 1}),
    ("Resize", "The mode nearest for the coordinates tf_half_pixel_for_nn.",
     {"x": (1, 1, 2, 2), "r": np.zeros(0, np.float32), "s": np.float32([1, 1, 2, 2])},
     {"coordinate_transformation_mode": b"tf_half_pixel_for_nn"},
     {"coordinate_transformation_mode": b"tf_half_pixel_for_nn", "mode": b"linear"}),
    ("GlobalMaxPool", "An input of rank 3 or more.", {"x": (1, 2, 3)}, {}, {}),
    ("MaxPool", "No auto_pad with a dilated window.", {"x": (1, 1, 8)},
     {"kernel_shape": (2,), "dilations": (2,)},
     {"kernel_shape": (2,), "dilations": (2,), "auto_pad": b"SAME_UPPER"}),
    ("LSTM", "A clip above 0 (clip).", {"x": (4, 1, 3), **{k: np.ones(v, np.float32)
     for k, v in LSTM.items()}}, {"hidden_size": 2}, {"clip": 0.0}),
    ("Conv", "Channels and weights that match the number of groups.",
     {"x": (1, 4, 5, 5), "w": np.ones((4, 2, 3, 3), np.float32)}, {"group": 2}, {"group": 1}),
    ("Conv", "A window that is inside of the padded input.",
     {"x": (1, 4, 5, 5), "w": np.ones((4, 4, 3, 3), np.float32)}, {"dilations": (2, 2)},
     {"dilations": (3, 2)}),
    ("ConvTranspose", "Strides and dilations of at least 1 and pads of at least 0",
     {"x": (1, 4, 5, 5), "w": np.ones((4, 2, 3, 3), np.float32)}, {"strides": (2, 1)},
     {"strides": (2,)}),
    ("ConvTranspose", "Padding that does not remove the entire result.",
     {"x": (1, 4, 1), "w": np.ones((4, 2, 3), np.float32)}, {"pads": (1, 1)}, {"pads": (2, 1)}),
    ("AveragePool", "Windows that overlap the padded input.", {"x": (1, 1, 8)},
     {"kernel_shape": (8,)}, {"kernel_shape": (10,)}),
    ("Transpose", "A perm that is a permutation of all axes.", {"x": (2, 3)}, {"perm": (1, 0)},
     {"perm": (0, 0)}),
    ("Reshape", "No 0 in the shape for an axis beyond the input's rank.",
     {"x": (0, 3), "s": np.array([1, 3, 0])}, {"allowzero": 1}, {}),
    ("GroupNormalization", "A number of channels that is divisible by num_groups.",
     {"x": (1, 6, 4), **{k: np.ones(6, np.float32) for k in "sb"}}, {"num_groups": 3},
     {"num_groups": 4}),
    ("Resize", "A batch and channels (first or last) that are not resized.",
     {"x": (1, 2, 3, 3), "r": np.zeros(0, np.float32), "s": np.float32([2, 1])},
     {"axes": (2, 3)}, {"axes": (0, 2)}),
    ("Resize", "A size or a positive scale for each axis.",
     {"x": (1, 2, 3, 3), "r": np.zeros(0, np.float32), "s": np.float32([2, 1])},
     {"axes": (2, 3)}, {}),
    ("LSTM", "Weights and biases of matching shapes.", {"x": (4, 1, 3), **{k: np.ones(v, np.float32)
     for k, v in LSTM.items()}}, {}, {"direction": b"bidirectional"}),
    ("LSTM", "The activations affine, elu, hardsigmoid, leakyrelu, relu, scaledtanh, sigmoid, "
     "softplus, softsign, tanh or thresholdedrelu.",
     {"x": (4, 1, 3), **{k: np.ones(v, np.float32) for k, v in LSTM.items()}},
     {"activations": (b"Sigmoid", b"Tanh", b"Tanh")},
     {"activations": (b"Sigmoid", b"Tanh", b"Selu")}),
]  # fmt: skip


def line(page: str, operator: str) -> str:
    """Returns the row of an operator on the page."""
    return next(row for row in page.splitlines() if row.startswith(f"| `{operator}` |"))


def verdict(op: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    """Returns why the node stays on the CPU, or "" if it does not."""
    constants = {k: v for k, v in inputs.items() if isinstance(v, np.ndarray)}
    shapes = {k: v for k, v in inputs.items() if not isinstance(v, np.ndarray)}
    reading = read(snapshot([(op, list(inputs), ["out"], attributes)], shapes, constants), {})
    found = (support(reading.graph, node, Target()) for node in reading.graph.nodes)
    return next(filter(None, found), "")


@pytest.mark.parametrize(("op", "sentence", "inputs", "good", "bad"), SAMPLE)
def test_a_sentence_is_what_is_claimed(
    op: str, sentence: str, inputs: Any, good: Any, bad: Any
) -> None:
    assert sentence in line(ONNX, op)
    assert verdict(op, inputs, good) == ""
    if op == "GlobalMaxPool":
        inputs = {"x": (1, 2)}
    assert verdict(op, inputs, bad).endswith(".")


@pytest.mark.parametrize(
    ("op", "sentence", "good", "bad"),
    [
        (
            "CONV_2D",
            "No fused activation except relu, relu6 and relu_n1_to_1.",
            host_node("CONV_2D", "tgl_conv_params", **CONV, activation=1),
            host_node("CONV_2D", "tgl_conv_params", **CONV, activation=6),
        ),
        (
            "FULLY_CONNECTED",
            "No shuffled weights.",
            host_node("FULLY_CONNECTED", "tgl_fully_connected_params"),
            host_node("FULLY_CONNECTED", "tgl_fully_connected_params", weights_format=1),
        ),
        (
            "LSTM",
            "The activation tanh.",
            host_node("LSTM", "tgl_lstm_params", activation=4, kernel=1),
            host_node("LSTM", "tgl_lstm_params", activation=3, kernel=1),
        ),
        (
            "LSTM",
            "Or, with 24 inputs, in no edition: Constant weights, tanh, at most 512 units, and "
            "optional operands present in full or absent. The kernel, BASIC or FULL, that takes "
            "this number of inputs.",
            host_node("LSTM", "tgl_lstm_params", tuple(range(24)), activation=4, kernel=0),
            host_node("LSTM", "tgl_lstm_params", tuple(range(24)), activation=4, kernel=1),
        ),
        (
            "MAX_POOL_2D",
            "Padding SAME or VALID.",
            host_node("MAX_POOL_2D", "tgl_pool_params", (0,), **POOL),
            host_node("MAX_POOL_2D", "tgl_pool_params", (0,), **POOL | {"padding": 0}),
        ),
        (
            "CONV_3D",
            "Windows, strides and dilations of at least 1.",
            host_node("CONV_3D", "tgl_conv_3d_params", stride_d=1, dilation_d=1, **CONV),
            host_node("CONV_3D", "tgl_conv_3d_params", stride_d=1, dilation_d=0, **CONV),
        ),
        (
            "DEPTHWISE_CONV_2D",
            "A depth multiplier of at least 1.",
            host_node("DEPTHWISE_CONV_2D", "tgl_depthwise_params", depth_multiplier=1, **CONV),
            host_node("DEPTHWISE_CONV_2D", "tgl_depthwise_params", depth_multiplier=0, **CONV),
        ),
        (
            "MIRROR_PAD",
            "The mode REFLECT or SYMMETRIC.",
            host_node("MIRROR_PAD", "tgl_mirror_pad_params", mode=2),
            host_node("MIRROR_PAD", "tgl_mirror_pad_params", mode=0),
        ),
        (
            "PACK",
            "The number of tensors that its parameters say.",
            host_node("PACK", "tgl_pack_params", count=2),
            host_node("PACK", "tgl_pack_params", count=1),
        ),
    ],
)
def test_a_sentence_of_tflite_is_what_is_claimed(
    op: str, sentence: str, good: Any, bad: Any
) -> None:
    assert sentence in line(TFLITE, op)
    said = refused(bad, False)
    assert refused(good, False) is None and said is not None and said.endswith(".")


def test_every_condition_and_rule_is_on_the_page() -> None:
    for page, table in ((TFLITE, tflite_ops.HOST_OPS), (ONNX, onnx_ops.HOST_OPS)):
        for key, row in table.items():
            for condition in row.conditions:
                said = requirement(condition)
                assert said.endswith(".") and said in line(page, key), key
                assert not said.startswith(("Requires", "Accepts")), key  # "Conv needs requires"
    parted = [rule for together in partition_rules.PARTITION_RULES for rule in together]
    tflite = (*FIRST, *tflite_conditions.EVERY, *BY_ROLES, *AFTER_ROW)
    every = (TFLITE, tflite), (ONNX, (*FIRST, *onnx_conditions.EVERY))
    for page, conditions in (*every, (ONNX, rules.RULES), (ONNX, parted)):
        for number, one in enumerate(conditions, 1):
            assert f"\n{number}. {requirement(one)}" in page


@pytest.mark.parametrize("op", ["Relu", "Erf", "Exp", "Concat", "Tanh"])
def test_editions_hold_for_onnx_nodes(op: str) -> None:
    """Editions hold as the column says; Exp as converted is in the newer edition only."""
    listed = re.split(r" \| ", line(ONNX, op))[2].split(", ")
    reading = read(snapshot([(op, ["x"], ["y"], {"axis": 0})], {"x": (2, 3)}), {})
    (node,) = (n for n in reading.graph.nodes if n.op != "reshape")
    for option, edition in (("documented", "current"), ("documented-2019", "2019")):
        said = support(reading.graph, node, Target(), option)
        assert (said is None) == (edition in listed), said
        assert said is None or said.startswith(f"{op} is not listed in the {edition} edition")
    assert support(reading.graph, node, Target()) is None
