"""Tests estimates of errors in the middle of a graph against sums computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.compile import compiler, error_sensitivity
from tflgpu_plugin.ir import Array, EpilogueOp, Graph, Node, Plan, Target, Tensor

WINDOW: Mapping[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "padding": "same"}
SIDE = 32


def filled(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Array:
    """Returns an array of numbers that float16 cannot represent."""
    values = np.random.default_rng(seed).uniform(-scale, scale, shape)
    return values.astype(np.float32)


def chain(*steps: tuple[str, Array | None], channels: int = 8, **attributes: Any) -> Graph:
    """Returns a graph of nodes in sequence, each with its weights; step k - 1 computes tensor k."""
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
    """Returns the mean square of sums of values of magnitude 1."""
    return float((weights.astype(np.float64) ** 2).sum() / len(weights))


def test_errors_go_through_bfloat16() -> None:
    """bfloat16 has fewer digits than float16 but a larger range: tensors before it are equally
    sensitive."""
    graph = chain(("relu", None), ("cast", None), ("transpose", None), ("cast", None))
    tensors = {k: replace(t, dtype="bf16" if k in (2, 3) else "f32") for k, t in
               graph.tensors.items()}  # fmt: skip
    assert error_sensitivity.sensitivities(replace(graph, tensors=tensors))[1] > 0


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
    assert error_sensitivity.Walk(graph).channels(0) == channels


def test_groups() -> None:
    weights, last = filled((16, 1, 1, 2), 5), filled((4, 1, 1, 16), 6)
    found = error_sensitivity.sensitivities(chain(("conv_2d", weights), ("conv_2d", last)))
    left = (last.astype(np.float64) ** 2).reshape(4, 16).sum(0) / 4 / rows(last)
    squares = (weights.astype(np.float64) ** 2).reshape(16, 2).sum(1)
    assert found[0] == pytest.approx(float(left @ squares), rel=1e-5)


def test_activations_and_means() -> None:
    """Half of the error passes an activation, and 1 / n of it a mean of n values."""
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


# ---- by hand ------------------------------------------------------------------------------------


def sensitivities(
    shapes: Mapping[int, tuple[int, ...]], constants: Mapping[int, Array], *nodes: Node,
    outputs: tuple[int, ...] = (), wide: tuple[int, ...] = (),
) -> dict[int, float]:  # fmt: skip
    """Returns the sensitivities of a graph from tensor 0 to the output of the last node."""
    tensors = {t: Tensor(str(t), shape, keep_f32=t in wide) for t, shape in shapes.items()}
    tensors |= {t: Tensor(str(t), data.shape, data=data) for t, data in constants.items()}
    ends = outputs or (nodes[-1].outputs if nodes else (0,))
    return error_sensitivity.sensitivities(Graph(tensors, nodes, (0,), ends))


def layer(number: int, op: str, x: int, weights: int, y: int, **attributes: Any) -> Node:
    return Node(number, op, (x, weights), (y,), {**WINDOW, **attributes})


def squared(weights: Array) -> Any:
    return weights.astype(np.float64) ** 2


IMAGE = (1, 4, 4, 8)
FIRST = filled((16, 3, 3, 8), 11)  # its channels matter in different ways


def test_outputs_that_nothing_is_known_of_have_magnitude_one() -> None:
    assert sensitivities({0: IMAGE}, {})[0] == pytest.approx(1.0)
    of_a_constant = {9: filled(IMAGE, 1, 7.0)}
    moved = sensitivities({0: IMAGE, 1: IMAGE}, of_a_constant, Node(0, "reshape", (9,), (1,)))
    assert moved[1] == pytest.approx(1.0)


def test_what_is_moved_is_as_large_as_the_largest_of_its_parts() -> None:
    small, large = filled((8, 1, 1, 8), 1, 0.1), filled((8, 1, 1, 8), 2, 3.0)
    shapes = {k: IMAGE for k in range(3)} | {3: (1, 4, 8, 8), 4: (1, 4, 64)}
    found = sensitivities(
        shapes, {100: small, 101: large, 102: np.float32([1, 4, 64])},
        layer(0, "conv_2d", 0, 100, 1), layer(1, "conv_2d", 0, 101, 2),
        Node(2, "concat", (1, 2), (3,), {"axis": 2}), Node(3, "reshape", (3, 102), (4,)),
    )  # fmt: skip
    assert found[4] == pytest.approx(1 / rows(large))
    assert found[1] == pytest.approx(found[2]) == pytest.approx(found[4] / 2)  # half of the places
    alone = sensitivities(
        shapes, {100: small, 102: np.float32([1, 4, 64])},
        layer(0, "conv_2d", 0, 100, 1), Node(1, "reshape", (1, 102), (4,)),
    )  # fmt: skip
    assert alone[4] == pytest.approx(1 / rows(small))


def test_fused_factors_make_outputs_larger() -> None:
    by = filled((16,), 5, 4.0)
    shapes = {0: IMAGE, 1: (1, 4, 4, 16), 2: (1, 4, 4, 16)}
    for step, factor in (
        (EpilogueOp("mul", 9), float(squared(by).mean())),
        (EpilogueOp("mul", None, (3.0,)), 9.0),
        (EpilogueOp("mul", 2), 1.0),  # by a tensor
    ):
        node = replace(layer(0, "conv_2d", 0, 100, 1), epilogue=(step,))
        found = sensitivities(shapes, {100: FIRST, 9: by}, node)
        assert found[1] == pytest.approx(1 / (rows(FIRST) * factor)), step


def test_fused_factors_go_channel_by_channel() -> None:
    by, last = filled((16,), 5, 4.0), filled((4, 1, 1, 16), 6)
    shapes = {0: (1, 4, 4, 16), 1: (1, 4, 4, 16), 2: (1, 4, 4, 4)}
    left = squared(last).reshape(4, 16).sum(0) / 4 / rows(last)
    for op, factors in (("mul", squared(by)), ("div", 1 / squared(by))):
        node = Node(0, "abs", (0,), (1,), epilogue=(EpilogueOp(op, 9),))
        found = sensitivities(shapes, {100: last, 9: by}, node, layer(1, "conv_2d", 1, 100, 2))
        assert found[0] == pytest.approx(float(left @ factors), rel=1e-5)
    node = Node(0, "abs", (0,), (1,), epilogue=(EpilogueOp("div", None, (3.0,)),))
    found = sensitivities(shapes, {100: last}, node, layer(1, "conv_2d", 1, 100, 2))
    assert found[0] == pytest.approx(left.sum() / 9, rel=1e-5)


@pytest.mark.parametrize(
    ("op", "weights", "strides", "places"),
    [
        ("conv_2d", (4, 3, 3, 16), (1, 1), 1), ("conv_2d", (4, 1, 2, 16), (2, 2), 1),
        ("transpose_conv", (4, 3, 3, 16), (2, 1), 2), ("transpose_conv", (4, 2, 2, 16), (2, 2), 4),
        ("conv_2d", (4, 3, 3, 4), (1, 1), 1), ("conv_2d", (4, 1, 1, 8), (1, 1), 1),
    ],
)  # fmt: skip
def test_windows_strides_and_groups(
    op: str, weights: tuple[int, ...], strides: tuple[int, int], places: int
) -> None:
    """Each output of a transposed convolution is reached by several positions of the window; each
    group has the rows of its own outputs."""
    last = filled(weights, 7)
    shapes = {0: IMAGE, 1: (1, 4, 4, 16), 2: (1, 4, 4, 4)}
    found = sensitivities(
        shapes, {100: FIRST, 101: last}, layer(0, "conv_2d", 0, 100, 1),
        layer(1, op, 1, 101, 2, strides=strides),
    )  # fmt: skip
    sums = squared(last).sum((1, 2)) / places
    whole, groups = found[2] / 4, 16 // weights[-1]
    left = np.concatenate([part.sum(0) for part in np.split(sums * whole, groups)])
    assert found[2] == pytest.approx(1 / (sums.sum() / 4))
    assert found[0] == pytest.approx(float(left @ squared(FIRST).sum((1, 2, 3))), rel=1e-5)


def test_one_channel() -> None:
    weights = filled((4, 3, 3, 1), 8)
    found = sensitivities(
        {0: (1, 4, 4, 1), 1: (1, 4, 4, 4)}, {100: weights}, layer(0, "conv_2d", 0, 100, 1)
    )
    assert found[1] == pytest.approx(1 / rows(weights)) and found[0] == pytest.approx(1.0)


def test_an_image_as_one_row_has_its_channels_last() -> None:
    last = filled((10, 4 * 4 * 16), 9)
    found = sensitivities(
        {0: IMAGE, 1: (1, 4, 4, 16), 2: (1, 10)}, {100: FIRST, 101: last},
        layer(0, "conv_2d", 0, 100, 1), layer(1, "fully_connected", 1, 101, 2),
    )  # fmt: skip
    left = squared(last).reshape(-1, 16).sum(0) * found[2] / 10
    assert found[0] == pytest.approx(float(left @ squared(FIRST).sum((1, 2, 3))), rel=1e-5)


def test_results_of_another_form_have_the_mean_of_their_rows() -> None:
    weights = filled((16, 8), 10)
    found = sensitivities(
        {0: (2, 8), 1: (2, 1, 1, 1, 1, 16)}, {100: weights},
        layer(0, "fully_connected", 0, 100, 1),
    )  # fmt: skip
    assert found[1] == pytest.approx(1 / rows(weights)) and found[0] == pytest.approx(1.0)


def test_what_is_normalized_next_is_of_magnitude_one() -> None:
    """Errors before a layer whose results are divided by their own mean square are normalized,
    too."""
    shapes = {0: IMAGE, 1: (1, 4, 4, 16), 2: (1, 1, 1, 16), 3: (1, 4, 4, 16)}
    nodes = (
        layer(0, "conv_2d", 0, 100, 1),
        Node(1, "mean", (1, 9), (2,), {"keep_dims": True}),
        Node(2, "div", (1, 2), (3,)),
    )
    constants = {100: FIRST * np.float32(30), 9: np.int32([1, 2])}
    found = sensitivities(shapes, constants, *nodes, wide=(2,))
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    plain = sensitivities(shapes, constants, *nodes)
    assert plain[0] == pytest.approx(plain[1] * 900 * rows(FIRST), rel=1e-5)


def test_parts_along_another_axis_have_their_share() -> None:
    shapes = {0: (1, 1, 4, 8), 1: (1, 3, 4, 8), 2: IMAGE}
    found = sensitivities(shapes, {}, Node(0, "concat", (0, 1), (2,), {"axis": 1}))
    assert (found[0], found[1]) == (pytest.approx(0.25), pytest.approx(0.75))


def test_errors_in_all_results_of_a_node_add_up() -> None:
    shapes = {0: IMAGE, 1: (1, 4, 4, 4), 2: (1, 4, 4, 4)}
    node = Node(0, "split", (0,), (1, 2), {"axis": 3})
    assert sensitivities(shapes, {}, node, outputs=(1, 2))[0] == pytest.approx(2.0)
    assert sensitivities(shapes, {}, node, outputs=(2,))[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("shape", "result", "terms"),
    [((1, 1, 1, 8), (1, 1, 1, 8), 1), ((1, 4, 4, 1), (1, 1, 1, 1), 16), (IMAGE, (1, 1, 4, 8), 4)],
)
def test_means_of_few(shape: tuple[int, ...], result: tuple[int, ...], terms: int) -> None:
    found = sensitivities({0: shape, 1: result}, {}, Node(0, "mean", (0,), (1,)))
    assert found[0] == pytest.approx(1 / terms)


# ---- what is stored as float16 -------------------------------------------------------------------


def plan(scale: float, exact: bool = False) -> Plan:
    """Returns the plan of three layers; `scale` is the scale of the weights of the first two."""
    steps: list[tuple[str, Array | None]] = []
    for seed, size in enumerate((scale, scale, 1.0)):
        weights = filled((128, 1, 1, 128), seed, size)
        if exact:
            weights = weights.astype(np.float16).astype(np.float32)
        steps += [("conv_2d", weights), ("relu", None)]
    return compiler.compile(chain(*steps[:-1], channels=128), Target(half=True))


def test_what_chooses_places_must_be_exact() -> None:
    """Values that determine positions must be exact, unless nothing reads these positions."""
    attributes = {"window": (2, 2), "padding": "valid"}
    pool = Node(0, "max_pool_argmax", (0,), (1, 2), attributes)
    back = Node(1, "max_unpool", (1, 2), (3,), attributes)
    shapes = {0: (1, 4, 4, 4), 1: (1, 2, 2, 4), 2: (1, 2, 2, 4), 3: (1, 4, 4, 4)}
    tensors = {t: Tensor(str(t), shape) for t, shape in shapes.items()}
    found = error_sensitivity.sensitivities(Graph(tensors, (pool, back), (0,), (3,)))
    assert found[0] == np.inf and np.isfinite([found[1], found[2]]).all()
    assert np.isfinite(error_sensitivity.sensitivities(Graph(tensors, (pool,), (0,), (1,)))[0])


def test_what_makes_outputs_unbearable_stays_float32() -> None:
    """Large weights and the tensors before them stay float32, but not weights that float16
    represents exactly."""
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
