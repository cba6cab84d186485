"""Conditions and builders of the support vector machines of ai.onnx.ml, with the special cases of
onnxruntime's kernels for two classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tflgpu_plugin.ir import Array, asks
from tflgpu_plugin.providers import Builder

from . import scores
from .features import floats, whole
from .rearranging import part

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
LABELS = "classlabels_ints"


# ---- what a node says ----------------------------------------------------------------------------


def _counts(e: Builder) -> Array:
    """Returns the number of support vectors: one number, in classifiers one per class."""
    if e.host.op == "SVMRegressor":
        return np.asarray([e.integer("n_supports")])
    return whole(e, "vectors_per_class")


def _vectors(e: Builder) -> int:
    return int(_counts(e).sum())


def _labels(e: Builder) -> Array:
    return whole(e, LABELS)


def _pairs(e: Builder) -> list[tuple[int, int]]:
    return [*combinations(range(len(_labels(e))), 2)]


@asks("attribute.invalid")
def regressing(e: Builder) -> bool:
    """Requires support vectors of the input's features, a coefficient for each, and rho; or as many
    coefficients as features."""
    coefficients, count, features = floats(e, "coefficients"), _vectors(e), e.shape()[-1]
    if not _is_plain(e) or not len(floats(e, "rho")) or count < 0:
        return False
    wanted = count or features
    return len(coefficients) == wanted and len(floats(e, "support_vectors")) == count * features


@asks("attribute.invalid")
def classifying(e: Builder) -> bool:
    """Requires support vectors of the input's features, coefficients and rho for each pair of
    classes; or a coefficient for each class and feature, and rho. For two classes, no PROBIT, and
    no LOGISTIC of support vectors."""
    count, features, classes = _vectors(e), e.shape()[-1], len(_labels(e))
    given, rho = len(floats(e, "coefficients")), len(floats(e, "rho"))
    if not _is_plain(e) or not rho or classes < 2:
        return False
    if not count:
        return given == classes * features
    pairs = len(_pairs(e))
    known = pairs > 1 or scores.transform(e) not in ("LOGISTIC", "PROBIT")
    fits = len(floats(e, "support_vectors")) == count * features
    shaped = len(_counts(e)) == classes and given == (classes - 1) * count and rho == pairs
    return known and fits and shaped and bool((_counts(e) >= 0).all())


@asks("attribute.unsupported")
def decided(e: Builder) -> bool:
    """Requires no probabilities (prob_a), which the host computes by iteration."""
    return not len(floats(e, "prob_a"))


def _is_plain(e: Builder) -> bool:
    """Whether the kernel is known, with three parameters or none."""
    known = e.text("kernel_type", "LINEAR") in KERNELS
    return known and len(floats(e, "kernel_params")) in (0, 3)


# ---- builders ------------------------------------------------------------------------------------


def _product(e: Builder, x: int, weights: Array, bias: Array | None = None) -> int:
    held = None if bias is None else e.const(bias)
    return e.add("fully_connected", x, e.const(np.ascontiguousarray(weights)), held)


def _kernel(e: Builder) -> int:
    """Returns the values [rows, vectors] of the kernel for each row and support vector."""
    x, name = scores.rows(e), e.text("kernel_type", "LINEAR")
    gamma, constant, degree = (float(n) for n in [*floats(e, "kernel_params"), 0, 0, 0][:3])
    vectors = floats(e, "support_vectors").reshape(-1, e.shape()[-1])
    if name == "RBF":
        distances = e.add("squared_distances", x, e.const(vectors))
        return e.add("exp", e.add("mul", distances, -gamma))
    y = _product(e, x, vectors)
    if name == "LINEAR":
        return y
    y = e.add("add", e.add("mul", y, gamma), constant)
    if name == "SIGMOID":
        return e.add("tanh", y)
    powers = {2.0: "square", 3.0: "cube"}
    return e.add(powers[degree], y) if degree in powers else e.add("pow", y, degree)


def regressor(e: Builder) -> int:
    """Builds SVMRegressor; the host applies no post_transform."""
    weights, rho = floats(e, "coefficients").reshape(1, -1), floats(e, "rho")[:1]
    y = _product(e, _kernel(e) if _vectors(e) else scores.rows(e), weights, rho)
    if not e.integer("one_class"):
        return y
    inside = scores.above(e, y, 0.0)
    return e.add("where", inside, e.const([1.0]), e.const([-1.0]), dtype="f32")


def classifier(e: Builder) -> list[int]:
    """Builds SVMClassifier: labels and scores."""
    name = scores.transform(e)
    if not _vectors(e):
        weights = floats(e, "coefficients").reshape(len(_labels(e)), -1)
        y = _product(e, scores.rows(e), weights, np.repeat(floats(e, "rho")[:1], len(weights)))
        return [_linear_label(e, y), scores.transformed(e, y, name)]
    y = _pair_scores(e, _kernel(e))
    label = scores.chosen(e, _votes(e, y), _labels(e))
    if len(_pairs(e)) > 1:
        return [label, scores.transformed(e, y, name)]
    other = e.add("neg", y) if name == "NONE" else e.add("sub", e.const([1.0]), y)
    return [label, e.add("concat", other, y, axis=1)]


def _linear_label(e: Builder, y: int) -> int:
    """Returns the label of the largest score. With two classes it is always the second label if
    that score exceeds 0 or, where no weight is negative, is at least 0.5."""
    labels = _labels(e)
    if len(labels) > 2:
        return scores.chosen(e, y, labels)
    best = e.add("reduce_max", y, e.index([1]), keep_dims=False)
    if (floats(e, "coefficients") >= 0).all():
        sure = e.add("greater_equal", best, 0.5, dtype="bool")
    else:
        sure = scores.above(e, best, 0.0)
    return e.add("where", sure, e.index(labels[1:]), scores.chosen(e, y, labels), dtype="i64")


def _pair_scores(e: Builder, kernel: int) -> int:
    """Returns the scores [n, pairs] of the pairs of classes. Vectors of other classes have no part
    in them, not even with a weight of 0: their kernel may be NaN or infinite."""
    given, classes = floats(e, "coefficients").reshape(len(_labels(e)) - 1, -1), len(_labels(e))
    if classes == 2:
        return _product(e, kernel, given, floats(e, "rho"))
    ends, sums = np.cumsum(_counts(e)).tolist(), []
    for begin, end in zip([0, *ends], ends, strict=False):
        if begin == end:
            sums.append(e.filled((e.shape(kernel)[0], classes - 1)))
        else:
            sums.append(_product(e, part(e, kernel, begin, end, 1), given[:, begin:end]))
    every = e.add("concat", *sums, axis=1)
    columns = [(i * (classes - 1) + j - 1, j * (classes - 1) + i) for i, j in _pairs(e)]
    own, other = (e.add("gather", every, e.index(c), axis=1) for c in zip(*columns, strict=True))
    return e.add("add", e.add("add", own, other), e.const(floats(e, "rho")))


def _votes(e: Builder, y: int) -> int:
    """Returns the number of votes for each class. Each pair votes for its first class if its score
    is above 0, else for its second."""
    for_first = np.zeros((len(_labels(e)), len(_pairs(e))), np.float32)
    for_second = for_first.copy()
    for column, (i, j) in enumerate(_pairs(e)):
        for_first[i, column] = for_second[j, column] = 1
    won = e.add("cast", scores.above(e, y, 0.0), dtype="f32")
    return _product(e, e.exact(won), for_first - for_second, for_second.sum(1))
