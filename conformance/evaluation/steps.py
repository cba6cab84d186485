"""Applies epilogue ops to a result in numpy, with the parameters that they carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance.evaluation.numbers import away, even, up
from conformance.references.truth import REFERENCES
from tflgpu_plugin.ir import FACTOR_UNIT, ONE, Array, EpilogueOp, Graph

Numbers = Sequence[float]


def _cut(n: Array, levels: Numbers) -> Array:
    """Returns integers clamped to the range (scale, least, most), as the values that they
    represent."""
    scale, least, most = levels
    return np.clip(n, least, most) * scale


def factor(high: float, low: float, shift: float) -> float:
    """Returns a 31-bit factor in two parts, times a power of two."""
    return float((high * FACTOR_UNIT + low) / ONE * 2.0**shift)


def fake_quant(v: Array, scale: float, least: float, most: float, parts: Any = 1.0,
               zero: float = 0.0) -> Array:  # fmt: skip
    fine = away((v / scale + zero) * parts)
    return _cut(away(fine / parts) - zero, (scale, least, most))


def fake_quant_channels(v: Array, parts: Array, scale: float, least: float, most: float) -> Array:
    return _cut(away(up(v / scale * parts) / parts), (scale, least, most))


def fake_quant_even(v: Array, scale: float, least: float, most: float) -> Array:
    return _cut(even(v / scale), (scale, least, most))


def requantize(v: Array, rows: Array, *numbers: float) -> Array:
    """Requantizes a sum; `numbers` holds the scale of the sum, then the levels of the result."""
    high_bias, low_bias, high, low, power = rows
    sums = v / numbers[0] + high_bias + low_bias
    return _cut(away(sums * (high + low) * power), numbers[1:4])


def rescale(v: Array, rows: Array, *numbers: float) -> Array:
    high_bias, low_bias, by = rows
    return _cut(even((v / numbers[0] + high_bias + low_bias) * by), numbers[1:4])


def quantized_sum(v: Array, e: Array, *n: float) -> Array:
    (a, *first), (b, *second), (y, *third) = n[:4], n[4:8], n[8:12]
    left = away(away(v / a) * 2.0**20 * _right(*first))
    right = away(away(e / b) * 2.0**20 * _right(*second))
    return _cut(away((left + right) * _right(*third)), (y, *n[12:14]))


def int16_sum(v: Array, e: Array, *n: float) -> Array:
    """Returns a sum like `quantized_sum`; the number of fractional bits is the last one."""
    (a, *first), (b, *second), (y, *third), bits = n[:4], n[4:8], n[8:12], 2.0 ** n[14]
    left = away(away(v / a) * bits * _right(*first))
    right = away(away(e / b) * bits * _right(*second))
    return _cut(away((left + right) * _right(*third)), (y, *n[12:14]))


def int16_product(v: Array, e: Array, *n: float) -> Array:
    return _cut(away(away(v / n[0]) * away(e / n[1]) * factor(*n[2:5])), n[5:8])


def quantized_quotient(v: Array, e: Array, *n: float) -> Array:
    """Divides where no shift is beyond the width of a word, of which C++ leaves the result
    undefined: the exact quotient, rounded to nearest."""
    above, below, (scale, least, most, _) = away(v / n[0]), away(e / n[1]), n[5:9]
    with np.errstate(all="ignore"):
        made = np.where(below == 0, np.sign(above) * np.inf, above / below * factor(*n[2:5]))
    return _cut(away(np.nan_to_num(made, nan=0.0)), (scale, least, most))


def digit(v: Array, *n: float) -> Array:
    return np.asarray(REFERENCES["digit"](v, numbers=n))


def lookup(x: Array, table: Array, scale: float) -> Array:
    return np.asarray(table[np.clip(away(x / scale), -32768, 32767).astype(np.int64) + 32768])


def _right(high: float, low: float, shift: float) -> float:
    return factor(high, low, -shift)


def quantized_squared_difference(v: Array, e: Array, *n: float) -> Array:
    (a, *first), (b, *second), (y, *third) = n[:4], n[4:8], n[8:12]
    d = away(v / a * 2.0**7 * _right(*first)) - away(e / b * 2.0**7 * _right(*second))
    return _cut(away(d * d * _right(*third)), (y, *n[12:14]))


def quantized_prelu(v: Array, e: Array, *n: float) -> Array:
    scale, alpha, above, below = n[0], n[1], factor(*n[2:5]), factor(*n[5:8])
    stored = away(v / scale)
    product = stored * away(e / alpha)
    return _cut(away(np.where(stored >= 0, stored * above, product * below)), n[8:11])


def quantized_leaky_relu(v: Array, *n: float) -> Array:
    return quantized_prelu(v, np.array(n[10] * n[11]), n[0], 1.0, *n[1:10])


def quantized_hard_swish(v: Array, scale: float, *n: float) -> Array:
    fine = away(v / scale) * 128
    result = away(fine * n[0] / 2.0**15)
    gate, shift = fine, int(n[3])
    if shift > 0:
        gate = np.clip(gate * 2.0 ** (shift - 1), -32768, 32767)
    gate = away(gate * n[2] / 2.0**15)
    gate = np.clip(gate * 2.0, -32768, 32767) if shift > 0 else away(gate * 2.0**shift)
    product = (gate + 32768) / 2 * result / 32768
    return _cut(away(product / 2.0 ** n[1]), n[4:7])


def even_sum(v: Array, e: Array, *n: float) -> Array:
    (a, a_zero, a_factor), (b, b_zero, b_factor), start = n[:3], n[3:6], n[6]
    first, second = (e, v) if n[11] else (v, e)
    left, right = away(first / a) + a_zero, away(second / b) + b_zero
    return _cut(even(left * a_factor + right * b_factor + start) - n[8], (n[7], *n[9:11]))


def times_factor(v: Array, unit: float, high: float, low: float, shift: float,
                 result: float) -> Array:  # fmt: skip
    return np.asarray(away(away(v / unit) * factor(high, low, shift)) * result)


def quantized_factor(v: Array, *n: float) -> Array:
    """Multiplies by a quantized factor; `n` holds the scale of `v`, the factor (high part, low
    part, shift) and the output levels."""
    return _cut(away(away(v / n[0]) * factor(*n[1:4])), n[4:7])


def quantized_factor_once(v: Array, unit: float, *n: float) -> Array:
    """Multiplies by a factor with one rounding; `n` holds the output levels, the factor's fraction
    in two parts, and its power of two."""
    return _cut(away(away(v / unit) * (n[3] + n[4]) * n[5]), n[:3])


def _reversed(op: str) -> Callable[[Array, Array], Array]:
    return lambda v, e: REFERENCES[op](e, v)


QUANTIZED: dict[str, Callable[..., Array]] = {
    "quantized_sum": quantized_sum, "even_sum": even_sum,
    "int16_sum": int16_sum, "int16_product": int16_product, "digit": digit,
    "quantized_quotient": quantized_quotient,
    "quantized_squared_difference": quantized_squared_difference,
    "quantized_prelu": quantized_prelu, "quantized_leaky_relu": quantized_leaky_relu,
    "quantized_hard_swish": quantized_hard_swish,
}  # fmt: skip
# Further epilogue ops; `REFERENCES` has the others under their names.
STEPS: dict[str, Callable[..., Array]] = {
    **QUANTIZED, "fake_quant": fake_quant, "fake_quant_even": fake_quant_even,
    "quantized_factor": quantized_factor, "quantized_factor_once": quantized_factor_once,
    "fake_quant_channels": fake_quant_channels,
    "requantize": requantize, "requantize_small": requantize,
    "requantize_once": requantize, "rescale": rescale,
    **{f"reverse_{op}": _reversed(op) for op in ("sub", "div", "pow", "maximum", "minimum")},
    "maximum_nan": np.maximum, "minimum_nan": np.minimum,
    "whole": np.rint, "there": lambda v, e: np.where(e != 0, v, 0.0),
}  # fmt: skip
PAIRS = {"add", "sub", "mul", "maximum", "minimum", "prelu", "div", "pow", "atan2",
         "squared_difference", *(name for name in STEPS if name.startswith("reverse_")),
         "maximum_nan", "minimum_nan"}  # fmt: skip


def apply(graph: Graph, each: EpilogueOp, value: Array, operand: Array | None) -> Array:
    """Returns the result of an epilogue op; `operand` is the value of its tensor, if it has one."""
    function = STEPS.get(each.op) or REFERENCES[each.op]
    numbers = each.parameters
    if operand is not None:
        found = function(value, operand, *numbers)
    elif each.op in PAIRS:
        found = function(value, np.float64(numbers[0]), *numbers[1:])
    else:
        found = function(value, *numbers)
    return np.asarray(found).reshape(value.shape)
