"""Layers of int16 values from the sums of their digits: totals of more than 32 bits, negative ones
and halves of either sign, biases, factors of 15 and of 54 bits, results that saturate; and the
digits themselves. Passes make these nodes (conformance/test_int16.py has layers)."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Input, constant
from conformance.node_cases import NodeCase
from tflgpu_plugin.ops.wide_total import in_float64, reduced

MIN_INT16, MAX_INT16 = -(2.0**15), 2.0**15 - 1
LARGEST = 2**24 - 1  # of a sum


def total(name: str, shape: tuple[int, ...], factor: float, *, bits: int = 8, away: bool = False,
          bias: int = 0, most: int = LARGEST, scale: float = 1.0,
          places: tuple[int, ...] = ()) -> NodeCase:  # fmt: skip
    """Returns sums of up to `most`; the factor of each channel is a little smaller than that of the
    one before it."""
    channels = shape[-1]
    factors = factor * 0.93 ** np.arange(channels)
    made = (
        [in_float64(float(f)) for f in factors]
        if away
        else list(zip(*reduced(factors), strict=True))
    )
    numbers, powers = (np.array(each, np.int64) for each in zip(*made, strict=True))
    biases = bias * np.arange(-1, channels - 1, dtype=np.int64)
    rows = np.stack(
        [biases & 0xFFFFFFFF, biases >> 32, numbers & 0xFFFFFFFF, numbers >> 32, powers]
    )
    attributes: dict[str, Any] = {"bits": bits, "numbers": (scale, MIN_INT16, MAX_INT16)}
    attributes |= {"away": True} if away else {}
    attributes |= {"places": places} if places else {}
    count = len(places) or 16 // bits
    parts = [Input(shape, low=-most, high=most + 1, step=1.0) for _ in range(count)]
    given = (constant(rows.astype(np.uint32).view(np.int32), "i32"), *parts)
    return NodeCase(name, "wide_total", given, attributes)


def digit(name: str, before: int, bits: int, scale: float = 1.0) -> NodeCase:
    scale = float(np.float32(scale))
    numbers = (scale, float(before), float(bits), float(before + bits == 16))
    given = Input((3, 5, 700), low=MIN_INT16 * scale, high=(MAX_INT16 + 1) * scale, step=scale)
    return NodeCase(name, "digit", (given,), {"numbers": numbers})


FACTORS = (0.5, 0.013, 3e-5, 1e-6)
NODES = [
    *(total(f"up_{f:g}", (3, 5, 7, 6), f, bias=10**6) for f in FACTORS),
    *(total(f"away_{f:g}", (3, 5, 7, 6), f, away=True, bias=10**6) for f in FACTORS),
    *(total(f"digits_of_4_{f:g}", (4, 9), f, bits=4, away=f < 0.01) for f in FACTORS),
    *(total(f"pairs_{f:g}", (3, 9, 7), f, places=(0, 1, 1, 2)) for f in (1e-3, 1e-6, 1e-8)),
    total("large_bias", (50, 7), 1e-7, bias=10**11), total("one", (1, 1), 0.001),
    total("large_bias_away", (50, 7), 1e-7, bias=10**11, away=True),
    total("halves", (700, 1), 0.5, most=100),
    total("halves_away", (700, 1), 0.5, most=100, away=True),
    total("eighths", (9, 9, 9, 4), 0.125, most=300), total("eighths_away", (9, 9, 9, 4), 0.125,
                                                           most=300, away=True),
    total("beyond_32_bits", (9, 7, 6), 70.0),
    total("beyond_32_bits_away", (9, 7, 6), 70.0, away=True),
    total("thirds_away", (3000, 1), 1 / 6, most=100, away=True),
    total("scaled", (1, 4, 4, 5), 1e-4, scale=0.25), total("saturates", (300, 3), 60.0),
    *(digit(f"digit_{before}_{bits}", before, bits, 1.0 if bits == 8 else 3e-5)
      for bits in (8, 4) for before in range(0, 16, bits)),
]  # fmt: skip
