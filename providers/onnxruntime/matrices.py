"""Rows for matrix products and normalizations."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.graph import Array

from .expansion import Expansion, Unreadable


def gemm(e: Expansion) -> int:
    """Y = alpha * A' * B' + beta * C (Gemm-13)."""
    a, b = e.x(0), e.x(1)
    if e.rank(a) != 2 or e.rank(b) != 2:
        raise Unreadable("Gemm takes matrices.")
    alpha, beta = e.number("alpha", 1.0), e.number("beta", 1.0)
    if e.integer("transA"):
        a = e.transpose(a, (1, 0))
    c = e.x(2) if e.has(2) and beta else None
    if e.constant(b) is None:
        y = e.add("matmul", a, b, transpose_a=False, transpose_b=bool(e.integer("transB")))
        y = y if alpha == 1 else e.add("mul", y, e.const(alpha))
        return y if c is None else e.add("add", y, _scaled(e, c, beta))
    straight = bool(e.integer("transB"))
    weights = e.derived(
        b, "gemm", straight, alpha, make=lambda data: _gemm_weights(data, straight, alpha)
    )
    outputs = e.shape(weights)[0]
    bias = None if c is None else _bias(e, c, outputs, beta)
    y = e.add("fully_connected", a, weights, bias, keep_num_dims=False, activation="none")
    return y if c is None or bias is not None else e.add("add", y, _scaled(e, c, beta))


def _gemm_weights(data: Array, straight: bool, alpha: float) -> Array:
    """[outputs, inputs], scaled."""
    return (data if straight else data.T) * np.float32(alpha)


def _bias(e: Expansion, c: int, outputs: int, beta: float) -> int | None:
    """C as one value per output, None when it is more than that."""
    data = e.constant(c)
    if data is None or data.size not in (1, outputs) or (data.size > 1 and data.shape[-1] == 1):
        return None
    return e.derived(
        c, "bias", outputs, beta,
        make=lambda d: (np.broadcast_to(d.reshape(-1), (outputs,)) * beta).astype(np.float32),
    )  # fmt: skip


def _scaled(e: Expansion, c: int, beta: float) -> int:
    if beta == 1:
        return c
    if e.constant(c) is not None:
        return e.derived(c, "scaled", beta, make=lambda d: (d * beta).astype(np.float32))
    return e.add("mul", c, e.const(beta))


def matmul(e: Expansion) -> int:
    """A product; a constant matrix on the right makes it a fully connected layer."""
    a, b = e.x(0), e.x(1)
    if e.constant(b) is not None and e.rank(b) == 2 and 2 <= e.rank(a) <= 4:
        weights = e.transpose(b, (1, 0))
        return e.add("fully_connected", a, weights, None, keep_num_dims=True, activation="none")
    if e.rank(a) >= 2 and e.rank(b) >= 2:
        return e.add("matmul", a, b, transpose_a=False, transpose_b=False)
    return _vector_product(e, a, b)


def _vector_product(e: Expansion, a: int, b: int) -> int:
    """A vector is a matrix of one row (left) or one column (right), and its axis goes again."""
    left, right = e.rank(a) == 1, e.rank(b) == 1
    a = e.reshape(a, (1, -1)) if left else a
    b = e.reshape(b, (-1, 1)) if right else b
    y = e.add("matmul", a, b, transpose_a=False, transpose_b=False)
    shape = list(e.shape(y))
    kept = shape[: -2 if left else -1] + ([] if right else shape[-1:])
    return e.reshape(y, kept if left or right else shape)


def batch_normalization(e: Expansion) -> int:
    """Inference: x * s + t with s = scale / sqrt(var + epsilon), t = bias - mean * s."""
    x = e.x()
    if e.integer("training_mode") or any(e.wants(k) for k in range(1, len(e.host.outputs))):
        raise Unreadable("BatchNormalization in training mode is not supported.")
    scale, bias, mean, variance = (
        e.value(k, name).astype(np.float64)
        for k, name in enumerate(("The scale", "The bias", "The mean", "The variance"), 1)
    )
    factor = scale / np.sqrt(variance + e.number("epsilon", 1e-5))
    shape = (-1, *(1,) * (e.rank(x) - 2))
    y = e.add("mul", x, e.const(factor.reshape(shape)))
    return e.add("add", y, e.const((bias - mean * factor).reshape(shape)))
