"""Tests passes that recognize functions expressed in several ops, fold constants into weights and
join data movement."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np
import pytest

from tests.support.evaluate import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import EpilogueOp, Graph, verify
from tflgpu_plugin.passes.canonical import canonical
from tflgpu_plugin.passes.fuse.epilogue import fuse_epilogue
from tflgpu_plugin.passes.fuse.fold_batch_norm import fold_batch_norm
from tflgpu_plugin.passes.fuse.functions import fuse_functions

MAP = (1, 4, 4, 8)


def number(n: ShapedNet, value: float) -> int:
    return n.constant(np.float32(value))


def gelu_by_erf(n: ShapedNet, x: int) -> int:
    plus = n.same("add", n.same("erf", n.same("div", x, number(n, sqrt(2)))), number(n, 1))
    return n.same("mul", n.same("mul", x, plus), number(n, 0.5))


def gelu_by_erf_otherwise(n: ShapedNet, x: int) -> int:
    inner = n.same("mul", x, number(n, 0.70710678))
    plus = n.same("add", n.same("erf", inner), number(n, 1))
    return n.same("mul", n.same("mul", x, number(n, 0.5)), plus)


def swish(n: ShapedNet, x: int) -> int:
    return n.same("mul", x, n.same("logistic", x))


def limited(n: ShapedNet, x: int, above: float = 3.0, high: float = 6.0) -> int:
    return n.same("clip", n.same("add", x, number(n, above)), low=0.0, high=high)


def hard_swish(n: ShapedNet, x: int) -> int:
    return n.same("div", n.same("mul", x, limited(n, x)), number(n, 6))


def hard_swish_otherwise(n: ShapedNet, x: int) -> int:
    return n.same("mul", n.same("div", limited(n, x), number(n, 6)), x)


def hard_swish_by_activation(n: ShapedNet, x: int) -> int:
    plus = n.same("add", x, number(n, 3), activation="relu6")
    return n.same("mul", n.same("mul", plus, x), number(n, 1 / 6))


def hard_swish_by_sigmoid(n: ShapedNet, x: int, alpha: float = 1 / 6) -> int:
    return n.same("mul", x, n.same("hard_sigmoid", x, alpha=alpha, beta=0.5))


def mish(n: ShapedNet, x: int) -> int:
    return n.same("mul", n.same("tanh", n.same("softplus", x)), x)


@pytest.mark.parametrize(
    ("build", "ops"),
    [
        (gelu_by_erf, ["gelu"]), (gelu_by_erf_otherwise, ["gelu"]), (swish, ["swish"]),
        (mish, ["mish"]),
        (hard_swish, ["hard_swish"]), (hard_swish_otherwise, ["hard_swish"]),
        (hard_swish_by_activation, ["hard_swish"]), (hard_swish_by_sigmoid, ["hard_swish"]),
        (lambda n, x: n.same("div", limited(n, x), number(n, 6)), ["hard_sigmoid"]),
        (lambda n, x: n.same("div", limited(n, x), number(n, 5)), ["add", "clip", "div"]),
        (lambda n, x: hard_swish_by_sigmoid(n, x, 0.2), ["hard_sigmoid", "mul"]),
        (lambda n, x: n.same("mul", x, limited(n, x)), ["add", "clip", "mul"]),
        (lambda n, x: n.same("div", n.same("mul", x, limited(n, x, 2.5)), number(n, 6)),
         ["add", "clip", "mul", "div"]),
        (lambda n, x: n.same("div", n.same("mul", x, limited(n, x, 3, 5)), number(n, 6)),
         ["add", "clip", "mul", "div"]),
        (lambda n, x: n.same("div", n.same("mul", x, limited(n, x)), n.same("sin", x)),
         ["add", "clip", "mul", "sin", "div"]),
        (lambda n, x: n.same("div", n.same("mul", n.same("sin", x), limited(n, x)), number(n, 6)),
         ["sin", "add", "clip", "mul", "div"]),
        (lambda n, x: n.same("pow", x, number(n, 2)), ["square"]),
        (lambda n, x: n.same("pow", x, number(n, 0.5)), ["sqrt"]),
        (lambda n, x: n.same("mul", x, x), ["square"]),
        (lambda n, x: n.same("mul", x, n.same("logistic", n.same("sin", x))),
         ["sin", "logistic", "mul"]),
        (lambda n, x: n.same("pow", x, number(n, 2.5)), ["pow"]),
    ],
)  # fmt: skip
def test_functions(build: Callable[[ShapedNet, int], int], ops: list[str]) -> None:
    n = ShapedNet()
    x = n.input(MAP)
    graph = n.graph(build(n, x))
    rewritten = fuse_functions(graph)
    verify(rewritten)
    assert [node.op for node in rewritten.nodes] == ops
    kept = {s for node in rewritten.nodes for s in (node.sources or (node.id,))}
    assert kept == {node.id for node in graph.nodes}


def gelu_of(factors: tuple[float, ...], by_tanh: bool) -> list[str]:
    """Returns the result for a GELU whose constants are multiplied by these factors."""
    n, k = ShapedNet(), factors
    x = n.input(MAP)
    if by_tanh:
        cubed = n.same("mul", n.same("pow", x, number(n, 3)), number(n, 0.044715 * k[2]))
        inner = n.same("mul", n.same("add", x, cubed), number(n, sqrt(2 / pi) * k[3]))
    else:
        inner = n.same("div", x, number(n, sqrt(2) * k[2]))
        inner = n.same("mul", inner, number(n, k[3])) if k[3] != 1 else inner
    plus = n.same("add", n.same("tanh" if by_tanh else "erf", inner), number(n, k[1]))
    graph = n.graph(n.same("mul", n.same("mul", x, plus), number(n, 0.5 * k[0])))
    rewritten = fuse_functions(graph)
    (used,) = graph.inputs
    if len(rewritten.nodes) == 1:
        assert rewritten.nodes[0].inputs == (used,)
    return [node.op for node in rewritten.nodes]


@pytest.mark.parametrize("by_tanh", [False, True])
def test_constants_near_those_of_a_gelu_are_none(by_tanh: bool) -> None:
    """Models round them to float32, some to six digits; other constants are another function."""
    name = "gelu_tanh" if by_tanh else "gelu"
    assert gelu_of((1, 1, 1, 1), by_tanh) == [name]
    for place in range(4 if by_tanh else 3):
        for factor in (1 - 1e-5, 1 + 1e-5):
            other = tuple(factor if k == place else 1.0 for k in range(4))
            assert name not in gelu_of(other, by_tanh), other
        near = tuple(1 + 6e-7 if k == place else 1.0 for k in range(4))
        assert gelu_of(near, by_tanh) == [name]


@pytest.mark.parametrize("exponent", [1.999, 2.001, 2.9999, 0.5001, -0.4999, -1.0001, 1.0])
def test_exponents_near_whole_ones_are_powers(exponent: float) -> None:
    n = ShapedNet()
    y = n.same("pow", n.input(MAP), number(n, exponent))
    assert [node.op for node in fuse_functions(n.graph(y)).nodes] == ["pow"]


@pytest.mark.parametrize(
    ("exponent", "op"),
    [(2, "square"), (3, "cube"), (0.5, "sqrt"), (-0.5, "rsqrt"), (-1, "reciprocal")],
)
def test_powers_that_have_an_op(exponent: float, op: str) -> None:
    n = ShapedNet()
    y = n.same("pow", n.input(MAP), number(n, exponent))
    assert [node.op for node in fuse_functions(n.graph(y)).nodes] == [op]


@pytest.mark.parametrize(
    ("second", "third", "whole"), [("x", "x", True), ("z", "x", False), ("x", "z", False)]
)
def test_a_cube_by_products_is_of_one_tensor(second: str, third: str, whole: bool) -> None:
    """The expression is x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * second ** 2 *
    third)))."""
    n = ShapedNet()
    t = {"x": n.input(MAP), "z": n.input(MAP)}
    cube = n.same("mul", n.same("square", t[second]), t[third])
    total = n.same("add", t["x"], n.same("mul", cube, number(n, 0.044715)))
    inner = n.same("tanh", n.same("mul", total, number(n, sqrt(2 / pi))))
    plus = n.same("add", inner, number(n, 1))
    y = n.same("mul", n.same("mul", t["x"], plus), number(n, 0.5))
    found = [node.op for node in fuse_functions(n.graph(y)).nodes]
    assert (found == ["gelu_tanh"]) == whole, found


def test_a_gate_that_something_else_reads_stays() -> None:
    n = ShapedNet()
    x = n.input(MAP)
    gate = n.same("logistic", x)
    graph = fuse_functions(n.graph(n.same("mul", x, gate), n.same("sin", gate)))
    assert sorted(node.op for node in graph.nodes) == ["logistic", "sin", "swish"]


def test_the_mean_of_squares_is_one_reduction() -> None:
    n = ShapedNet()
    x = n.input(MAP)
    squares = n.same("mul", x, x)
    y = n.run("mean", squares, n.constant(np.array([3])), shape=(1, 4, 4, 1), keep_dims=True)
    graph = n.graph(y)
    rewritten = fuse_functions(graph)
    assert [node.op for node in rewritten.nodes] == ["reduce_mean_square"]
    values = {x: np.random.default_rng(1).uniform(-1, 1, MAP)}
    np.testing.assert_allclose(evaluate(rewritten, values)[y], evaluate(graph, values)[y])


def folded(*steps: tuple[str, object], op: str = "conv_2d") -> Graph:
    """Returns a convolution with a bias of ones and these epilogue ops, after the passes."""
    n = ShapedNet()
    shape = (1, 1, 1, 8) if op == "depthwise_conv_2d" else (8, 1, 1, 8)
    weights = n.constant(np.ones(shape, np.float32))
    bias = n.constant(np.ones(8, np.float32))
    y = n.op(op, n.input(MAP), weights, bias, padding="same", strides=(1, 1), activation="none")
    for name, value in steps:
        y = n.same(name, y) if value is None else n.same(name, y, n.constant(value))
    graph = fold_batch_norm(fuse_epilogue(canonical(n.graph(y))))
    verify(graph)
    return graph


SCALE, OFFSET = np.arange(1, 9, dtype=np.float32), np.full((1, 1, 1, 8), 3, np.float32)


@pytest.mark.parametrize("op", ["conv_2d", "depthwise_conv_2d"])
def test_a_batch_normalization_disappears(op: str) -> None:
    graph = folded(("mul", SCALE), ("add", OFFSET), ("relu", None), op=op)
    (node,) = graph.nodes
    assert [each.op for each in node.epilogue] == ["add", "relu"]
    offset, weights = graph.constant(node.epilogue[0].tensor), graph.constant(node.inputs[1])
    assert offset is not None and weights is not None
    np.testing.assert_array_equal(offset, SCALE + 3)
    first = weights[0, 0, 0] if op == "depthwise_conv_2d" else weights[:, 0, 0, 0]
    np.testing.assert_array_equal(first, SCALE)


def test_a_quotient_and_a_difference_disappear_as_well() -> None:
    graph = folded(("div", SCALE), ("sub", OFFSET))
    (node,) = graph.nodes
    assert [each.op for each in node.epilogue] == ["add"]
    offset, weights = graph.constant(node.epilogue[0].tensor), graph.constant(node.inputs[1])
    assert offset is not None and weights is not None
    np.testing.assert_allclose(weights[:, 0, 0, 0], 1 / SCALE, rtol=1e-6)
    np.testing.assert_allclose(offset.reshape(-1), 1 / SCALE - 3, rtol=1e-6)


def test_one_offset_stays_as_it_is() -> None:
    (node,) = folded(("relu", None)).nodes
    assert [each.op for each in node.epilogue] == ["add", "relu"]


def test_a_factor_after_an_activation_stays() -> None:
    (node,) = folded(("relu", None), ("mul", SCALE)).nodes
    assert [each.op for each in node.epilogue] == ["add", "relu", "mul"]


def test_single_numbers_need_no_buffer() -> None:
    (node,) = folded(("relu", None), ("mul", np.float32(2)), ("add", np.float32(1))).nodes
    assert node.epilogue[2:] == (EpilogueOp("mul", None, (2.0,)), EpilogueOp("add", None, (1.0,)))


@pytest.mark.parametrize("build", [hard_swish, hard_swish_otherwise, hard_swish_by_sigmoid])
def test_hard_gates_keep_their_values(build: Callable[[ShapedNet, int], int]) -> None:
    n = ShapedNet()
    x = n.input(MAP)
    graph = n.graph(build(n, x))
    values = np.linspace(-8, 8, 128, dtype=np.float32).reshape(MAP)
    found, expected = (
        evaluate(g, {x: values})[g.outputs[0]] for g in (fuse_functions(graph), graph)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def spread_of(shape: tuple[int, ...], axes: list[int], swapped: bool = False) -> list[str]:
    """Returns the result for a mean of squared differences from a tensor of this shape."""
    n = ShapedNet()
    x, centre = n.input(MAP), n.input(shape)
    reads = (centre, x) if swapped else (x, centre)
    away = n.run("squared_difference", *reads, shape=MAP, activation="none")
    kept = tuple(1 if k in axes or k - 4 in axes else extent for k, extent in enumerate(MAP))
    where = n.constant(np.array(axes, np.int32))
    rewritten = fuse_functions(n.graph(n.run("mean", away, where, shape=kept, keep_dims=True)))
    verify(rewritten)
    if len(rewritten.nodes) == 1:
        assert rewritten.nodes[0].inputs == (x, where, centre)
    return [node.op for node in rewritten.nodes]


def test_a_variance_over_an_image_keeps_no_differences() -> None:
    joined, apart = ["reduce_mean_square"], ["squared_difference", "mean"]
    assert spread_of((1, 1, 1, 8), [1, 2]) == spread_of((1, 1, 1, 8), [2, -3], True) == joined
    assert spread_of((1, 1, 1, 1), [1, 2]) == spread_of(MAP, [1, 2]) == apart
    assert spread_of((1, 4, 4, 1), [3]) == apart  # rows are normalized as a whole
