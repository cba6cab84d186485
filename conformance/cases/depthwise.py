"""DEPTHWISE_CONV_2D: the 3x3 forms with their padding, other windows, dilation, multipliers."""

from __future__ import annotations

from conformance.cases import Case, Input, constant, in_8_bits, seeded
from conformance.node_cases import NodeCase


def depthwise(
    name: str,
    x: tuple[int, ...],
    kernel: tuple[int, int],
    padding: str = "SAME",
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    multiplier: int = 1,
    activation: str = "NONE",
    bias: bool = True,
    constant_weights: bool = True,
    refused: bool = False,
) -> Case:
    """Returns a case; `x` is NHWC, and weights are [1, *kernel, C * multiplier], seeded constants
    or inputs."""
    outputs = x[3] * multiplier
    shape = (1, *kernel, outputs)
    weights = constant(seeded(*shape)) if constant_weights else Input(shape)
    vector = constant(seeded(outputs, seed=2)) if constant_weights else Input((outputs,))
    options = {
        "padding": padding,
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
        "depthMultiplier": multiplier,
        "fusedActivationFunction": activation,
    }
    inputs = (Input(x), weights, vector)[: 3 if bias else 2]
    version = 1 if dilation == (1, 1) else 2
    kind = "DepthwiseConv2DOptions"
    return Case(name, "DEPTHWISE_CONV_2D", version, inputs, kind, options, refused=refused)


MAPS = (
    (1, 5, 5, 1),
    (1, 7, 6, 3),
    (1, 1, 1, 4),
    (3, 11, 13, 5),
    (1, 14, 14, 8),
    (1, 2, 31, 17),
    (1, 75, 3, 4),
    (5, 2, 4, 3),  # more images than rows
)
ROWS = [
    depthwise(f"3x3 stride {s}, {x[3]} channels of {x[1]} x {x[2]}", x, (3, 3), stride=(s, s))
    for x in MAPS
    for s in (1, 2)
]
PADDED = [
    depthwise("3x3 valid", (1, 9, 8, 4), (3, 3), "VALID"),
    depthwise("3x3 valid, exact", (2, 3, 3, 5), (3, 3), "VALID"),
    depthwise("3x3 stride 2 valid", (1, 9, 8, 4), (3, 3), "VALID", stride=(2, 2)),
    depthwise("3x3 stride 2 valid, odd", (1, 8, 9, 4), (3, 3), "VALID", stride=(2, 2)),
    depthwise("3x3 no bias", (1, 6, 6, 4), (3, 3), bias=False),
    depthwise("runtime", (1, 6, 6, 6), (3, 3), constant_weights=False),
    depthwise("runtime, stride 2", (1, 6, 6, 6), (3, 3), "SAME", (2, 2), constant_weights=False),
    depthwise("more than 65,536 places", (1, 257, 257, 1), (3, 3)),
    depthwise("many channels", (1, 2, 2, 515), (3, 3)),
]
DILATED = [
    depthwise("3x3 dilation 2", (1, 9, 10, 4), (3, 3), dilation=(2, 2)),
    depthwise("3x3 dilation 2 by 4", (1, 17, 15, 5), (3, 3), dilation=(2, 4)),
    depthwise("3x3 dilation 4 valid", (1, 17, 15, 5), (3, 3), "VALID", dilation=(4, 4)),
    depthwise("3x3 dilation over input", (2, 3, 5, 4), (3, 3), dilation=(6, 6)),
    depthwise("5x5 dilation 3 by 2", (1, 15, 11, 4), (5, 5), dilation=(3, 2)),
    depthwise("2x4 dilation 1 by 3, valid", (1, 7, 14, 5), (2, 4), "VALID", dilation=(1, 3)),
    depthwise("3x3 dilation 4 by 1", (2, 13, 6, 6), (3, 3), dilation=(4, 1)),
    depthwise("5x5 dilation 2", (1, 9, 10, 4), (5, 5), dilation=(2, 2)),
]
WINDOWS = [
    depthwise("1x1", (1, 5, 4, 6), (1, 1)),
    depthwise("2x2 valid", (1, 5, 4, 6), (2, 2), "VALID"),
    depthwise("5x5", (1, 13, 12, 9), (5, 5)),
    depthwise("7x7 stride 2", (1, 13, 12, 4), (7, 7), stride=(2, 2)),
    depthwise("3x5 stride 2", (1, 13, 12, 4), (3, 5), stride=(2, 2)),
    depthwise("3x3 stride 1 by 1 of 3 rows over 1", (1, 1, 9, 4), (3, 3)),
    depthwise("3x3 stride 3", (1, 10, 10, 4), (3, 3), stride=(3, 3)),
    depthwise("stride over kernel", (1, 11, 11, 4), (2, 2), "VALID", stride=(5, 5)),
    depthwise("global window", (2, 7, 7, 8), (7, 7), "VALID"),
    depthwise("global, runtime weights", (1, 7, 7, 6), (7, 7), "VALID", constant_weights=False),
]
MULTIPLIED = [
    depthwise(f"{m} filters for each of {x[3]}", x, k, "SAME", s, multiplier=m, activation="RELU")
    for x, k, s, m in (
        ((1, 6, 5, 1), (3, 3), (1, 1), 8),
        ((1, 6, 5, 3), (3, 3), (2, 2), 2),
        ((2, 6, 5, 5), (3, 3), (1, 1), 3),
        ((1, 6, 5, 4), (5, 5), (1, 1), 4),
        ((1, 6, 5, 1), (1, 1), (1, 1), 5),
    )
]
ACTIVATIONS = [
    depthwise(f"{a.lower()}, stride {s}", (1, 7, 7, 5), (3, 3), stride=(s, s), activation=a)
    for a, s in (("RELU", 1), ("RELU6", 1), ("RELU6", 2), ("RELU_N1_TO_1", 2))
]
BYTES = [
    in_8_bits(depthwise(f"8 bits, {name}", x, kernel, stride=(s, s)), dtype, zero, axis=3)
    for name, x, kernel, s, dtype, zero in (
        ("3x3", (2, 7, 6, 13), (3, 3), 1, "i8", 17),
        ("3x3 of a pixel", (1, 1, 1, 4), (3, 3), 1, "i8", -128),
        ("3x3 stride 2", (1, 8, 9, 5), (3, 3), 2, "i8", 127),
        ("3x3 without zero point", (1, 5, 5, 8), (3, 3), 1, "i8", 0),
        ("unsigned 3x3", (1, 6, 11, 6), (3, 3), 1, "u8", 131),
        ("unsigned 3x3 stride 2", (2, 7, 8, 9), (3, 3), 2, "u8", 255),
        ("5x5", (1, 9, 8, 6), (5, 5), 1, "i8", 17),
        ("unsigned 2x9", (1, 7, 12, 6), (2, 9), 1, "u8", 3),
    )
]
BYTES += [
    in_8_bits(depthwise("8 bits, 3x3 valid", (1, 6, 7, 6), (3, 3), "VALID"), axis=3),
    in_8_bits(depthwise("8 bits, 3x3 dilation 2", (1, 9, 8, 6), (3, 3), dilation=(2, 2)), axis=3),
    in_8_bits(
        depthwise("8 bits, relu6", (1, 9, 8, 6), (3, 3), activation="RELU6"), "u8", 7, axis=3
    ),
]
REFUSED = [depthwise("fused tanh", (1, 4, 4, 4), (3, 3), activation="TANH", refused=True)]
CASES = ROWS + PADDED + DILATED + WINDOWS + MULTIPLIED + ACTIVATIONS + BYTES + REFUSED


def node(name: str, shape: tuple[int, ...], kernel: tuple[int, int], strides: tuple[int, int],
         sides: tuple[int, ...], dilations: tuple[int, int] = (1, 1),
         multiplier: int = 1) -> NodeCase:  # fmt: skip
    """Returns a node case; `sides` are (top, bottom, left, right)."""
    outputs = shape[3] * multiplier
    inputs = (Input(shape), constant(seeded(1, *kernel, outputs)), constant(seeded(outputs)))
    attributes = {"strides": strides, "padding": sides, "dilations": dilations,
                  "multiplier": multiplier, "activation": "none"}  # fmt: skip
    terms = kernel[0] * kernel[1]
    return NodeCase(name, "depthwise_conv_2d", inputs, attributes, terms=terms)


NODES = [
    node("sides", (2, 7, 8, 5), (3, 3), (1, 1), (1, 0, 0, 2)),
    node("sides_and_strides", (1, 9, 8, 8), (3, 2), (2, 3), (2, 1, 0, 1)),
    node("sides_and_dilations", (1, 9, 11, 4), (3, 3), (1, 1), (0, 3, 2, 1), (2, 3)),
    node("rows_in_padding", (1, 3, 5, 4), (3, 3), (1, 1), (6, 5, 0, 1)),
    node("columns_in_padding", (1, 3, 5, 4), (2, 3), (1, 1), (0, 1, 5, 6)),
    node("all_in_padding", (1, 2, 2, 4), (2, 2), (9, 9), (4, 2, 4, 2)),
    node("sides_and_two_filters", (1, 6, 7, 3), (3, 3), (1, 2), (1, 2, 2, 0), (1, 1), 2),
    node("point_with_sides", (1, 4, 5, 6), (1, 1), (1, 1), (1, 0, 2, 1)),
    node("one_place_beside_the_image", (2, 1, 1, 6), (1, 1), (3, 3), (1, 0, 0, 0)),
    node("window_beside_the_image", (1, 2, 2, 6), (2, 2), (3, 3), (2, 0, 2, 0)),
]
