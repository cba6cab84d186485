"""Convolutions of volumes: windows, strides, sides, dilation, groups and channel remainders."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, seeded
from conformance.node_cases import NodeCase

Three = tuple[int, int, int]


def volume(name: str, shape: tuple[int, ...], weights: tuple[int, ...], strides: Three = (1, 1, 1),
           padding: str = "VALID", dilations: Three = (1, 1, 1), activation: str = "NONE",
           bias: bool = True, fed: bool = False, refused: bool = False) -> Case:  # fmt: skip
    """Returns a case of CONV_3D; its weights are [D, H, W, inputs, outputs]."""
    filters = Input(weights) if fed else constant(seeded(*weights))
    inputs = (Input(shape), filters, *([constant(seeded(weights[-1], seed=2))] if bias else []))
    options = {"padding": padding, "fusedActivationFunction": activation}
    numbers = {f"stride{axis}": n for axis, n in zip("DHW", strides, strict=True)}
    numbers |= {f"dilation{axis}Factor": n for axis, n in zip("DHW", dilations, strict=True)}
    return Case(name, "CONV_3D", 1, inputs, "Conv3DOptions", options | numbers, refused=refused)


def back(name: str, shape: tuple[int, ...], weights: tuple[int, ...], size: Three,
         strides: Three = (1, 1, 1), padding: str = "VALID", bias: bool = False,
         refused: bool = False) -> Case:  # fmt: skip
    """Returns a case of CONV_3D_TRANSPOSE to this size; its weights are [D, H, W, outputs,
    inputs]."""
    wanted = (shape[0], *size, weights[3])
    inputs = (constant(np.array(wanted), "i32"), constant(seeded(*weights)), Input(shape),
              *([constant(seeded(weights[3], seed=2))] if bias else []))  # fmt: skip
    numbers = {f"stride{axis}": n for axis, n in zip("DHW", strides, strict=True)}
    numbers |= {f"dilation{axis}Factor": 1 for axis in "DHW"}
    options = {"padding": padding, "fusedActivationFunction": "NONE"}
    return Case(name, "CONV_3D_TRANSPOSE", 1, inputs, "Conv3DOptions", options | numbers,
                refused=refused)  # fmt: skip


CASES = [
    back("transposed", (2, 3, 4, 5, 6), (2, 2, 2, 9, 6), (4, 5, 6)),
    back("transposed_strides", (1, 3, 4, 5, 3), (2, 3, 2, 5, 3), (6, 9, 10), (2, 2, 2)),
    back("transposed_same", (1, 3, 4, 5, 3), (3, 3, 3, 5, 3), (6, 8, 5), (2, 2, 1), "SAME", True),
    back("transposed_odd", (1, 3, 4, 2, 8), (3, 2, 4, 4, 8), (5, 8, 6), (2, 2, 3), "SAME"),
    back("transposed_gaps", (2, 3, 2, 2, 4), (1, 1, 2, 4, 4), (5, 3, 5), (2, 2, 3)),
    volume("point", (2, 3, 4, 5, 6), (1, 1, 1, 6, 9)),
    *(volume(f"channels_{c}", (1, 4, 5, 6, c), (3, 2, 3, c, c + 1), padding="SAME")
      for c in (1, 3, 4, 8, 17)),
    volume("strides_valid", (2, 7, 8, 9, 3), (3, 3, 3, 3, 5), (2, 3, 1)),
    volume("strides_same", (2, 7, 8, 9, 3), (3, 2, 3, 3, 5), (2, 3, 1), "SAME"),
    volume("dilations", (1, 6, 9, 8, 3), (2, 3, 2, 3, 5), dilations=(3, 2, 4)),
    volume("dilations_same", (1, 6, 9, 8, 3), (2, 3, 2, 3, 5), (1, 1, 1), "SAME", (1, 2, 3)),
    volume("relu", (1, 4, 4, 4, 5), (2, 2, 2, 5, 6), activation="RELU"),
    volume("relu6", (1, 4, 4, 4, 5), (2, 2, 2, 5, 6), activation="RELU6"),
    volume("no_bias", (1, 4, 4, 4, 5), (2, 2, 2, 5, 6), bias=False),
    volume("fed", (1, 4, 4, 4, 5), (2, 2, 2, 5, 6), fed=True),
    volume("many", (1, 4, 12, 12, 16), (3, 3, 3, 16, 24), padding="SAME"),
    volume("tanh", (1, 4, 4, 4, 5), (2, 2, 2, 5, 6), activation="TANH", refused=True),
]  # fmt: skip


def conv(name: str, shape: tuple[int, ...], weights: tuple[int, ...], strides: Three = (1, 1, 1),
         sides: tuple[int, ...] = (0,) * 6, dilations: Three = (1, 1, 1),
         fed: bool = False) -> NodeCase:  # fmt: skip
    """Returns a node case with a bias; `fed` makes the weights an input."""
    filters = Input(weights) if fed else constant(seeded(*weights))
    inputs = (Input(shape), filters, constant(seeded(weights[0], seed=2)))
    attributes = {"strides": strides, "padding": sides, "dilations": dilations,
                  "activation": "none"}  # fmt: skip
    terms = weights[1] * weights[2] * weights[3] * weights[4]
    return NodeCase(name, "conv_3d", inputs, attributes, terms=terms)


def turned(name: str, shape: tuple[int, ...], weights: tuple[int, ...], size: Three,
           refused: bool = False, fed: bool = False, **attributes: Any) -> NodeCase:  # fmt: skip
    """Returns a node case of transpose_conv_3d to this size; `fed` makes the weights an input."""
    filters = Input(weights) if fed else constant(seeded(*weights))
    inputs = (Input(shape), filters, constant(seeded(weights[0], seed=2)),
              constant(np.array([shape[0], *size, weights[0]]), "i32"))  # fmt: skip
    terms = weights[1] * weights[2] * weights[3] * weights[4]
    given = {"strides": (1, 1, 1), "activation": "none", **attributes}
    return NodeCase(name, "transpose_conv_3d", inputs, given, terms=terms, refused=refused)


NODES = [
    conv("point", (2, 3, 4, 5, 6), (9, 1, 1, 1, 6)),
    *(conv(f"channels_{c}", (1, 4, 5, 6, c), (c + 1, 3, 2, 3, c)) for c in (1, 3, 4, 8, 17)),
    conv("strides", (2, 7, 8, 9, 3), (5, 3, 3, 3, 3), (2, 3, 1)),
    conv("sides", (1, 4, 5, 6, 3), (5, 3, 3, 3, 3), sides=(1, 0, 2, 1, 0, 2)),
    conv("dilations", (1, 6, 9, 8, 3), (5, 2, 3, 2, 3), dilations=(3, 2, 4), sides=(1,) * 6),
    conv("groups", (1, 4, 4, 4, 6), (4, 2, 2, 2, 3)),
    conv("depthwise", (1, 4, 4, 4, 5), (5, 3, 3, 3, 1), sides=(1,) * 6),
    conv("fed", (1, 4, 4, 4, 5), (6, 2, 2, 2, 5), fed=True),
    conv("many", (1, 8, 16, 16, 16), (40, 3, 3, 3, 16), sides=(1,) * 6),
    turned("turned", (1, 3, 4, 5, 3), (5, 3, 2, 3, 3), (7, 9, 6), strides=(2, 2, 1),
           padding=(0, 0, 0, 0, 1, 1)),
    turned("turned_dilations", (1, 3, 4, 5, 3), (5, 2, 3, 2, 3), (7, 6, 7), dilations=(3, 1, 2),
           padding=(0, 0) * 3),
    turned("turned_groups", (2, 2, 3, 2, 6), (4, 2, 2, 2, 3), (4, 6, 4), strides=(2, 2, 2),
           padding=(0, 0) * 3),
    turned("turned_fed", (1, 3, 4, 5, 3), (5, 2, 3, 2, 3), (8, 9, 8), dilations=(2, 1, 1),
           strides=(2, 2, 1), padding=(0, 0, 0, 0, 0, 0), fed=True),
    turned("turned_too_large", (1, 2, 2, 2, 4), (4, 2, 2, 2, 4), (9, 4, 4), strides=(2, 2, 2),
           padding=(3, 0, 0, 0, 0, 0), refused=True),
    NodeCase("too_large", "conv_3d", (Input((1, 2, 2, 2, 3)), constant(seeded(4, 3, 3, 3, 3))),
             {"strides": (1, 1, 1), "padding": "valid"}, refused=True),
]  # fmt: skip
