"""Rows for elementwise operators, softmax and reductions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir.quantization import COUNTS

from .expansion import Expansion, dtype
from .host import DTYPES

Row = Callable[[Expansion], int]


def unary(op: str, **attributes: tuple[str, float]) -> Row:
    """A row of one input; `attributes` maps the op's names to the node's name and default."""

    def row(e: Expansion) -> int:
        given: dict[str, Any] = {name: e.number(*source) for name, source in attributes.items()}
        return e.add(op, e.x(), **given)

    return row


def binary(op: str) -> Row:
    """A row of two inputs that are broadcast."""
    return lambda e: e.add(op, e.x(0), e.x(1))


def relation(op: str) -> Row:
    """A row of two inputs, or one, whose result is a bool."""
    return lambda e: e.add(op, *(e.x(k) for k in range(len(e.inputs))), dtype="bool")


def variadic(op: str, **attributes: Any) -> Row:
    """Any number of inputs, two at a time."""

    def row(e: Expansion) -> int:
        result = e.x(0)
        for position in range(1, len(e.inputs)):
            result = e.add(op, result, e.x(position), **attributes)
        return result

    return row


def average(e: Expansion) -> int:
    """The mean of all inputs."""
    total = variadic("add")(e)
    return e.add("mul", total, e.const(1 / len(e.inputs)))


def clip(e: Expansion) -> int:
    """Clip; the usual bounds are ops of their own."""
    if e.version < 11:
        low, high = e.number("min", -inf), e.number("max", inf)
    elif e.tensors.table[e.x()].dtype in COUNTS or any(
        e.has(k) and e.constant(e.x(k)) is None for k in (1, 2)
    ):
        y = e.add("maximum", e.x(), e.x(1), nan=True) if e.has(1) else e.x()
        return e.add("minimum", y, e.x(2), nan=True) if e.has(2) else y
    else:
        bounds = (e.constant(e.x(k)) if e.has(k) else None for k in (1, 2))
        low, high = (
            default if bound is None or not bound.size else float(bound.reshape(-1)[0])
            for bound, default in zip(bounds, (-inf, inf), strict=True)
        )
    low = min(low, high)  # where they are the wrong way round, all is `high`
    largest = float(np.finfo(np.float32).max)
    low, high = (-inf if low <= -largest else low), (inf if high >= largest else high)
    named = {(0.0, 6.0): "relu6", (0.0, inf): "relu", (-1.0, 1.0): "relu_n1_to_1"}
    if (low, high) in named:
        return e.add(named[low, high], e.x())
    return e.add("clip", e.x(), low=low, high=high)


def prelu(e: Expansion) -> int:
    return e.add("prelu", e.x(0), e.x(1))


def softmax(op: str, **attributes: Any) -> Row:
    """Over one axis; before opset 13 over all from the axis on."""

    def row(e: Expansion) -> int:
        x = e.x()
        shape = e.shape(x)
        axis = e.axis(e.integer("axis", -1 if e.version >= 13 else 1), len(shape))
        if e.version >= 13 or axis == len(shape) - 1:
            return e.add(op, x, axis=axis, **attributes)
        rows = int(np.prod(shape[:axis], dtype=np.int64))
        return e.reshape(e.add(op, e.reshape(x, (rows, -1)), axis=1, **attributes), shape)

    return row


def reduction(op: str) -> Row:
    """A reduction over some axes, or over all."""

    def row(e: Expansion) -> int:
        x, given = e.x(), e.listed("axes", 1)
        rank = e.rank(x)
        if not given and e.integer("noop_with_empty_axes"):  # what is done to each element is
            alone = e.reshape(x, (prod(e.shape(x)), 1))
            return e.reshape(e.add(op, alone, e.index([1]), keep_dims=True), e.shape(x))
        axes = sorted({e.axis(axis, rank) for axis in given or range(rank)})
        return e.add(op, x, e.index(axes), keep_dims=bool(e.integer("keepdims", 1)))

    return row


def pool_all(op: str) -> Row:
    """A reduction over all spatial axes, which stay as extents of 1."""

    def row(e: Expansion) -> int:
        return e.add(op, e.x(), e.index(range(2, e.rank())), keep_dims=True)

    return row


def cast(e: Expansion) -> int:
    """Between float32, float16 (which is computed as float32), bool (held as 0.0 and 1.0), and
    whole numbers."""
    x, wanted = e.x(), DTYPES[e.integer("to")]
    held = e.tensors.table[x].dtype
    if wanted in (held, "f32", "f16") and held not in COUNTS:
        return e.add("reshape", x, dtype=wanted, shape=e.shape(x))
    return e.add("cast", x, dtype=wanted)


def argument(op: str) -> Row:
    """ArgMax and ArgMin: places as int64."""

    def place(e: Expansion) -> int:
        axis = e.axis(e.integer("axis"), e.rank())
        return e.add(
            op, e.x(), e.index([axis]), keep_dims=bool(e.integer("keepdims", 1)),
            last=bool(e.integer("select_last_index")), dtype="i64",
        )  # fmt: skip

    return place


def along(op: str, *flags: str) -> Row:
    """Along the axis that a constant names; attributes that are yes or no are the op's own."""

    def row(e: Expansion) -> int:
        axis = e.axis(int(e.value(1).reshape(-1)[0]), e.rank())
        given: dict[str, Any] = {flag: bool(e.integer(flag)) for flag in flags}
        return e.add(op, e.x(), e.index([axis]), **given)

    return row


def top_k(e: Expansion) -> list[int]:
    """TopK: values, and their places as int64."""
    given: dict[str, Any] = {"axis": e.integer("axis", -1), "largest": e.integer("largest", 1)}
    held = e.tensors.table[e.x()].dtype
    return e.add_many("top_k", e.x(), e.index(e.value(1)), dtype=(held, "i64"), **given)


def gelu(e: Expansion) -> int:
    return e.add("gelu_tanh" if e.text("approximate", "none") == "tanh" else "gelu", e.x())


def infinite(e: Expansion) -> int:
    """IsInf, for one sign or both."""
    signs: dict[str, Any] = {
        n: float(e.integer(f"detect_{n}", 1)) for n in ("negative", "positive")
    }
    return e.add("is_infinite", e.x(), dtype="bool", **signs)


def modulo(e: Expansion) -> int:
    """The remainder with the sign of the dividend (fmod), or with that of the divisor."""
    return e.add("fmod" if e.integer("fmod") else "floor_mod", e.x(0), e.x(1))


_POWERS = {1.0: None, 2.0: "square", 3.0: "cube", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}


def power(e: Expansion) -> int:
    """Pow; usual constant exponents are ops of their own, as in onnxruntime's kernels."""
    exponent, base = e.constant(e.x(1)), dtype(e)
    if exponent is None:
        mixed = base not in COUNTS and dtype(e, 1) in COUNTS
        return e.add("pow", e.x(0), e.add("cast", e.x(1), dtype=base) if mixed else e.x(1))
    value = float(exponent.reshape(-1)[0]) if exponent.size == 1 else None
    if value in _POWERS and exponent.ndim <= e.rank():
        op = _POWERS[value]
        return e.add(op, e.x()) if op else e.x()
    return e.add("pow", e.x(0), e.const(exponent, np.int32 if base in COUNTS else None))


def where(e: Expansion) -> int:
    return e.add("where", e.x(0), e.x(1), e.x(2), dtype=e.tensors.table[e.x(1)].dtype)


def affine(e: Expansion) -> int:
    """The old operator Affine: alpha * x + beta."""
    y = e.add("mul", e.x(), e.const(e.number("alpha", 1.0)))
    return e.add("add", y, e.const(e.number("beta", 0.0)))


def image_scaler(e: Expansion) -> int:
    """The old operator ImageScaler: scale * x, and a bias for each channel of [N, C, H, W]."""
    bias = np.asarray(e.host.attributes.get("bias", (0.0,)), np.float32)
    y = e.add("mul", e.x(), e.const(e.number("scale", 1.0)))
    return e.add("add", y, e.const(bias.reshape(-1, 1, 1)))
