"""Rows for the operators that onnxruntime's own optimization writes into the models that it saves:
several operators of ONNX in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import matrices, windows
from .expansion import Expansion

# Names of the numbers of an activation in the order of the node's own, with their defaults.
NUMBERS: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "Relu": ("relu", ()),
    "Tanh": ("tanh", ()),
    "Sigmoid": ("logistic", ()),
    "Softplus": ("softplus", ()),
    "Softsign": ("softsign", ()),
    "Elu": ("elu", (("alpha", 1.0),)),
    "LeakyRelu": ("leaky_relu", (("alpha", 0.01),)),
    "ThresholdedRelu": ("thresholded_relu", (("alpha", 1.0),)),
    "HardSigmoid": ("hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
}
CUT = "Clip"  # its numbers are limits


def _activated(e: Expansion, y: int, given: Sequence[float]) -> int:
    """The result of the activation that the node names, with these numbers."""
    name = e.text("activation", "")
    if name == CUT and len(given) == 2:
        return e.add("clip", y, low=float(given[0]), high=float(given[1]))
    if not name:
        return y
    op, names = NUMBERS[name]
    values: dict[str, Any] = {key: default for key, default in names}
    values |= {key: float(n) for (key, _), n in zip(names, given, strict=False)}
    return e.add(op, y, **values)


def conv(e: Expansion) -> int:
    """FusedConv: a convolution, a further summand (input 3), an activation."""
    y = windows.conv(e.seen(*e.inputs[:3]))
    if e.has(3):
        y = e.add("add", y, e.x(3))
    return _activated(e, y, parameters(e))


def gemm(e: Expansion) -> int:
    """FusedGemm: a Gemm and an activation."""
    return _activated(e, matrices.gemm(e), parameters(e))


def parameters(e: Expansion) -> Sequence[float]:
    """The numbers of the activation, as FusedConv or FusedGemm has them."""
    given = e.host.attributes
    named = [given[name] for name in ("activation_alpha", "activation_beta") if name in given]
    found: Sequence[float] = given.get("activation_params", named)
    return found


def matmul(e: Expansion) -> int:
    """FusedMatMul: a product of factors whose axes changed place, times a number."""
    factors = [_batch_last(e, e.x(k), bool(e.integer(f"transBatch{'AB'[k]}"))) for k in (0, 1)]
    swaps = [bool(e.integer(f"trans{'AB'[k]}")) and e.rank(t) > 1 for k, t in enumerate(factors)]
    if min(map(e.rank, factors)) > 1:
        y = e.add("matmul", *factors, transpose_a=swaps[0], transpose_b=swaps[1])
    else:  # a vector has no axes to swap
        turned = [_swapped(e, t) if swap else t for t, swap in zip(factors, swaps, strict=True)]
        y = matrices.matmul(e.seen(*turned))
    alpha = e.number("alpha", 1.0)
    return y if alpha == 1 else e.add("mul", y, e.const(alpha))


def _batch_last(e: Expansion, x: int, moved: bool) -> int:
    """The first axis goes after all but the last one."""
    rank = e.rank(x)
    return e.transpose(x, (*range(1, rank - 1), 0, rank - 1)) if moved and rank > 2 else x


def _swapped(e: Expansion, x: int) -> int:
    rank = e.rank(x)
    return e.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def gelu(op: str, *, biased: bool = True) -> Callable[[Expansion], int]:
    """GELU, of a sum where there is a bias."""

    def row(e: Expansion) -> int:
        return e.add(op, e.add("add", e.x(0), e.x(1)) if biased and e.has(1) else e.x(0))

    return row


def quick_gelu(e: Expansion) -> int:
    """x * sigmoid(alpha * x)."""
    return e.add("swish", e.x(), alpha=e.number("alpha", 1.702))


def skip_layer_norm(e: Expansion) -> list[int | None]:
    """SkipLayerNormalization: of the sum of two inputs and a bias, which is a result, too."""
    bias = e.x(3) if e.has(3) else None
    total = _sum(e, 4)
    made = matrices.normalized(e, total, e.x(2), bias, axis=-1, epsilon=e.number("epsilon", 1e-12))
    return [*made, total]


def skip_rms_norm(e: Expansion) -> list[int | None]:
    """SkipSimplifiedLayerNormalization: the same without mean and shift."""
    total = _sum(e, 3)
    y, inverse = matrices.rms(e, total, e.x(2), axis=-1, epsilon=e.number("epsilon", 1e-12))
    return [y, None, inverse, total]


def _sum(e: Expansion, bias: int) -> int:
    total = e.add("add", e.x(0), e.x(1))
    return e.add("add", total, e.x(bias)) if e.has(bias) else total
