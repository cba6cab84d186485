"""Labels of the classifiers and regressors of ai.onnx.ml, and the functions that their attribute
post_transform names, as onnxruntime's kernels compute them."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from tflgpu_plugin.ir import Array, needs
from tflgpu_plugin.providers import Builder

from .features import or_lowest, real, whole, within_int32
from .indexing import first_largest

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
NEAR_ZERO = 1e-7
WINITZKI = 0.147  # of his approximation of the inverse of erf

ROWS = needs("rank.unsupported", "An input of rank 1 or 2.", lambda e: e.rank() in (1, 2))
TRANSFORM = needs(
    "attribute.invalid",
    "A post_transform of NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT.",
    lambda e: transform(e) in TRANSFORMS,
)


def transform(e: Builder) -> str:
    """Returns the name of the function that scores go through."""
    return e.text("post_transform", "NONE")


def rows(e: Builder) -> int:
    """Returns the input as float32 rows [n, features]."""
    x = real(e)
    return e.reshape(x, (1, *e.shape())) if e.rank() == 1 else x


def labelled(name: str) -> object:
    """Returns the condition that the labels are the attribute `name`, integers within int32."""
    return needs(
        "attribute.unsupported",
        f"Labels that are integers ({name}), within int32.",
        lambda e: len(whole(e, name)) > 0 and within_int32(whole(e, name)),
    )


def chosen(e: Builder, scores: int, labels: Array) -> int:
    """Returns the label of the first of the largest scores of each row."""
    place = first_largest(e, scores, 1, "i64")
    if (labels == np.arange(len(labels))).all():
        return place
    return e.add("gather", e.index(labels), place, axis=0, dtype="i64")


def either(e: Builder, condition: int, labels: Array) -> int:
    """Returns one of two labels [n]: the second where the condition [n, 1] holds."""
    made = e.add("where", condition, e.index(labels[1:2]), e.index(labels[:1]), dtype="i64")
    return e.reshape(made, e.shape(condition)[:1])


def above(e: Builder, scores: int, threshold: float) -> int:
    return e.add("greater", scores, threshold, dtype="bool")


def transformed(e: Builder, scores: int, name: str) -> int:
    """Returns rows of scores after the function `name`."""
    if name == "SOFTMAX":
        return e.add("softmax", scores, axis=1, beta=1.0)
    if name == "LOGISTIC":
        return e.add("logistic", scores)
    if name == "SOFTMAX_ZERO":
        return _softmax_but_zeros(e, scores)
    return probit(e, scores) if name == "PROBIT" else scores


def _softmax_but_zeros(e: Builder, scores: int) -> int:
    """Returns softmax without the numbers near 0, which are only scaled, and without NaN."""
    most = e.add("reduce_max", or_lowest(e, scores), e.index([1]), keep_dims=True)
    counts = above(e, e.add("abs", scores), NEAR_ZERO)
    power = e.add("exp", e.add("sub", scores, most))
    counted = e.add("where", counts, power, 0.0, dtype="f32")
    total = e.add("reduce_sum", counted, e.index([1]), keep_dims=True)
    rest = e.add("mul", scores, e.add("exp", e.add("neg", most)))
    return e.add("div", e.add("where", counts, power, rest, dtype="f32"), total)


def probit(e: Builder, scores: int) -> int:
    """Returns the quantiles of the normal distribution, by Winitzki's approximation."""
    x = e.add("sub", e.add("mul", scores, 2.0), 1.0)
    rest = e.add("sub", e.const([1.0]), x)
    log = e.add("log", e.add("mul", rest, e.add("add", x, 1.0)))
    half = e.add("add", e.add("mul", log, 0.5), 2 / (pi * WINITZKI))
    inner = e.add("sub", e.add("square", half), e.add("mul", log, 1 / WINITZKI))
    root = e.add("sqrt", e.add("sub", e.add("sqrt", inner), half))
    negative = e.add("less", x, 0.0, dtype="bool")
    signed = e.add("where", negative, e.add("neg", root), root, dtype="f32")
    return e.add("mul", signed, sqrt(2))
