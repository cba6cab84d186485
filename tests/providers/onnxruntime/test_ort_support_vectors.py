"""Tests support vector machines of ai.onnx.ml against the CPU provider: kernels, votes of pairs of
classes, and the special cases of two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.classical_models import assert_same, model, reason

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
X = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)


def numbers(count: int, seed: int = 2) -> list[float]:
    return [float(x) for x in np.random.default_rng(seed).normal(size=count).astype(np.float32)]


def regressor(vectors: int, kernel: str = "RBF", degree: float = 3.0, **more: Any) -> bytes:
    given: dict[str, Any] = {
        "coefficients": numbers(vectors or 5), "rho": [0.25], "n_supports": vectors,
        "kernel_type": kernel, "kernel_params": [0.3, 0.5, degree],
    }  # fmt: skip
    if vectors:
        given["support_vectors"] = numbers(5 * vectors, 3)
    return model("SVMRegressor", [("n", 5)], **given | more)


@pytest.mark.parametrize("kernel", KERNELS)
def test_regressor(kernel: str) -> None:
    assert_same(regressor(7, kernel), X, X[:1])


@pytest.mark.parametrize("degree", [1.0, 2.0, 4.0])
def test_degrees(degree: float) -> None:
    assert_same(regressor(7, "POLY", degree), X, tolerance=1e-4)


def test_one_class_and_linear_regressors() -> None:
    assert_same(regressor(7, one_class=1), X)
    assert_same(regressor(0), X)


def classifier(
    labels: list[int], name: str = "NONE", vectors: bool = True, kernel: str = "RBF",
    positive: bool = False, **more: Any,
) -> bytes:  # fmt: skip
    count = len(labels)
    counts = [1 + k % 3 for k in range(count)] if vectors else []
    weights = numbers((count - 1) * sum(counts) if vectors else count * 5)
    given: dict[str, Any] = {
        "coefficients": [abs(x) for x in weights] if positive else weights,
        "rho": numbers(count * (count - 1) // 2 if vectors else 1, 4),
        "kernel_type": kernel, "kernel_params": [0.3, 0.5, 3.0], "post_transform": name,
        "classlabels_ints": labels,
    }  # fmt: skip
    if vectors:
        given |= {"vectors_per_class": counts, "support_vectors": numbers(5 * sum(counts), 5)}
    return model("SVMClassifier", [("n", 5)], "lz", makes={"l": "i64"}, **given | more)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("labels", [[0, 1], [7, -3, 4], [*range(5)]])
def test_classifier(kernel: str, labels: list[int]) -> None:
    assert_same(classifier(labels, kernel=kernel), X, X[:1])


@pytest.mark.parametrize("name", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_functions_of_scores(name: str) -> None:
    assert_same(classifier([0, 1, 2], name), X)
    assert_same(classifier([3, 2, 1], name, vectors=False), X)
    if name != "LOGISTIC":
        assert_same(classifier([0, 1], name), X)


@pytest.mark.parametrize("positive", [True, False])
def test_linear_classifier_of_two_classes(positive: bool) -> None:
    for labels in ([0, 1], [7, -3]):
        data = classifier(labels, vectors=False, positive=positive)
        assert_same(data, X, np.abs(X), -np.abs(X) / 9)


@pytest.mark.parametrize("counts", [[2, 2, 1], [3, 0, 1, 2]])
def test_kernels_that_are_no_numbers(counts: list[int]) -> None:
    """A root of a negative number, or an infinite feature, is in the scores of its pairs only."""
    count, vectors = len(counts), sum(counts)
    data = classifier(
        [4, 2, 0, 3][:count], kernel="POLY", kernel_params=[0.5, 1.0, 2.5],
        vectors_per_class=counts, support_vectors=numbers(5 * vectors, 6),
        coefficients=numbers((count - 1) * vectors),
    )  # fmt: skip
    far = X.copy()
    far[::2, 1], far[1, 3] = np.inf, -np.inf
    assert_same(data, X, far, tolerance=1e-4)


def test_what_stays_on_the_cpu() -> None:
    """Versions of the host differ in LOGISTIC, and do not write all of PROBIT."""
    for name in ("LOGISTIC", "PROBIT"):
        assert "no PROBIT" in reason(classifier([0, 1], name))
    chances = {"prob_a": [-1.0], "prob_b": [0.1]}
    assert "prob_a" in reason(classifier([0, 1], **chances))


def test_softmax_passes_over_scores_that_are_no_numbers() -> None:
    """Three classes with a root of a negative number in the scores of some pairs."""
    data = classifier([0, 1, 2, 3], "SOFTMAX_ZERO", vectors=False)
    odd = X.copy()
    odd[::2, 1] = np.nan
    assert_same(data, odd)
