"""Builders for matrix products and normalizations."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, asks, needs
from tflgpu_plugin.ops.normalization import groups_pay
from tflgpu_plugin.providers import Builder

SQUARE = needs(
    "shape.unsupported",
    "Square matrices of 1 to 4 rows.",
    lambda e: e.rank() > 1 and e.shape()[-1] == e.shape()[-2] in range(1, 5),
)


def gemm(e: Builder) -> int:
    """Builds Gemm-13: Y = alpha * A' * B' + beta * C."""
    a, b = e.x(0), e.x(1)
    alpha, beta = e.number("alpha", 1.0), e.number("beta", 1.0)
    if e.integer("transA"):
        a = e.transpose(a, (1, 0))
    c = e.get(2) if beta else None
    if e.constant(b) is None:
        y = e.times(e.add("matmul", a, b, transpose_b=bool(e.integer("transB"))), alpha)
        return y if c is None else e.add("add", y, _scaled(e, c, beta))
    straight = bool(e.integer("transB"))
    weights = e.derived(
        b, "gemm", straight, alpha, make=lambda data: _gemm_weights(data, straight, alpha),
        axis=(e.scales_axis(b) if straight else 1 - e.scales_axis(b)) if alpha == 1 else None,
    )  # fmt: skip
    outputs = e.shape(weights)[0]
    bias = None if c is None else _bias(e, c, outputs, beta)
    y = e.add("fully_connected", a, weights, bias)
    return y if c is None or bias is not None else e.add("add", y, _scaled(e, c, beta))


def _gemm_weights(data: Array, straight: bool, alpha: float) -> Array:
    """Returns alpha times the weights as [outputs, inputs]; `straight`: they are so already."""
    weights = data if straight else data.T
    return weights if alpha == 1 else weights * np.float32(alpha)


def _bias(e: Builder, c: int, outputs: int, beta: float) -> int | None:
    """Returns beta * C as one value per output; None if C is not constant or has other values."""
    data = e.constant(c)
    if data is None or data.size not in (1, outputs) or (data.size > 1 and data.shape[-1] == 1):
        return None
    return e.derived(
        c, "bias", outputs, beta,
        make=lambda d: (np.broadcast_to(d.reshape(-1), (outputs,)) * beta).astype(np.float32),
    )  # fmt: skip


def _scaled(e: Builder, c: int, beta: float) -> int:
    if beta == 1 or e.constant(c) is None:
        return e.times(c, beta)
    return e.derived(c, "scaled", beta, make=lambda d: (d * beta).astype(np.float32))


def matmul(e: Builder) -> int:
    """Builds MatMul: a batched matrix product, or one with a vector."""
    a, b = e.x(0), e.x(1)
    weights = e.tensors.table[b]
    if weights.quantization is not None and weights.data is not None and e.rank(b) == 2:
        if e.shape(a)[-1:] == e.shape(b)[:1]:
            return _dense(e, a, b)
    if e.rank(a) >= 2 and e.rank(b) >= 2:
        return e.add("matmul", a, b)
    return _vector_product(e, a, b)


def _dense(e: Builder, a: int, b: int) -> int:
    """Builds a product with quantized weights as a fully connected layer, which sums integers."""
    shape = e.shape(a)
    rows = e.reshape(a, (-1, shape[-1]))
    y = e.add("fully_connected", rows, e.transpose(b, (1, 0)), None)
    return e.reshape(y, (*shape[:-1], e.shape(b)[1]))


def _vector_product(e: Builder, a: int, b: int) -> int:
    """Builds a matrix product where `a` or `b` may be a vector: a matrix of one row (left) or one
    column (right), whose axis is removed from the result."""
    left, right = e.rank(a) == 1, e.rank(b) == 1
    a = e.reshape(a, (1, -1)) if left else a
    b = e.reshape(b, (-1, 1)) if right else b
    y = e.add("matmul", a, b)
    shape = list(e.shape(y))
    kept = shape[: -2 if left else -1] + ([] if right else shape[-1:])
    return e.reshape(y, kept if left or right else shape)


@asks("attribute.unsupported")
def moments_fit(e: Builder) -> bool:
    """Requires one type and an input of rank 2 or more in training mode, no mean and variance as
    results in other modes and before opset 14."""
    if not e.integer("training_mode"):
        return not (e.wants(1) or e.wants(2))
    alike = len({e.dtype(e.x(k)) for k in range(5)}) == 1
    return e.version >= 14 and alike and e.rank() > 1


def batch_norm(e: Builder) -> Any:
    """Builds BatchNormalization: x * s + bias - mean * s, where s = scale / sqrt(var + epsilon)."""
    if e.integer("training_mode"):
        return _trained(e)
    x = e.x()
    shape = (-1, *(1,) * (e.rank(x) - 2))
    known = [e.constant(e.x(k)) for k in range(1, 5)]
    if any(value is None for value in known):
        return _open_batch_norm(e, shape)
    scale, bias, mean, variance = (np.asarray(value, np.float64) for value in known)
    factor = scale / np.sqrt(variance + e.number("epsilon", 1e-5))
    y = e.add("mul", x, e.const(factor.reshape(shape)))
    return e.add("add", y, e.const((bias - mean * factor).reshape(shape)))


def _trained(e: Builder) -> list[int]:
    """Builds a normalization by the mean and the variance of the batch; the other results are the
    given ones moved towards these by 1 - momentum."""
    axes, kept = e.index([0, *range(2, e.rank())]), float(np.float32(e.number("momentum", 0.9)))
    mean = e.exact(e.add("mean", e.x(), axes, keep_dims=True))
    away = e.exact(e.add("sub", e.x(), mean))
    variance = e.exact(e.add("mean", e.add("mul", away, away), axes, keep_dims=True))
    scale, bias = (e.reshape(e.x(k), e.shape(mean)[1:]) for k in (1, 2))
    root = e.add("rsqrt", e.add("add", variance, e.number("epsilon", 1e-5)))
    y = e.add("add", e.add("mul", away, e.add("mul", scale, root)), bias)
    pairs = ((e.x(3), mean), (e.x(4), variance))
    moved = (e.add("add", e.times(old, kept), e.times(e.reshape(new, (-1,)), 1 - kept))
             for old, new in pairs)  # fmt: skip
    return [y, *moved]


def _open_batch_norm(e: Builder, shape: tuple[int, ...]) -> int:
    """Builds (x - mean) * s + bias with parameters that are not all constant. `shape` broadcasts
    them to x by channel."""
    scale, bias, mean, variance = (e.reshape(e.x(k), shape) for k in range(1, 5))
    shifted = e.add("add", variance, e.number("epsilon", 1e-5))
    factor = e.add("mul", scale, e.add("rsqrt", shifted))
    return e.add("add", e.add("mul", e.add("sub", e.x(), mean), factor), bias)


def layer_norm(e: Builder) -> list[int | None]:
    """Builds LayerNormalization over `axis` and all axes after it. It becomes several ops if output
    1 or 2 is read (mean, inverse standard deviation)."""
    x, bias, epsilon = e.x(), e.get(2), e.number("epsilon", 1e-5)
    axis = e.axis(e.integer("axis", -1), e.rank())
    if not (e.wants(1) or e.wants(2)):
        y = e.add("layer_normalization", x, e.x(1), bias, axis=axis, epsilon=epsilon)
        return [y, None, None]
    mean = e.add("mean", x, e.index(range(axis, e.rank())), keep_dims=True)
    y, inverse = e.run("RMSNormalization", e.add("sub", x, mean), e.x(1))
    return [e.plus(y, bias), mean, inverse]


def group_norm(e: Builder) -> int:
    """Builds GroupNormalization; scale and bias are per group before opset 21."""
    x, groups, epsilon = e.x(), e.integer("num_groups", 1), e.number("epsilon", 1e-5)
    shape = e.shape(x)
    if e.version < 21:
        y = _rows_of_groups(e, x, groups, epsilon)
        y = e.add("mul", y, e.reshape(e.x(1), (groups, 1)))
        return e.reshape(e.add("add", y, e.reshape(e.x(2), (groups, 1))), shape)
    spread = (shape[1], *(1,) * (len(shape) - 2))
    y = e.add("mul", normalized_groups(e, x, groups, epsilon), e.reshape(e.x(1), spread))
    return e.add("add", y, e.reshape(e.x(2), spread))


def normalized_groups(e: Builder, x: int, groups: int, epsilon: float) -> int:
    """Returns `x` [N, C, spatial...] normalized to mean 0 and variance 1 per group of channels."""
    shape = e.shape(x)
    if groups_pay((shape[0], *shape[2:], shape[1]), groups):
        return e.image("standardize_groups", x, groups=groups, epsilon=epsilon)
    return e.reshape(_rows_of_groups(e, x, groups, epsilon), shape)


def _rows_of_groups(e: Builder, x: int, groups: int, epsilon: float) -> int:
    """Returns `x` with each group of channels normalized, as [N, groups, elements]."""
    rows = e.reshape(x, (e.shape(x)[0], groups, -1))
    return e.add("layer_normalization", rows, None, None, axis=2, epsilon=epsilon)


def rms_norm(e: Builder) -> list[int]:
    """Builds RMSNormalization over `axis` and all axes after it. Returns [x * factor * scale,
    factor], where factor = 1 / sqrt(mean(x^2) + epsilon)."""
    rank = e.rank()
    axes = e.index(range(e.axis(e.integer("axis", -1), rank), rank))
    square = e.add("reduce_mean_square", e.x(), axes, keep_dims=True)
    factor = e.add("rsqrt", e.add("add", square, e.number("epsilon", 1e-5)))
    return [e.add("mul", e.add("mul", e.x(), factor), e.x(1)), factor]


def mean_variance(e: Builder) -> int:
    """Builds MeanVarianceNormalization: (x - mean) / standard deviation. ONNX adds 1e-9 to the
    deviation; onnxruntime does not, and returns NaN where all values are equal."""
    axes = e.index(e.integers("axes") or (0, 2, 3))
    centred = e.add("sub", e.x(), e.add("mean", e.x(), axes, keep_dims=True))
    variance = e.add("reduce_mean_square", centred, axes, keep_dims=True)
    return e.add("div", centred, e.add("sqrt", variance))


def det(e: Builder) -> int:
    """Builds Det by Laplace expansion along rows, from the last to the first: a minor of rows k and
    below is the signed sum of elements of row k times minors of the rows below."""
    *outer, size, _ = e.shape()
    x = e.reshape(e.x(), (prod(outer), size * size))
    minors = e.add("gather", x, e.index(range(size * size - size, size * size)), axis=1)
    known: list[tuple[int, ...]] = [(column,) for column in range(size)]
    for row in reversed(range(size - 1)):
        wanted = list(combinations(range(size), size - row))
        terms = [(c, k, known.index((*own[:k], *own[k + 1 :]))) for own in wanted
                 for k, c in enumerate(own)]  # fmt: skip
        column, nth, minor = np.array(terms).T
        taken = e.add("gather", x, e.index(row * size + column), axis=1)
        others = e.add("gather", minors, e.index(minor), axis=1)
        signed = e.add("mul", e.add("mul", taken, others), e.const((-1.0) ** nth))
        parts = e.reshape(signed, (prod(outer), len(wanted), size - row))
        minors, known = e.add("reduce_sum", parts, e.index([2]), keep_dims=False), wanted
    return e.reshape(minors, outer)
