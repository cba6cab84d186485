"""TRANSPOSE_CONV: phases of the strides, padding against the given output shape, bias, channels.

The output shapes are those that every host takes; older ones take any."""

from __future__ import annotations

from dataclasses import replace

from conformance.cases import Case, Input, constant, seeded
from conformance.node_cases import NodeCase


def transposed(
    name: str,
    x: tuple[int, ...],
    filters: tuple[int, ...],
    output: tuple[int, int],
    padding: str = "SAME",
    stride: tuple[int, int] = (2, 2),
    bias: bool = False,
    constant_weights: bool = True,
) -> Case:
    """Returns a case; `x` is NHWC, `filters` [O, KH, KW, I], and `output` is the requested height
    and width."""
    weights = constant(seeded(*filters)) if constant_weights else Input(filters)
    inputs = (
        constant([x[0], *output, filters[0]], "i32"),
        weights,
        Input(x),
        constant(seeded(filters[0], seed=2)),
    )
    options = {
        "padding": padding,
        "strideH": stride[0],
        "strideW": stride[1],
    }
    version = 3 if bias else 1
    kept = inputs[: 4 if bias else 3]
    return Case(name, "TRANSPOSE_CONV", version, kept, "TransposeConvOptions", options)


CHANNELS = [
    transposed(f"{i} to {o} channels", (1, 4, 5, i), (o, 3, 3, i), (8, 10))
    for i, o in ((1, 1), (3, 5), (4, 4), (5, 3), (8, 17), (17, 8), (12, 40))
]
PADDING = [
    transposed("same, odd output", (1, 4, 5, 4), (4, 3, 3, 4), (7, 9)),
    transposed("valid", (1, 4, 5, 4), (4, 3, 3, 4), (9, 11), "VALID"),
    transposed("valid, longer output", (1, 4, 5, 4), (4, 3, 3, 4), (10, 12), "VALID"),
]
STRIDES = [
    transposed("stride 1", (1, 4, 5, 4), (4, 3, 3, 4), (4, 5), stride=(1, 1)),
    transposed("stride 1, 1x1", (1, 4, 5, 4), (7, 1, 1, 4), (4, 5), stride=(1, 1)),
    transposed("stride 3 by 2", (1, 4, 5, 4), (4, 3, 3, 4), (12, 10), stride=(3, 2)),
    transposed("stride over kernel", (1, 3, 4, 4), (5, 2, 2, 4), (15, 12), stride=(5, 3)),
    transposed("stride over kernel, valid", (1, 3, 4, 4), (5, 2, 2, 4), (12, 11), "VALID", (5, 3)),
    transposed("8 times up", (1, 3, 3, 5), (5, 16, 16, 5), (24, 24), stride=(8, 8)),
    transposed("2x2 stride 2", (1, 7, 6, 8), (4, 2, 2, 8), (14, 12), "VALID"),
    transposed("4x4 stride 2", (3, 7, 6, 8), (4, 4, 4, 8), (14, 12)),
]
OTHERS = [
    transposed("one place", (1, 1, 1, 8), (6, 3, 3, 8), (2, 2)),
    transposed("three images with bias", (3, 4, 5, 6), (9, 3, 3, 6), (8, 10), bias=True),
    transposed("runtime weights", (1, 4, 5, 6), (9, 3, 3, 6), (8, 10), constant_weights=False),
    transposed("more than 65,536 places", (1, 129, 129, 1), (1, 2, 2, 1), (258, 258)),
]


def custom(
    name: str,
    x: tuple[int, ...],
    filters: tuple[int, ...],
    output: tuple[int, int],
    padding: str = "SAME",
    stride: tuple[int, int] = (2, 2),
) -> Case:
    """Returns a case of MediaPipe's operator, which has a bias, and whose output shape follows from
    its parameters."""
    inputs = (Input(x), constant(seeded(*filters)), constant(seeded(filters[0], seed=2)))
    options = {"padding": padding, "strideH": stride[0], "strideW": stride[1]}
    op, struct = "CUSTOM Convolution2DTransposeBias", "TfLiteTransposeConvParams"
    return Case(name, op, 1, inputs, struct, options, shapes=((x[0], *output, filters[0]),))


def built_in(case: Case) -> Case:
    """Returns the same as a case of TRANSPOSE_CONV, whose output shape is an input."""
    x, weights, bias = case.inputs
    inputs = (constant(case.shapes[0], "i32"), weights, x, bias)
    return replace(case, op="TRANSPOSE_CONV", version=3, inputs=inputs,
                   options_type="TransposeConvOptions")  # fmt: skip


CUSTOM = [
    custom("3x3", (1, 4, 6, 4), (4, 3, 3, 4), (8, 12)),
    custom("3x3 of odd extents", (1, 5, 7, 3), (5, 3, 3, 3), (9, 13)),
    custom("2x2", (1, 8, 9, 16), (1, 2, 2, 16), (16, 17)),
    custom("4x4, three images", (3, 4, 5, 8), (17, 4, 4, 8), (8, 9)),
    custom("5x4, stride 2 by 3", (1, 5, 4, 3), (2, 5, 4, 3), (9, 10), stride=(2, 3)),
    custom("stride 1", (1, 4, 5, 6), (3, 3, 3, 6), (4, 5), stride=(1, 1)),
    custom("one place", (1, 1, 1, 8), (6, 3, 3, 8), (1, 1)),
    custom("valid 3x3", (1, 5, 4, 4), (4, 3, 3, 4), (11, 9), "VALID"),
    custom("valid 2x2", (1, 5, 4, 4), (9, 2, 2, 4), (10, 8), "VALID"),
    custom("valid, stride over kernel", (1, 3, 4, 4), (5, 2, 2, 4), (12, 11), "VALID", (5, 3)),
]
REFUSED = [
    Case(
        "runtime output shape",
        "TRANSPOSE_CONV",
        1,
        (Input((4,), "i32", low=4, high=4), constant(seeded(4, 3, 3, 4)), Input((4, 2, 2, 4))),
        "TransposeConvOptions",
        {"padding": "SAME", "strideH": 2, "strideW": 2},
        refused=True,
    ),
]
CASES = CHANNELS + PADDING + STRIDES + OTHERS + CUSTOM + REFUSED


def node(name: str, shape: tuple[int, ...], weights: tuple[int, ...], output: tuple[int, ...],
         strides: tuple[int, int], sides: tuple[int, ...],
         dilations: tuple[int, int] = (1, 1), fed: bool = False) -> NodeCase:  # fmt: skip
    """Returns a node case with explicit padding (top, bottom, left, right), groups or dilation;
    `fed` makes the weights an input."""
    filters = Input(weights) if fed else constant(seeded(*weights))
    inputs = (Input(shape), filters, constant(seeded(weights[0], seed=2)),
              constant(output, "i32"))  # fmt: skip
    attributes = {"strides": strides, "padding": sides, "dilations": dilations,
                  "activation": "none"}  # fmt: skip
    terms = weights[1] * weights[2] * weights[3]
    return NodeCase(name, "transpose_conv", inputs, attributes, terms=terms)


NODES = [
    node("sides", (2, 4, 5, 6), (5, 3, 4, 6), (2, 7, 9, 5), (2, 2), (1, 1, 2, 1)),
    node("added", (1, 4, 5, 6), (5, 3, 3, 6), (1, 10, 13, 5), (2, 2), (0, 0, 0, 0)),
    node("far_cut", (1, 5, 5, 3), (4, 3, 3, 3), (1, 3, 3, 4), (1, 1), (2, 2, 2, 2)),
    node("groups", (1, 4, 5, 6), (4, 3, 3, 3), (1, 9, 11, 4), (2, 2), (0, 0, 0, 0)),
    node("depthwise", (2, 4, 5, 7), (7, 2, 2, 1), (2, 8, 10, 7), (2, 2), (0, 0, 0, 0)),
    node("aligned_groups", (1, 3, 4, 8), (8, 2, 3, 4), (1, 6, 8, 8), (2, 2), (0, 0, 0, 1)),
    node("dilated", (1, 4, 5, 3), (4, 3, 2, 3), (1, 11, 12, 4), (2, 2), (1, 1, 0, 0), (2, 3)),
    *(
        node(
            f"dilated_fed_{h}_{w}",
            (1, 4, 5, 3),
            (4, 3, 2, 3),
            (1, 11, 12, 4),
            (2, 2),
            (1, 1, 0, 0),
            (h, w),
            fed=True,
        )
        for h, w in ((2, 3), (1, 3), (2, 1))
    ),
]
