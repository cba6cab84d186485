"""What is said of errors in the middle of a graph, against sums worked out here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.compile import compiler, error_sensitivity
from tflgpu_plugin.ir.graph import Array, EpilogueOp, Graph, Node, Tensor
from tflgpu_plugin.ir.plan import Plan
from tflgpu_plugin.ir.target import Target

WINDOW: Mapping[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "padding": "same"}
SIDE = 32


def filled(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Array:
    """Numbers that float16 does not have."""
    values = np.random.default_rng(seed).uniform(-scale, scale, shape)
    return values.astype(np.float32)


def chain(*steps: tuple[str, Array | None], channels: int = 8, **attributes: Any) -> Graph:
    """Nodes one after another, each with its weights; tensor k is what step k - 1 makes."""
    shape: tuple[int, ...] = (1, SIDE, SIDE, channels)
    tensors, nodes = {0: Tensor("t0", shape)}, []
    for k, (op, weights) in enumerate(steps):
        inputs = [k]
        if weights is not None:
            outputs = weights.shape[-1 if op.startswith("depthwise") else 0]
            shape = (*shape[:-1], outputs)
            tensors[100 + k] = Tensor(f"w{k}", weights.shape, data=weights)
            inputs.append(100 + k)
        if op == "mean":
            shape = (1, 1, 1, shape[-1])
            tensors[100 + k] = Tensor("axes", (2,), "i32", np.array([1, 2], np.int32))
            inputs.append(100 + k)
        tensors[k + 1] = Tensor(f"t{k + 1}", shape)
        nodes.append(Node(k, op, tuple(inputs), (k + 1,), {**WINDOW, "keep_dims": True}))
    return Graph(tensors, tuple(nodes), (0,), (len(steps),))


def rows(weights: Array) -> float:
    """The mean square of sums of values of magnitude 1."""
    return float((weights.astype(np.float64) ** 2).sum() / len(weights))


def test_a_bias_makes_results_larger_and_their_errors_less() -> None:
    weights, bias = filled((16, 3, 3, 8), 1), filled((16,), 2, 9.0)
    plain = chain(("conv_2d", weights))
    tensors = {**plain.tensors, 200: Tensor("bias", bias.shape, data=bias)}
    (node,) = plain.nodes
    graph = replace(plain, tensors=tensors, nodes=(replace(node, inputs=(0, 100, 200)),))
    squares = rows(weights) + float((bias.astype(np.float64) ** 2).mean())
    assert error_sensitivity.sensitivities(graph)[1] == pytest.approx(1 / squares)
    fused = replace(
        plain, tensors=tensors, nodes=(replace(node, epilogue=(EpilogueOp("add", 200),)),)
    )
    assert error_sensitivity.sensitivities(fused)[1] == pytest.approx(1 / squares)


@pytest.mark.parametrize("window", [1, 3])
def test_products_pass_on_squares_and_relative_errors_of_weights_are_like_those_of_values(
    window: int,
) -> None:
    first, last = filled((16, 3, 3, 8), 1), filled((4, window, window, 16), 2)
    found = error_sensitivity.sensitivities(chain(("conv_2d", first), ("conv_2d", last)))
    left = (last.astype(np.float64) ** 2).reshape(-1, 16).sum(0) / 4 / rows(last)
    assert found[2] == pytest.approx(1 / rows(last))
    assert found[1] == pytest.approx(left.sum(), rel=1e-5) == pytest.approx(found[101], rel=1e-5)
    passed = left @ (first.astype(np.float64) ** 2).sum((1, 2))
    assert found[0] == pytest.approx(passed.sum(), rel=1e-5)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_a_depthwise_convolution_keeps_channels_apart(multiplier: int) -> None:
    weights, last = filled((1, 3, 3, 8 * multiplier), 3), filled((4, 1, 1, 8 * multiplier), 4)
    found = error_sensitivity.sensitivities(
        chain(("depthwise_conv_2d", weights), ("conv_2d", last))
    )
    left = (last.astype(np.float64) ** 2).reshape(4, -1).sum(0) / 4 / rows(last)
    squares = (weights.astype(np.float64) ** 2).sum((0, 1, 2))
    assert found[0] == pytest.approx(float(left @ squares), rel=1e-5)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((), 1), ((7,), 7), ((3, 5), 5), ((1, 4, 4, 6), 6), ((2, 1, 2, 1, 1, 3), 12), ((0,), 1)],
)
def test_channels_of_images_and_elements_of_the_rest(shape: tuple[int, ...], channels: int) -> None:
    graph = Graph({0: Tensor("x", shape)}, (), (0,), (0,))
    assert error_sensitivity._Walk(graph).channels(0) == channels


def test_groups() -> None:
    weights, last = filled((16, 1, 1, 2), 5), filled((4, 1, 1, 16), 6)
    found = error_sensitivity.sensitivities(chain(("conv_2d", weights), ("conv_2d", last)))
    left = (last.astype(np.float64) ** 2).reshape(4, 16).sum(0) / 4 / rows(last)
    squares = (weights.astype(np.float64) ** 2).reshape(16, 2).sum(1)
    assert found[0] == pytest.approx(float(left @ squares), rel=1e-5)


def test_activations_and_means() -> None:
    """One half of errors passes an activation, the n-th part a mean of n values."""
    assert error_sensitivity.sensitivities(chain(("relu", None)))[0] == pytest.approx(0.5)
    assert error_sensitivity.sensitivities(chain(("abs", None)))[0] == pytest.approx(1.0)
    assert error_sensitivity.sensitivities(chain(("mean", None)))[0] == pytest.approx(SIDE**-2)


def test_fused_steps() -> None:
    graph = chain(("abs", None))
    graph.tensors[9] = Tensor("by", (8,), data=np.full(8, 3, np.float32))  # type: ignore[index]
    (node,) = graph.nodes
    for epilogue, expected in (
        ((EpilogueOp("mul", 9),), 9.0),
        ((EpilogueOp("div", None, (2.0,)),), 0.25),
        ((EpilogueOp("clip", None, (0.0, 6.0)), EpilogueOp("mul", 9)), 4.5),
        ((EpilogueOp("clip", None, (-1.0, 6.0)), EpilogueOp("add", 0)), 2.0),
    ):
        changed = graph.with_nodes([Node(0, "abs", (0,), (1,), epilogue=epilogue)])
        assert error_sensitivity.sensitivities(changed)[0] == pytest.approx(expected), epilogue
    assert node.epilogue == ()


def test_parts_of_a_concatenation_have_their_own_channels() -> None:
    tensors = {k: Tensor(f"t{k}", (1, 4, 4, n)) for k, n in enumerate((2, 6, 8, 1))}
    tensors[4] = Tensor("w", (1, 1, 1, 8), data=np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8))
    nodes = (
        Node(0, "concat", (0, 1), (2,), {"axis": 3, "activation": "none"}),
        Node(1, "conv_2d", (2, 4), (3,), dict(WINDOW)),
    )
    found = error_sensitivity.sensitivities(Graph(tensors, nodes, (0, 1), (3,)))
    assert found[0] == pytest.approx(1 / 140)
    assert found[1] == pytest.approx(139 / 140)


def plan(scale: float, exact: bool = False) -> Plan:
    """Three layers; `scale` is that of the weights of the first two."""
    steps: list[tuple[str, Array | None]] = []
    for seed, size in enumerate((scale, scale, 1.0)):
        weights = filled((128, 1, 1, 128), seed, size)
        if exact:
            weights = weights.astype(np.float16).astype(np.float32)
        steps += [("conv_2d", weights), ("relu", None)]
    return compiler.compile(chain(*steps[:-1], channels=128), Target(half=True))


def test_what_chooses_places_must_be_exact() -> None:
    """But for values whose places nothing reads."""
    attributes = {"window": (2, 2), "padding": "valid"}
    pool = Node(0, "max_pool_places", (0,), (1, 2), attributes)
    back = Node(1, "max_unpool", (1, 2), (3,), attributes)
    shapes = {0: (1, 4, 4, 4), 1: (1, 2, 2, 4), 2: (1, 2, 2, 4), 3: (1, 4, 4, 4)}
    tensors = {t: Tensor(str(t), shape) for t, shape in shapes.items()}
    found = error_sensitivity.sensitivities(Graph(tensors, (pool, back), (0,), (3,)))
    assert found[0] == np.inf and np.isfinite([found[1], found[2]]).all()
    assert np.isfinite(error_sensitivity.sensitivities(Graph(tensors, (pool,), (0,), (1,)))[0])


def test_what_makes_outputs_unbearable_stays_float32() -> None:
    """What comes before large weights, and these; but weights that float16 has are not rounded."""
    calm, wild, known = plan(0.2), plan(500.0), plan(500.0, exact=True)
    assert all(weight.half for weight in calm.weights)
    assert [weight.half for weight in wild.weights] == [False, False, True]
    assert all(weight.half for weight in known.weights)
    assert calm.tensor_bytes < wild.tensor_bytes == known.tensor_bytes


def test_weights_that_are_no_numbers_are_the_worst(recwarn: pytest.WarningsRecorder) -> None:
    weights = filled((128, 1, 1, 128), 1)
    weights[3, 0, 0, 5] = np.nan
    found = error_sensitivity.sensitivities(
        chain(("conv_2d", weights), ("abs", None), channels=128)
    )
    assert found[0] == np.inf and not recwarn.list
