"""What internal ops mean, in numpy: functions of float64 arrays and the node's attributes."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, inf
from typing import Any

import numpy as np

from tflgpu_plugin.graph import Array

_erf = np.vectorize(erf, otypes=[np.float64])


def _clip(x: Array, low: float | None = None, high: float | None = None) -> Array:
    return np.clip(x, -inf if low is None else low, inf if high is None else high)


def _negative_part(x: Array, alpha: float) -> Array:
    return alpha * np.expm1(np.minimum(x, 0))


def _shrink(x: Array, lambd: float = 0.5, bias: float = 0.0) -> Array:
    return np.where(x > lambd, x - bias, np.where(x < -lambd, x + bias, 0))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _infinite(x: Array, negative: float = 1, positive: float = 1) -> Array:
    return (np.isneginf(x) & bool(negative)) | (np.isposinf(x) & bool(positive))


UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "neg": np.negative, "ceil": np.ceil, "floor": np.floor, "round": np.round,
    "sign": np.sign, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square,
    "cube": lambda x: x**3, "reciprocal": lambda x: 1 / x, "log": np.log,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "elu": lambda x, alpha=1.0: np.where(x < 0, _negative_part(x, alpha), x),
    "selu": lambda x, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875:
        gamma * np.where(x < 0, _negative_part(x, alpha), x),
    "celu": lambda x, alpha=1.0: np.where(x < 0, _negative_part(x / alpha, alpha), x),
    "leaky_relu": lambda x, alpha=0.01: np.where(x < 0, alpha * x, x),
    "thresholded_relu": lambda x, alpha=1.0: np.where(x > alpha, x, 0),
    "clip": _clip,
    "hard_sigmoid": lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "swish": lambda x, alpha=1.0: x / (1 + np.exp(-alpha * x)),
    "softplus": _softplus, "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(_softplus(x)), "shrink": _shrink,
    "is_nan": np.isnan, "is_infinite": _infinite, "logical_not": np.logical_not,
}  # fmt: skip

BINARY: dict[str, Callable[..., Any]] = {
    "div": np.divide, "pow": np.power, "squared_difference": lambda a, b: (a - b) ** 2,
    "floor_div": np.floor_divide, "floor_mod": np.mod, "fmod": np.fmod,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "equal": np.equal,
    "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "where": np.where,
}  # fmt: skip

MOVEMENT: dict[str, Callable[..., Any]] = {
    "transpose": lambda x, perm: np.transpose(x, perm),
}


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Array, axes: Array, keep_dims: bool) -> Any:
        where = {"axis": tuple(int(a) for a in axes.reshape(-1)), "keepdims": keep_dims}
        return function(x, **where)

    return reduced


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max, "reduce_min": np.min,
    "reduce_l1": lambda x, **w: np.sum(np.abs(x), **w),
    "reduce_l2": lambda x, **w: np.sqrt(np.sum(x * x, **w)),
    "reduce_sum_square": lambda x, **w: np.sum(x * x, **w),
    "reduce_mean_square": lambda x, **w: np.mean(x * x, **w),
    "reduce_log_sum": lambda x, **w: np.log(np.sum(x, **w)),
    "reduce_log_sum_exp": lambda x, **w: np.log(np.sum(np.exp(x), **w)),
}  # fmt: skip


def _softmax(x: Array, beta: float = 1.0, axis: int = -1) -> Array:
    e = np.exp(beta * (x - x.max(axis, keepdims=True)))
    return np.asarray(e / e.sum(axis, keepdims=True))


def _log_softmax(x: Array, axis: int = -1) -> Array:
    below = x - x.max(axis, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis, keepdims=True)))


def _matmul(a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    a = a.swapaxes(-1, -2) if transpose_a else a
    return np.matmul(a, b.swapaxes(-1, -2) if transpose_b else b)


def _normalized(x: Array, scale: Array | None, bias: Array | None, axes: tuple[int, ...],
                epsilon: float) -> Array:  # fmt: skip
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + epsilon)
    return np.asarray(y * (1 if scale is None else scale) + (0 if bias is None else bias))


def _instance(x: Array, scale: Array | None = None, bias: Array | None = None,
              epsilon: float = 1e-5) -> Array:  # fmt: skip
    return _normalized(x, scale, bias, tuple(range(1, x.ndim - 1)), epsilon)


def _layer(x: Array, scale: Array | None = None, bias: Array | None = None, axis: int = -1,
           epsilon: float = 1e-5) -> Array:  # fmt: skip
    return _normalized(x, scale, bias, tuple(range(axis % x.ndim, x.ndim)), epsilon)


NORMALIZATIONS: dict[str, Callable[..., Any]] = {
    "softmax": _softmax, "log_softmax": _log_softmax,
    "instance_normalization": _instance, "layer_normalization": _layer,
}  # fmt: skip

REFERENCES: dict[str, Callable[..., Any]] = {
    **NORMALIZATIONS,
    "matmul": _matmul,
    **UNARY, **BINARY, **MOVEMENT,
    **{name: _reduction(function) for name, function in REDUCTIONS.items()},
}  # fmt: skip
