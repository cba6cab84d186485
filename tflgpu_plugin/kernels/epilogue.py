"""The epilogue ops, by name: WGSL applied to a value before a kernel stores it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tflgpu_plugin.ir.graph import EpilogueOp

# WGSL of each epilogue op: `v` (vec4f) is the value, `e` the second operand if any, `$0`, `$1` ...
# the parameters (f32 in the uniform block, so that all values share a pipeline). Formulas are those
# of the hosts' kernels. How max, min, clamp and equivalent comparisons treat NaN is up to the
# driver: where hosts keep NaN, `keep_nan` does, too.
EPILOGUE_OPS: dict[str, str] = {
    "relu": "keep_nan(v, max(v, vec4f(0.0)))",
    "relu6": "cut(v, 0.0, 6.0)",
    "relu_n1_to_1": "cut(v, -1.0, 1.0)",
    "logistic": "logistic(v)",
    "tanh": "tanh_exact(v)",
    "exp": "exp_exact(v)",
    "add": "v + e",
    "sub": "v - e",
    "reverse_sub": "e - v",
    "mul": "v * e",
    # TFLite keeps NaN of the second operand only, ONNX of either one (the attribute `nan`).
    "maximum": "second_nan(v, e, max(v, e))",
    "reverse_maximum": "second_nan(e, v, max(v, e))",
    "maximum_nan": "keep_nan(v, keep_nan(e, max(v, e)))",
    "minimum": "second_nan(v, e, min(v, e))",
    "reverse_minimum": "second_nan(e, v, min(v, e))",
    "minimum_nan": "keep_nan(v, keep_nan(e, min(v, e)))",
    "prelu": "select(v * e, v, v >= vec4f(0.0))",
    "div": "divided_exactly(v, e)",
    "reverse_div": "divided_exactly(e, v)",
    "pow": "pow_exact(v, e)",
    "reverse_pow": "pow_exact(e, v)",
    "atan2": "atan2_exact(v, e)",
    "squared_difference": "(v - e) * (v - e)",
    "abs": "abs(v)",
    "neg": "-v",
    "ceil": "ceil(v)",
    "floor": "floor(v)",
    "round": "round(v)",  # rounds halves to even
    "sign": "select(sign(v), v, is_nan(v))",
    "sqrt": "root(v)",
    "rsqrt": "1.0 / root(v)",
    "square": "v * v",
    "cube": "v * v * v",
    "reciprocal": "1.0 / v",
    "log": "log_exact(v)",
    "sin": "sine(v, 0)",
    "cos": "sine(v, 1)",
    "tan": "sine(v, 0) / sine(v, 1)",
    "asin": "asin_exact(v)",
    "acos": "acos_exact(v)",
    "atan": "atan_exact(v)",
    "sinh": "sinh_exact(v)",
    "cosh": "cosh_exact(v)",
    "asinh": "asinh_exact(v)",
    "acosh": "acosh_exact(v)",
    "atanh": "atanh_exact(v)",
    "erf": "erf_exact(v)",
    "gelu": "gelu_exact(v)",
    "gelu_tanh": "gelu_by_tanh(v)",
    "elu": "select($0 * expm1_exact(v), v, v >= vec4f(0.0))",
    "selu": "$1 * select($0 * expm1_exact(v), v, v >= vec4f(0.0))",
    "celu": "select($0 * expm1_exact(v / $0), v, v >= vec4f(0.0))",
    "leaky_relu": "select(v * $0, v, v >= vec4f(0.0))",
    "thresholded_relu": "select(vec4f(0.0), v, v > vec4f($0))",
    "clip": "cut(v, $0, $1)",
    "hard_sigmoid": "cut($0 * v + $1, 0.0, 1.0)",
    "hard_swish": "v * (cut(v + 3.0, 0.0, 6.0) * 0.16666667)",
    "swish": "v * logistic($0 * v)",
    "softplus": "softplus_exact(v)",
    "softsign": "v / (1.0 + abs(v))",
    "mish": "mish_exact(v)",
    "shrink": "select(select(vec4f(0.0), v - $1, v > vec4f($0)), v + $1, v < vec4f(-$0))",
    "is_nan": "bool_as_f32(is_nan(v))",
    "is_infinite": "bool_as_f32(is_infinite(v) & ((v < vec4f(0.0) & vec4<bool>($0 != 0.0)) "
    "| (v > vec4f(0.0) & vec4<bool>($1 != 0.0))))",
    "fake_quant": "fake_quantized(v, vec4f($3), $0, $1, $2, $4)",
    "fake_quant_even": "cut(nearest_even_units(v, $0), $1, $2) * $0",
    "quantized_sum": "quantized_sum(v, e, vec4f($0, $1, $2, $3), vec4f($4, $5, $6, $7), "
    "vec4f($8, $9, $10, $11), $12, $13)",
    "int16_sum": "sum_in_fixed_point(v, e, vec4f($0, $1, $2, $3), vec4f($4, $5, $6, $7), "
    "vec4f($8, $9, $10, $11), $12, $13, u32($14))",
    "int16_product": "int16_product(v, e, vec2f($0, $1), vec3f($2, $3, $4), vec3f($5, $6, $7))",
    "quantized_quotient": "quantized_quotient(v, e, vec2f($0, $1), vec3f($2, $3, $4), "
    "vec4f($5, $6, $7, $8))",
    "digit": "int16_digit(v, $0, u32($1), u32($2), $3 != 0.0)",
    "whole": "round(v)",  # of a sum of integers, which no other way of adding may replace
    "even_sum": "even_sum(v, e, vec3f($0, $1, $2), vec3f($3, $4, $5), $6, vec4f($7, $8, $9, $10), "
    "$11)",
    "quantized_squared_difference": "quantized_square(v, e, vec4f($0, $1, $2, $3), "
    "vec4f($4, $5, $6, $7), vec4f($8, $9, $10, $11), $12, $13)",
    "quantized_prelu": "quantized_sides(v, e, vec2f($0, $1), vec3f($2, $3, $4), vec3f($5, $6, $7), "
    "vec3f($8, $9, $10), 1.0)",
    "quantized_leaky_relu": "quantized_sides(v, vec4f($10), vec2f($0, 1.0), vec3f($1, $2, $3), "
    "vec3f($4, $5, $6), vec3f($7, $8, $9), $11)",
    "quantized_hard_swish": "quantized_swish(v, $0, vec2i(i32($1), i32($2)), "
    "vec2i(i32($3), i32($4)), vec3f($5, $6, $7))",
    "requantize": "requantized(v, $e, $0, $1, $2, $3)",
    "requantize_small": "requantized_small(v, $e, $0, $1, $2, $3)",
    "requantize_once": "requantized_once(v, $e, $0, $1, $2, $3)",
    "rescale": "rescaled(v, $e, $0, $1, $2, $3)",
    "fake_quant_channels": "fake_quantized_up(v, e, $0, $1, $2)",
    "quantized_factor": "quantized_factor(v, $0, vec3f($1, $2, $3), vec3f($4, $5, $6))",
    "quantized_factor_once": "requantized_once(v, vec4f(), vec4f(), vec4f($4), vec4f($5), "
    "vec4f($6), $0, $1, $2, $3)",
    "there": "select(vec4f(0.0), v, e != vec4f(0.0))",  # padding channels become zero
    "logical_not": "1.0 - v",  # booleans are 0.0 and 1.0
    "to_bfloat16": "to_bfloat16(v)",
    "from_bfloat16": "from_bfloat16(v)",
    "to_float8": "to_float8(v, vec3u(vec3f($0, $1, $2)), u32($3), u32($4))",
    "from_float8": "from_float8(v, vec3u(vec3f($0, $1, $2)), $3 != 0.0, $4 != 0.0)",
}

# Steps that take the place of the first one in kernels that sum integers: `value` (vec4i) is the
# sum, and the result (vec4i) the bytes of its levels. Lowering makes them; their rows are int32.
SUMS: dict[str, str] = {
    "requantize_sums": "requantized_sums(value, $e, $1, $2)",
    "requantize_small_sums": "requantized_small_sums(value, $e, $1, $2)",
    "rescale_sums": "rescaled_sums(value, $e, $0, $1, $2)",
}
# Their parameters: zero point, least and most byte, scale of the levels.
SUMS_PARAMETERS: tuple[type, ...] = (np.int32, np.int32, np.int32, float)

# Number of rows, for ops whose operand is a matrix [rows, channels], or [slices, 8, 4] for `SUMS`.
ROWS = {"requantize": 5, "requantize_small": 5, "requantize_once": 5, "rescale": 3,
        "requantize_sums": 5, "requantize_small_sums": 5, "rescale_sums": 2}  # fmt: skip

EXACT = {*ROWS, "whole"}

_PARAMETER = re.compile(r"\$(\d+)")


def sums_integers(epilogue: Iterable[EpilogueOp]) -> bool:
    """Whether the steps follow a sum of integers, which must be exact: float16 sums and Winograd
    transforms are not."""
    return any(step.op in EXACT for step in epilogue)


@dataclass(frozen=True)
class FusedEpilogueOp:
    """An `EpilogueOp` as the preamble needs it: `operand` names a vec4 operand, `spread` is how it
    is indexed ("same": like the output, "channel": by slice, "scalar": lane 0 of vector 0).
    `fields` are the names of the dispatch's parameters that hold the op's own parameters (without
    an operand: the second operand of a binary op)."""

    op: str
    operand: str | None = None
    spread: str = "same"
    fields: tuple[str, ...] = ()


def expression(step: str, fields: Sequence[str] = ()) -> str:
    """Returns WGSL of one of `EPILOGUE_OPS` with its parameters in these fields of the uniform
    block."""
    return filled(EPILOGUE_OPS.get(step) or SUMS[step], fields)


def filled(wgsl: str, fields: Sequence[str]) -> str:
    """Returns WGSL with these fields of the uniform block as its parameters `$0`, `$1` ..."""
    return _PARAMETER.sub(lambda found: f"p.{fields[int(found[1])]}", wgsl)


def parameter_count(wgsl: str) -> int:
    """Returns how many of the parameters `$0`, `$1` ... are in WGSL."""
    return len({*_PARAMETER.findall(wgsl)})


def parameters(step: EpilogueOp) -> list[object]:
    """Returns the parameters of a step in the types that its WGSL expects: float32, but for those
    of `SUMS`."""
    kinds = SUMS_PARAMETERS if step.op in SUMS else (float,) * len(step.parameters)
    return [kind(value) for kind, value in zip(kinds, step.parameters, strict=True)]


def pairwise(step: str) -> bool:
    """Whether a step of `EPILOGUE_OPS` has a second operand."""
    return re.search(r"\be\b", EPILOGUE_OPS[step]) is not None
