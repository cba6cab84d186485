"""CONV_2D: channels, kernels, padding, strides, dilation, groups, activations, runtime weights.

The host's kernel always wants a bias."""

from __future__ import annotations

import numpy as np

from conformance.cases import Case, Input, constant, in_8_bits, seeded
from conformance.node_cases import NodeCase


def conv(
    name: str,
    x: tuple[int, ...],
    filters: tuple[int, ...],
    padding: str = "SAME",
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    activation: str = "NONE",
    version: int = 1,
    low: float = -1.0,
    scale: float = 1.0,
) -> Case:
    """Returns a case with seeded constant weights; `x` is NHWC, `filters` [O, KH, KW, I]."""
    return Case(
        name,
        "CONV_2D",
        version,
        (
            Input(x, low=low),
            constant(seeded(*filters, scale=scale)),
            constant(seeded(filters[0], seed=2)),
        ),
        "Conv2DOptions",
        options(padding, stride, dilation, activation),
    )


def options(
    padding: str, stride: tuple[int, int], dilation: tuple[int, int], activation: str
) -> dict[str, object]:
    """Returns the options table; strides and dilations are (h, w)."""
    return {
        "padding": padding,
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
        "fusedActivationFunction": activation,
    }


def runtime(name: str, x: tuple[int, ...], filters: tuple[int, ...]) -> Case:
    """Returns a case whose weights and bias are inputs of the model."""
    values = (Input(x), Input(filters), Input(filters[:1]))
    parameters = options("SAME", (1, 1), (1, 1), "RELU")
    return Case(name, "CONV_2D", 1, values, "Conv2DOptions", parameters)


def passing(name: str, x: tuple[int, ...], kernel: int) -> Case:
    """Returns a case whose intermediate sums exceed the largest float16; the sums of one position
    end below it."""
    signs = np.where(np.arange(x[3]) < x[3] // 2, 1, -0.6).astype(np.float32)
    weights = constant(np.tile(signs, (6, kernel, kernel, 1)))
    values = (Input(x, low=200, high=300), weights, constant(seeded(6)))
    return Case(
        name, "CONV_2D", 1, values, "Conv2DOptions", options("SAME", (1, 1), (1, 1), "NONE")
    )


POINT = [
    conv(f"point {i} to {o} channels", (1, 5, 7, i), (o, 1, 1, i))
    for i, o in ((1, 1), (3, 5), (4, 4), (5, 3), (8, 8), (17, 33), (3, 37), (64, 21), (32, 64))
]
PLACES = [
    conv("one place", (1, 1, 1, 8), (8, 1, 1, 8)),
    conv("one place, three images", (3, 1, 1, 9), (17, 1, 1, 9), activation="RELU6"),
    conv("one place, nine images", (9, 1, 1, 9), (17, 1, 1, 9)),
    conv("one place from a window", (2, 3, 3, 4), (5, 3, 3, 4), "VALID"),
    conv("one row", (1, 1, 61, 4), (8, 1, 1, 4)),
    conv("one column", (1, 61, 1, 4), (8, 3, 3, 4)),
    conv("three images, prime extents", (3, 11, 13, 5), (7, 3, 3, 5)),
    conv("more than 65,536 places", (1, 257, 257, 1), (1, 1, 1, 1)),
    conv("more than 65,536 in a row", (1, 1, 65_600, 1), (2, 1, 3, 1)),
    conv("point with stride", (1, 9, 8, 6), (7, 1, 1, 6), stride=(2, 2)),
    conv("point beyond the extent", (1, 3, 3, 4), (4, 1, 1, 4), stride=(4, 5)),
]
WINDOWS = [
    conv("3x3 same", (1, 9, 9, 4), (4, 3, 3, 4)),
    conv("3x3 valid", (1, 9, 9, 4), (4, 3, 3, 4), "VALID"),
    conv("2x2 same", (1, 6, 5, 3), (6, 2, 2, 3)),
    conv("1x7 same", (1, 7, 9, 4), (8, 1, 7, 4)),
    conv("7x1 valid", (1, 9, 7, 4), (8, 7, 1, 4), "VALID"),
    conv("5x4 stride 2 by 3", (1, 15, 16, 8), (9, 5, 4, 8), stride=(2, 3)),
    conv("stride over kernel", (1, 16, 17, 4), (8, 2, 2, 4), "VALID", stride=(5, 3)),
    conv("kernel over input, same", (1, 2, 3, 4), (4, 7, 7, 4)),
    conv("first layer", (1, 17, 17, 3), (32, 3, 3, 3), stride=(2, 2), activation="RELU6"),
    conv("first layer, one channel", (1, 16, 16, 1), (24, 5, 5, 1), stride=(2, 2)),
    conv("many channels", (1, 6, 6, 40), (72, 3, 3, 40), scale=0.2),
    conv("wide and deep point", (2, 7, 7, 256), (130, 1, 1, 256), scale=0.1),
    conv("few pixels, deep point", (1, 3, 3, 1024), (10, 1, 1, 1024), scale=0.1),
    conv("few pixels, deep window", (1, 7, 5, 128), (12, 3, 3, 128), stride=(2, 1), scale=0.1),
    conv("dilation 2", (1, 11, 12, 4), (8, 3, 3, 4), dilation=(2, 2)),
    conv("dilation 3 by 1, valid", (1, 11, 12, 5), (8, 3, 3, 5), "VALID", dilation=(3, 1)),
    conv("dilation 2 by 3", (1, 11, 12, 4), (8, 3, 3, 4), dilation=(2, 3)),
    conv("dilation 1 by 4, stride 1 row", (2, 6, 17, 5), (6, 2, 3, 5), "VALID", dilation=(1, 4)),
    conv("dilation over input", (1, 5, 5, 4), (3, 3, 3, 4), dilation=(8, 8)),
]
WINOGRAD = [  # large enough for transformed products to pay
    conv("3x3 over whole patches", (1, 24, 28, 128), (128, 3, 3, 128), scale=0.1),
    conv("3x3 over broken patches", (3, 25, 23, 65), (70, 3, 3, 65), "VALID", scale=0.1),
    conv("3x3 with relu6", (1, 28, 27, 96), (96, 3, 3, 96), scale=0.2, activation="RELU6"),
    conv("3x3 of many sums", (1, 112, 112, 64), (128, 3, 3, 64)),
    conv("3x3 of large values", (1, 27, 28, 96), (100, 3, 3, 96), low=-90.0, scale=0.1),
]
ACTIVATIONS = [
    conv(f"{a.lower()}, {o} channels", (1, 5, 5, 4), (o, 1, 1, 4), activation=a, scale=4.0)
    for a, o in (("RELU", 3), ("RELU6", 9), ("RELU_N1_TO_1", 8))
]
GROUPS = [
    conv(f"{x[3] // w[3]} groups, {x[3]} to {w[0]}", x, w, stride=stride, version=6)
    for x, w, stride in (
        ((1, 5, 6, 8), (16, 3, 3, 4), (1, 1)),
        ((2, 5, 6, 8), (8, 1, 1, 2), (1, 1)),
        ((1, 5, 6, 6), (9, 3, 3, 2), (2, 2)),
        ((1, 5, 6, 24), (40, 1, 1, 12), (1, 1)),
        ((1, 5, 6, 12), (24, 3, 3, 1), (1, 1)),
        ((1, 5, 6, 10), (10, 3, 3, 2), (1, 1)),
        ((1, 5, 6, 64), (136, 3, 3, 32), (1, 1)),
    )
]
RUNTIME = [
    runtime("runtime weights and bias", (1, 6, 7, 5), (9, 3, 3, 5)),
    runtime("runtime weights, point", (1, 6, 7, 8), (40, 1, 1, 8)),
    runtime("runtime weights, one place", (2, 1, 1, 8), (5, 1, 1, 8)),
    runtime("runtime weights, groups", (1, 6, 7, 6), (9, 3, 3, 2)),
    # The largest whose sums are finite in every order.
    conv("large values", (1, 4, 4, 4), (4, 3, 3, 4), low=-9e35, scale=9.0, activation="RELU6"),
]
REFUSED = [
    Case(
        "fused tanh",
        "CONV_2D",
        1,
        (Input((1, 3, 3, 4)), constant(seeded(4, 1, 1, 4)), constant(seeded(4))),
        "Conv2DOptions",
        options("SAME", (1, 1), (1, 1), "TANH"),
        refused=True,
    ),
]
LARGE = [
    passing("point, sums over 65504 on the way", (1, 3, 5, 640), 1),
    passing("window, sums over 65504 on the way", (1, 5, 5, 640), 3),
]
BYTES = [
    in_8_bits(conv("8 bits, point", (1, 9, 7, 32), (40, 1, 1, 32))),
    in_8_bits(
        conv("8 bits, point of broken slices", (2, 5, 7, 13), (19, 1, 1, 13), activation="RELU")
    ),
    in_8_bits(conv("8 bits, unsigned point", (1, 9, 7, 24), (36, 1, 1, 24)), "u8", 131),
    in_8_bits(conv("8 bits, window", (1, 9, 8, 12), (20, 3, 3, 12), stride=(2, 1))),
    in_8_bits(
        conv("8 bits, unsigned window", (1, 9, 8, 7), (9, 5, 3, 7), activation="RELU6"), "u8", 3
    ),
    in_8_bits(conv("8 bits, without zero point", (1, 6, 6, 8), (8, 3, 3, 8)), zero=0),
    in_8_bits(conv("8 bits, few pixels", (1, 3, 3, 1024), (12, 1, 1, 1024)), "u8", 255),
    in_8_bits(conv("8 bits, few pixels, window", (1, 5, 5, 128), (12, 3, 3, 128), "VALID")),
    in_8_bits(conv("8 bits, nine rows", (9, 1, 1, 20), (24, 1, 1, 20))),
]
CASES = (
    POINT + PLACES + WINDOWS + WINOGRAD + ACTIVATIONS + GROUPS + RUNTIME + LARGE + BYTES + REFUSED
)


def node(name: str, shape: tuple[int, ...], weights: tuple[int, ...], strides: tuple[int, int],
         sides: tuple[int, ...], dilations: tuple[int, int] = (1, 1)) -> NodeCase:  # fmt: skip
    """Returns a node case; `sides` are (top, bottom, left, right)."""
    inputs = (Input(shape), constant(seeded(*weights)), constant(seeded(weights[0], seed=2)))
    attributes = {"strides": strides, "padding": sides, "dilations": dilations,
                  "activation": "none"}  # fmt: skip
    terms = weights[1] * weights[2] * weights[3]
    return NodeCase(name, "conv_2d", inputs, attributes, terms=terms)


def gated(batch: int, height: int, width: int, channels: int, outputs: int) -> NodeCase:
    """Returns a node case of a 1x1 convolution whose input channels are multiplied by gates."""
    shape, weights = (batch, height, width, channels), seeded(outputs, 1, 1, channels, seed=4)
    gates = Input((batch, 1, 1, channels), low=0.0)
    attributes = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilations": (1, 1),
                  "activation": "none"}  # fmt: skip
    name = f"gated_{batch}x{height}x{width}_{channels}_to_{outputs}"
    given = (Input(shape), constant(weights), None, gates)
    return NodeCase(name, "conv_2d", given, attributes, terms=channels)


NODES = [
    node("sides", (2, 7, 8, 5), (6, 3, 3, 5), (1, 1), (1, 0, 0, 2)),
    node("sides_and_strides", (1, 9, 8, 3), (5, 3, 2, 3), (2, 3), (2, 1, 0, 1)),
    node("sides_and_dilations", (1, 9, 11, 4), (8, 3, 3, 4), (1, 1), (0, 3, 2, 1), (2, 3)),
    node("rows_in_padding", (1, 3, 5, 4), (5, 2, 2, 4), (1, 1), (5, 4, 0, 1)),
    node("columns_in_padding", (1, 3, 5, 4), (5, 2, 3, 4), (2, 1), (0, 1, 4, 6)),
    node("all_in_padding", (1, 2, 2, 4), (3, 2, 2, 4), (9, 9), (4, 2, 4, 2)),
    node("sides_and_groups", (1, 6, 7, 8), (6, 3, 3, 4), (1, 2), (1, 2, 2, 0)),
    node("point_with_sides", (1, 4, 5, 6), (5, 1, 1, 6), (1, 1), (1, 0, 2, 1)),
    node("point_moved_by_sides", (1, 4, 5, 6), (5, 1, 1, 6), (2, 2), (1, 0, 1, 0)),
    node("one_place_beside_the_image", (2, 1, 1, 6), (5, 1, 1, 6), (3, 3), (1, 0, 0, 0)),
    node("one_place_in_the_image", (2, 1, 1, 6), (5, 1, 1, 6), (3, 3), (0, 1, 0, 1)),
    node("one_place_from_a_window", (1, 1, 1, 6), (5, 3, 3, 6), (3, 3), (1, 1, 1, 1)),
    gated(1, 5, 4, 8, 12),
    gated(2, 5, 5, 12, 20),
    gated(3, 1, 3, 6, 5),
    gated(1, 7, 7, 64, 40),
    gated(1, 9, 9, 21, 130),
    node("window_beside_the_image", (1, 2, 2, 6), (5, 2, 2, 6), (3, 3), (2, 0, 2, 0)),
]
