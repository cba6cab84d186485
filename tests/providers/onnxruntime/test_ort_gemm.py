"""Tests MatMul of vectors and Gemm, y = alpha A' B' + beta C, for every combination of constant and
run-time factors, against float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, model, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

A, B = (3, 5), (5, 6)
BIASES: tuple[tuple[int, ...], ...] = ((6,), (3, 6), (3, 1), ())
FACTORS = ((1.0, 1.0), (0.5, 1.0), (1.0, -3.0), (-0.25, 2.0), (2.0, 0.0))


def random(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("constant", [("b", "c"), ("b",), ("c",), ()])
def test_factors(constant: tuple[str, ...]) -> None:
    """All variants are nodes of one model."""
    values = {"a": random(A, 1), "a_t": random(A, 1).T.copy(), "b": random(B, 2)}
    values |= {"b_t": values["b"].T.copy()}
    nodes, wanted = [], {}
    for (alpha, beta), (k, shape), turned in product(FACTORS, enumerate(BIASES), (0, 1)):
        values[f"c{k}"] = random(shape, 3 + k)
        name = f"y{len(nodes)}"
        reads = ["a_t" if turned else "a", "b" if turned else "b_t", f"c{k}"]
        how: dict[str, Any] = {"alpha": alpha, "beta": beta, "transA": turned, "transB": 1 - turned}
        nodes.append(node("Gemm", reads, [name], **how))
        straight = values["a"].astype(np.float64) @ values["b"]
        wanted[name] = alpha * straight + beta * values[f"c{k}"]
    fixed = {name: value for name, value in values.items() if name[0] in constant}
    fed = {name: value for name, value in values.items() if name not in fixed}
    shapes = {name: value.shape for name, value in fed.items()}
    made = session(model(nodes, shapes, dict.fromkeys(wanted, (3, 6)), fixed))
    tflgpu_plugin.assert_used(made)
    for name, got in zip(wanted, made.run(list(wanted), fed), strict=True):
        np.testing.assert_allclose(got, wanted[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [((5,), (5, 6)), ((3, 5), (5,)), ((5,), (5,)), ((2, 3, 5), (5,)), ((5,), (2, 5, 6)), (A, B)],
)
def test_vectors_are_rows_on_the_left_and_columns_on_the_right(
    left: tuple[int, ...], right: tuple[int, ...], constant: bool
) -> None:
    values = {"a": random(left, 1), "b": random(right, 2)}
    wanted = np.matmul(values["a"].astype(np.float64), values["b"])
    fixed = {"b": values.pop("b")} if constant else {}
    shapes = {name: value.shape for name, value in values.items()}
    nodes = [node("MatMul", ["a", "b"], ["y"])]
    made = session(model(nodes, shapes, {"y": wanted.shape}, fixed))
    tflgpu_plugin.assert_used(made)
    (got,) = made.run(None, values)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
