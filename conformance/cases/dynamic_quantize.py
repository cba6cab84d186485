"""Quantization over the range of the values, as nodes: values of one sign, all zeros, many values,
factors per tensor and per channel, and what is refused."""

from __future__ import annotations

import numpy as np

from conformance.cases import Input, constant, seeded
from conformance.node_cases import NodeCase

FACTOR = constant(np.float32(0.037))


def over(name: str, x: Input, factors: Input | None = None) -> NodeCase:
    given = (x,) if factors is None else (x, factors)
    return NodeCase(name, "dynamic_quantize", given, outputs=len(given) + 1)


NODES = [
    over("row", Input((7,))),
    over("image", Input((1, 5, 6, 3), low=-2.0, high=9.0)),
    over("factor", Input((2, 9, 70)), FACTOR),
    over("factors_of_channels", Input((16, 5)), constant(seeded(70))),
    over("factors_of_an_image", Input((3, 4, 5, 6)), constant(seeded(1, 2, 3, 9))),
    over("many_values", Input((1, 70, 71, 24), low=-0.5, high=100.0), FACTOR),
    over("above_zero", Input((9, 13), low=3.0, high=4.0), FACTOR),
    over("below_zero", Input((9, 13), low=-4.0, high=-3.0), FACTOR),
    over("zeros", Input((5, 6), low=0.0, high=0.0), FACTOR),
    over("one_value", Input((1, 1))),
    NodeCase("integers", "dynamic_quantize", (Input((3, 4), "i32"),), outputs=2, refused=True),
    NodeCase("changing_factors", "dynamic_quantize", (Input((3, 4)), Input((4,))), outputs=3,
             refused=True),
]  # fmt: skip
