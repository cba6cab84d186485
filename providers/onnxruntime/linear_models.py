"""Builders for the linear models of ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import asks
from tflgpu_plugin.providers import Builder

from . import scores
from .features import floats, whole

REGRESSED = scores.ROWS, scores.TRANSFORM
DEFAULT = np.asarray([0, 1])  # labels of two classes


@asks("attribute.invalid")
def fitting(e: Builder) -> bool:
    """Requires a coefficient for each target and feature."""
    count = e.integer("targets", 1)
    return count > 0 and len(floats(e, "coefficients")) == count * e.shape()[-1]


def _product(e: Builder, count: int, intercepts: int | None) -> int:
    """Returns the scores [n, count] of the rows."""
    weights = e.const(floats(e, "coefficients").reshape(count, -1))
    made: int = e.run("Gemm", scores.rows(e), weights, intercepts, attributes={"transB": 1})
    return made


def regressor(e: Builder) -> int:
    """Builds LinearRegressor. The host ignores intercepts of another number, and, for one target,
    all functions but PROBIT."""
    count, given, name = e.integer("targets", 1), floats(e, "intercepts"), scores.transform(e)
    y = _product(e, count, e.const(given) if len(given) == count else None)
    return y if count == 1 and name != "PROBIT" else scores.transformed(e, y, name)


def _is_pair(e: Builder) -> bool:
    """Whether the scores of one class become those of two."""
    return len(floats(e, "intercepts")) == 1 and len(whole(e, "classlabels_ints")) == 2


@asks("attribute.invalid")
def classes(e: Builder) -> bool:
    """Requires an intercept for each class, a coefficient for each class and feature, and a label
    for each class; for one class, no PROBIT and no LOGISTIC with two labels."""
    count, labels = len(floats(e, "intercepts")), whole(e, "classlabels_ints")
    if not count or len(floats(e, "coefficients")) != count * e.shape()[-1]:
        return False
    if count == 1:
        return not _is_pair(e) or scores.transform(e) not in ("PROBIT", "LOGISTIC")
    return len(labels) >= count


def classifier(e: Builder) -> list[int]:
    """Builds LinearClassifier: labels and scores. The scores of one class go through no function
    but PROBIT."""
    given, labels = floats(e, "intercepts"), whole(e, "classlabels_ints")
    y, name = _product(e, len(given), e.const(given)), scores.transform(e)
    if len(given) > 1:
        return [scores.chosen(e, y, labels[: len(given)]), scores.transformed(e, y, name)]
    label = scores.either(e, scores.above(e, y, 0.0), labels if _is_pair(e) else DEFAULT)
    if _is_pair(e):
        return [label, e.add("concat", e.add("sub", e.const([1.0]), y), y, axis=1)]
    return [label, scores.transformed(e, y, name) if name == "PROBIT" else y]
