"""Builders for the fused operators that onnxruntime's optimizer writes into models that it saves:
each replaces several operators of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from tflgpu_plugin.providers import Builder

ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Elu", "LeakyRelu",
               "ThresholdedRelu", "HardSigmoid")  # fmt: skip
CUT = "Clip"  # its parameters are the lower and the upper bound


def _activated(e: Builder, y: int) -> int:
    """Returns `y` after the activation that the node names, `y` itself without one."""
    name, given = e.text("activation", ""), [float(number) for number in parameters(e)]
    if name == CUT and len(given) == 2:
        return e.add("clip", y, low=given[0], high=given[1])
    attributes = dict(zip(("alpha", "beta"), given, strict=False))
    made: int = e.run(name, y, attributes=attributes) if name else y
    return made


def conv(e: Builder) -> int:
    """Builds FusedConv: activation(Conv(x, w, b) + z), where z is input 3."""
    y = e.run("Conv", *e.inputs[:3])
    return _activated(e, e.add("add", y, e.x(3)) if e.has(3) else y)


def gemm(e: Builder) -> int:
    """Builds FusedGemm: a Gemm and an activation."""
    return _activated(e, e.run("Gemm", *e.inputs))


def parameters(e: Builder) -> Sequence[float]:
    """Returns the parameters of the activation: activation_params of FusedConv, or activation_alpha
    and activation_beta of FusedGemm."""
    given = e.host.attributes
    named = [given[name] for name in ("activation_alpha", "activation_beta") if name in given]
    found: Sequence[float] = given.get("activation_params", named)
    return found


def matmul(e: Builder) -> int:
    """Builds FusedMatMul: alpha * A' x B', with transposes by transA, transB, transBatchA and B."""
    factors = [_batch_last(e, e.x(k), bool(e.integer(f"transBatch{'AB'[k]}"))) for k in (0, 1)]
    swaps = [bool(e.integer(f"trans{'AB'[k]}")) and e.rank(t) > 1 for k, t in enumerate(factors)]
    if min(map(e.rank, factors)) > 1:
        y = e.add("matmul", *factors, transpose_a=swaps[0], transpose_b=swaps[1])
    else:  # a vector has no axes to swap
        turned = [_swapped(e, t) if swap else t for t, swap in zip(factors, swaps, strict=True)]
        y = e.run("MatMul", *turned)
    return e.times(y, e.number("alpha", 1.0))


def _batch_last(e: Builder, x: int, moved: bool) -> int:
    """Returns `x` with its first axis moved to the second-last position if `moved`."""
    rank = e.rank(x)
    return e.transpose(x, (*range(1, rank - 1), 0, rank - 1)) if moved and rank > 2 else x


def _swapped(e: Builder, x: int) -> int:
    rank = e.rank(x)
    return e.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def gelu(e: Builder) -> int:
    """Builds GELU(x + bias); the bias is optional."""
    return e.add(e.row.op, e.plus(e.x(0), e.get(1)))


def skip_layer_norm(e: Builder) -> list[int | None]:
    """Builds SkipLayerNormalization: normalizes input + skip + bias, and returns the sum last."""
    total = e.plus(e.add("add", e.x(0), e.x(1)), e.get(4))
    made = e.run("LayerNormalization", total, e.x(2), e.get(3), attributes=_last(e))
    return [*made, total]


def skip_rms_norm(e: Builder) -> list[int | None]:
    """Builds SkipSimplifiedLayerNormalization: RMSNormalization of input + skip + bias; that sum is
    the last output."""
    total = e.plus(e.add("add", e.x(0), e.x(1)), e.get(3))
    y, inverse = e.run("RMSNormalization", total, e.x(2), attributes=_last(e))
    return [y, None, inverse, total]


def _last(e: Builder) -> dict[str, float]:
    """Returns the attributes of a normalization along the last axis, the default."""
    return {"epsilon": e.number("epsilon", 1e-12)}
