"""Builders for elementwise operators, softmax and reductions that a table row cannot declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isinf, prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import (
    COUNTS,
    INT32,
    MAX_FLOAT32,
    NUMPY_DTYPES,
    UNSIGNED,
    WHOLE,
    ShapeRefusal,
    type_name,
)
from tflgpu_plugin.providers import Builder, Unsupported

from . import batched_handlers as steps
from .batched_steps import Handler


def pairwise(**attributes: Any) -> Callable[[Builder], int]:
    """Returns a builder that folds any number of inputs with the row's binary op."""

    def row(e: Builder) -> int:
        result = e.x(0)
        for position in range(1, len(e.inputs)):
            result = e.add(e.row.op, result, e.x(position), **attributes)
        return result

    return row


def average(e: Builder) -> int:
    """Builds the mean of all inputs."""
    return e.add("mul", e.run("Sum", *e.inputs), 1 / len(e.inputs))


def clip(e: Builder) -> int:
    """Builds Clip; the bounds of ReLU, ReLU6 and ReLU-1-to-1 become these ops."""
    bounds = e.get(1), e.get(2)
    if e.dtype() in WHOLE or not e.known(*bounds):
        y = e.x()
        for op, bound in zip(("maximum", "minimum"), bounds, strict=True):
            y = y if bound is None else e.add(op, y, bound, nan=True)
        return y
    low, high = e.scalar(1, "min", -inf), e.scalar(2, "max", inf)
    low = min(low, high)  # where low > high, every result is `high`
    low, high = (-inf if low <= -MAX_FLOAT32 else low), (inf if high >= MAX_FLOAT32 else high)
    named = {(0.0, 6.0): "relu6", (0.0, inf): "relu", (-1.0, 1.0): "relu_n1_to_1"}
    if (low, high) in named:
        return e.add(named[low, high], e.x())
    return e.add("clip", e.x(), low=low, high=high)


def over_axis(**attributes: Any) -> Callable[[Builder], int]:
    """Returns a builder of an op over `axis`; before opset 13, also over all axes after it."""

    def made(e: Builder) -> int:
        shape = e.shape()
        axis = e.axis(e.integer("axis", -1 if e.version >= 13 else 1), len(shape))
        if e.version >= 13 or axis == len(shape) - 1:
            return e.add(e.row.op, e.x(), axis=axis, **attributes)
        rows = e.reshape(e.x(), (prod(shape[:axis]), -1))
        return e.reshape(e.add(e.row.op, rows, axis=1, **attributes), shape)

    return made


# The op of each reduction, its opsets, and how all steps of a loop compute it.
REDUCTIONS: Mapping[str, tuple[str, tuple[int, int], Handler | None]] = {
    "ReduceL1": ("reduce_l1", (1, 18), None),
    "ReduceL2": ("reduce_l2", (1, 18), None),
    "ReduceLogSum": ("reduce_log_sum", (1, 28), None),
    "ReduceLogSumExp": ("reduce_log_sum_exp", (1, 28), None),
    "ReduceMax": ("reduce_max", (1, 20), steps.reduced_max),
    "ReduceMean": ("mean", (1, 18), steps.reduced_mean),
    "ReduceMin": ("reduce_min", (1, 20), steps.reduced_min),
    "ReduceProd": ("reduce_prod", (1, 18), None),
    "ReduceSum": ("reduce_sum", (1, 13), steps.reduced_sum),
    "ReduceSumSquare": ("reduce_sum_square", (1, 18), steps.squares),
}
IDENTITIES = {  # results over no elements; onnxruntime's mean of nothing is 0
    "reduce_prod": 1.0, "reduce_max": -inf, "reduce_min": inf, "reduce_log_sum": -inf,
    "reduce_log_sum_exp": -inf,
}  # fmt: skip


def _of_nothing(e: Builder, axes: Sequence[int]) -> int:
    """Builds a reduction over axes without elements: each result is the identity of the op."""
    identity, dtype, keep = IDENTITIES.get(e.row.op, 0.0), e.dtype(), e.integer("keepdims", 1)
    if isinf(identity) and dtype == "i32":
        identity = INT32.min if identity < 0 else INT32.max
    elif isinf(identity) and dtype not in ("f32", "f16"):
        held = type_name(dtype)
        said = f"{e.host.title} of a tensor without elements is the least or largest {held}."
        raise Unsupported(ShapeRefusal("shape.empty", said))
    shape = [1 if k in axes else n for k, n in enumerate(e.shape()) if keep or k not in axes]
    return e.add("expand", e.const(identity, NUMPY_DTYPES[dtype]), e.index(shape))


def reduction(e: Builder) -> int:
    """Builds a reduction over the given axes, all by default."""
    x, given, rank = e.x(), e.listed("axes", 1), e.rank()
    # onnxruntime's kernels of integers saturate, and multiply as float64.
    more: dict[str, Any] = {"saturates": True} if e.dtype() in ("i32", "i64") else {}
    if not given and e.integer("noop_with_empty_axes"):  # elementwise: |x| for ReduceL1
        alone = e.reshape(x, (prod(e.shape(x)), 1))
        made = e.add(e.row.op, alone, e.index([1]), keep_dims=True, **more)
        return e.reshape(made, e.shape(x))
    axes = sorted({e.axis(axis, rank) for axis in given or range(rank)})
    if min(given or (0,)) < 0 and 0 in e.shape():
        said = f"onnxruntime does not reduce negative axes of {list(e.shape())}, without elements."
        raise Unsupported(ShapeRefusal("host.ambiguous", said))
    if 0 in [e.shape()[axis] for axis in axes]:
        return _of_nothing(e, axes)
    return e.add(e.row.op, x, e.index(axes), keep_dims=bool(e.integer("keepdims", 1)), **more)


def sign(e: Builder) -> int:
    """Builds Sign. The sign of NaN is NaN, except 0 in onnxruntime's kernels of 16-bit floats."""
    if not e.widened and e.dtype() != "f16":
        return e.add("sign", e.x())
    above, below = (e.add(op, e.x(), 0.0, dtype="bool") for op in ("greater", "less"))
    return e.add("sub", *(e.add("cast", each, dtype=e.dtype()) for each in (above, below)))


def pool_all(e: Builder) -> int:
    """Builds global pooling: a reduction over all spatial axes, which are kept with extent 1."""
    return e.add(e.row.op, e.x(), e.index(range(2, e.rank())), keep_dims=True)


def lp_pool_all(e: Builder) -> int:
    """Builds GlobalLpPool with p = 1 or 2."""
    axes = e.index(range(2, e.rank()))
    return e.add(f"reduce_l{e.integer('p', 2)}", e.x(), axes, keep_dims=True)


def argument(e: Builder) -> int:
    """Builds ArgMax or ArgMin, whose indices are int64."""
    return e.add(
        e.row.op, e.x(), e.index([e.attribute("axis", 0)]), dtype="i64",
        keep_dims=e.attribute("keepdims", True), last=e.attribute("select_last_index", False),
    )  # fmt: skip


def gelu(e: Builder) -> int:
    return e.add("gelu_tanh" if e.text("approximate", "none") == "tanh" else "gelu", e.x())


def raises(e: Builder) -> dict[str, Any]:
    """Returns the attributes of a division or remainder: integer division by zero fails the run."""
    return {"raises": True} if e.dtype() in WHOLE else {}


def modulo(e: Builder) -> int:
    """Builds Mod: the remainder has the sign of the dividend with fmod = 1, else of the divisor."""
    return e.add("fmod" if e.integer("fmod") else "floor_mod", e.x(0), e.x(1), **raises(e))


def bit_shift(e: Builder) -> int:
    """Builds BitShift. From opset 28 on, a shift by a negative number or by more bits than the type
    has moves all bits out."""
    x, by, left = e.x(0), e.x(1), e.text("direction", "LEFT") == "LEFT"
    if e.dtype(x) in UNSIGNED:
        return _unsigned_shift(e, x, by, left)
    none, most = (e.const(bits, np.int32) for bits in (0, 31))
    if e.version >= 28 and not left:
        by = e.add("where", e.add("less", by, none, dtype="bool"), most, by, dtype="i32")
    y = e.add("left_shift" if left else "right_shift", x, by)
    if e.version < 28 or not left:
        return y
    there = e.add("minimum", e.add("maximum", by, none), most)
    kept = e.add("equal", by, there, dtype="bool")
    return e.add("where", kept, y, none, dtype="i32")


def _unsigned_shift(e: Builder, x: int, by: int, left: bool) -> int:
    """Returns uint32 or uint64 shifted by 0 to 31 bits; the host repeats a run in which bits beyond
    int32 would be set."""
    if not left:
        return e.add("right_shift", x, by, dtype=e.dtype(x))
    y = e.add("left_shift", x, by, dtype="i32")
    exact = e.add("equal", e.add("right_shift", y, by, dtype="i32"), x, dtype="bool")
    kept = e.add("where", exact, y, e.const(-1, np.int32), dtype="i32")
    return e.add("cast", kept, dtype=e.dtype(x))


_POWERS = {1.0: None, 2.0: "square", 3.0: "cube", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}


def power(e: Builder) -> int:
    """Builds Pow; the exponents in _POWERS become simpler ops, as in onnxruntime's kernels."""
    exponent, base = e.constant(e.x(1)), e.dtype()
    if exponent is None:
        mixed = base not in COUNTS and e.dtype(e.x(1)) in COUNTS
        return e.add("pow", e.x(0), e.add("cast", e.x(1), dtype=base) if mixed else e.x(1))
    value = float(exponent.reshape(-1)[0]) if exponent.size == 1 else None
    if value in _POWERS and exponent.ndim <= e.rank():
        op = _POWERS[value]
        return e.add(op, e.x()) if op else e.x()
    return e.add("pow", e.x(0), e.const(exponent, np.int32 if base in COUNTS else None))


def affine(e: Builder) -> int:
    """Builds the deprecated operator Affine: alpha * x + beta."""
    return e.add("add", e.add("mul", e.x(), e.number("alpha", 1.0)), e.number("beta", 0.0))


def image_scaler(e: Builder) -> int:
    """Builds the deprecated operator ImageScaler: scale * x + bias, per channel of [N, C, H, W]."""
    bias = np.asarray(e.host.attributes.get("bias", (0.0,)), np.float32)
    y = e.add("mul", e.x(), e.number("scale", 1.0))
    return e.add("add", y, e.const(bias.reshape(-1, 1, 1)))
