"""Builds MoE: each row of the input goes through the `k` of several experts (two dense layers) that
a router prefers, and their results are added with the router's shares as weights.

All experts compute all rows, and what was not chosen, which may be infinite, counts as 0; where few
rows choose from many experts, the weights of the chosen ones are gathered instead. As in
onnxruntime's CPU kernel, the last of equal experts is chosen, gelu is the tanh approximation, and
use_sparse_mixer changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, prod

from tflgpu_plugin.ir import asks, is_symbolic, needs
from tflgpu_plugin.providers import Builder

from .rearranging import cut

X, ROUTER, FIRST, FIRST_BIAS, SECOND, SECOND_BIAS = range(6)
# Attributes without effect: the first always, those of swiglu for another activation.
IGNORED = (
    "use_sparse_mixer", "activation_alpha", "activation_beta", "swiglu_fusion", "swiglu_limit"
)  # fmt: skip
SPARSE = 2  # experts for each choice from which on the chosen weights are gathered


@asks("activation.unsupported")
def activated(e: Builder) -> bool:
    """Requires the activation relu, gelu, silu or identity, or swiglu with swiglu_fusion 1."""
    name = e.text("activation_type", "relu")
    return name in ACTIVATIONS and (name != "swiglu" or e.integer("swiglu_fusion") == 1)


@asks("shape.mismatch")
def fitting(e: Builder) -> bool:
    """Requires rows, a router and two layers of weights whose shapes fit each other, and at most as
    many chosen experts as there are."""
    x, router, first, second = (e.shape(e.x(k)) for k in (X, ROUTER, FIRST, SECOND))
    if not (len(x) in (2, 3) and len(router) == 2 and len(first) == len(second) == 3):
        return False
    wide = second[2] * (2 if e.text("activation_type", "relu") == "swiglu" else 1)
    count = router[1]
    biases = ((FIRST_BIAS, (count, wide)), (SECOND_BIAS, (count, x[-1])))
    return (
        router[0] == prod(x[:-1])
        and first == (count, wide, x[-1])
        and second[:2] == (count, x[-1])
        and all(not e.has(k) or e.shape(e.x(k)) == shape for k, shape in biases)
        and 1 <= e.integer("k", 1) <= count
    )


UNGATED = needs(
    "input.unsupported",
    "No third layer.",
    lambda e: not any(map(e.has, range(SECOND_BIAS + 1, len(e.inputs)))),
)
NORMALIZED = needs(
    "host.ambiguous",
    "No float16 without normalize_routing_weights, for which onnxruntime's kernels disagree.",
    lambda e: e.dtype() != "f16" or e.integer("normalize_routing_weights") == 1,
)
MOE = (UNGATED, activated, fitting, NORMALIZED)


def moe(e: Builder) -> int:
    rows, wide = e.shape(e.x(ROUTER))[0], e.shape()[-1]
    chosen, shares = chosen_shares(e, bool(e.integer("normalize_routing_weights")))
    count, k = e.shape(e.x(ROUTER))[1], e.integer("k", 1)
    if not is_symbolic((rows,)) and SPARSE * rows * k <= count:
        x, axis = e.reshape(e.x(), (rows, 1, 1, wide)), 1
        layers = [_picked(e, position, chosen) for position in range(FIRST, SECOND_BIAS + 1)]
        weights = e.reshape(shares, (rows, k, 1, 1))
    else:
        x, axis = e.reshape(e.x(), (1, rows, wide)), 0
        layers = [_whole(e, position) for position in range(FIRST, SECOND_BIAS + 1)]
        dense = spread_shares(e, chosen, shares, count)
        weights = e.reshape(e.transpose(dense, (1, 0)), (count, rows, 1))
    hidden = ACTIVATIONS[e.text("activation_type", "relu")](e, _dense(e, x, *layers[:2]))
    y = e.add("mul", _dense(e, hidden, *layers[2:]), weights)
    unused = e.add("equal", weights, 0.0, dtype="bool")
    y = e.add("where", unused, 0.0, y, dtype=e.dtype(y))
    return e.reshape(e.add("reduce_sum", y, e.index([axis]), keep_dims=False), e.shape())


def spread_shares(e: Builder, chosen: int, shares: int, count: int) -> int:
    """Returns the share of each expert in each row, 0 where it is not chosen."""
    rows, k = e.shape(chosen)
    places = e.add("one_hot", chosen, e.index([count]), e.const([1]), e.const([0]),
                   dtype="f32", axis=2, wraps=False)  # fmt: skip
    spread = e.add("mul", places, e.reshape(shares, (rows, k, 1)))
    return e.add("reduce_sum", spread, e.index([1]), keep_dims=False)


def chosen_shares(e: Builder, normalized: bool) -> tuple[int, int]:
    """Returns the chosen experts of each row, and their shares. As in onnxruntime, all shares are 0
    where the router's numbers have NaN or no finite maximum."""
    router, k = e.x(ROUTER), e.integer("k", 1)
    count = e.shape(router)[1]
    turned = cut(e, router, [slice(None), slice(None, None, -1)])
    best, places = e.add_many("top_k", turned, e.index([k]), dtype=(e.dtype(router), "i32"),
                              axis=1, largest=True)  # fmt: skip
    chosen = e.add("sub", e.index([count - 1]), places)
    if normalized:
        shares = e.exact(e.add("softmax", best, axis=1, beta=1.0))
    else:
        shares = e.exact(e.add("softmax", router, axis=1, beta=1.0))
        shares = e.add("gather_elements", shares, chosen, axis=1)
    largest = e.add("reduce_max", router, e.index([1]), keep_dims=True)
    endless = e.add("equal", e.add("abs", largest), inf, dtype="bool")
    broken = e.add("logical_or", endless, e.add("is_nan", largest, dtype="bool"), dtype="bool")
    return chosen, e.add("where", broken, 0.0, shares, dtype=e.dtype(shares))


def _whole(e: Builder, position: int) -> int | None:
    """Returns the weights [experts, inputs, outputs] or biases [experts, 1, outputs] of a layer."""
    if not e.has(position):
        return None
    held = e.x(position)
    if e.rank(held) == 3:
        return e.transpose(held, (0, 2, 1))
    count, outputs = e.shape(held)
    return e.reshape(held, (count, 1, outputs))


def _picked(e: Builder, position: int, chosen: int) -> int | None:
    """Returns the same of the chosen experts only, with the axes of `chosen` instead of experts."""
    whole = _whole(e, position)
    return None if whole is None else e.add("gather", whole, chosen, axis=0)


def _dense(e: Builder, x: int, weights: int | None, bias: int | None) -> int:
    assert weights is not None
    made: int = e.run("MatMul", x, weights)
    return e.plus(made, bias)


def _gated(e: Builder, x: int) -> int:
    """Returns each even number, times its logistic function, times the odd one after it."""
    every = [slice(None)] * (e.rank(x) - 1)
    gate, linear = (cut(e, x, [*every, slice(start, None, 2)]) for start in (0, 1))
    if "swiglu_limit" in e.host.attributes:
        most = e.number("swiglu_limit", 0.0)
        gate = e.add("minimum", gate, most)
        linear = e.add("maximum", e.add("minimum", linear, most), -most)
    share = e.add("logistic", e.times(gate, e.number("activation_alpha", 1.0)))
    beta = e.number("activation_beta", 0.0)
    linear = e.add("add", linear, beta) if beta else linear
    return e.add("mul", e.add("mul", gate, share), linear)


def _silu(e: Builder, x: int) -> int:
    return e.add("mul", x, e.add("logistic", x))


ACTIVATIONS: Mapping[str, Callable[[Builder, int], int]] = {
    "relu": lambda e, x: e.add("relu", x),
    "gelu": lambda e, x: e.add("gelu_tanh", x),
    "silu": _silu,
    "identity": lambda e, x: x,
    "swiglu": _gated,
}
