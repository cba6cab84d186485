"""Tests the pass that recognizes normalizations of rows: each form becomes one op with the same
values, and anything merely similar is left alone. No adapter is needed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.passes.fuse.functions import fuse_functions
from tflgpu_plugin.passes.fuse.normalization import fuse_normalization

SHAPE = (2, 3, 8)
Spelling = Callable[["Rows", int], int]


class Rows(ShapedNet):
    """A graph of the steps of normalizations."""

    axis = -1
    keep = True

    def number(self, value: float) -> int:
        return self.constant(np.float32(value))

    def channels(self, seed: int, *front: int) -> int:
        return self.constant(np.random.default_rng(seed).uniform(0.5, 2, (*front, SHAPE[-1])))

    def mean(self, x: int) -> int:
        shape = tuple(1 if k == self.axis % len(SHAPE) else n for k, n in enumerate(SHAPE))
        return self.run("mean", x, self.constant(np.int32([self.axis])), shape=shape,
                        keep_dims=True)  # fmt: skip

    def centred(self, x: int) -> int:
        return self.same("sub", x, self.mean(x))

    def variance(self, d: int, epsilon: float = 0.1) -> int:
        """Returns the variance of a tensor without a mean."""
        return self.same("add", self.mean(self.same("mul", d, d)), self.number(epsilon))

    def inverse(self, d: int) -> int:
        return self.same("rsqrt", self.variance(d))

    def distance(self, x: int, mean: int) -> int:
        """Returns one over the standard deviation, computed from squared differences."""
        squares = self.mean(self.same("squared_difference", x, mean))
        return self.same("rsqrt", self.same("add", squares, self.number(0.1)))

    def wide(self, op: str, *inputs: int) -> int:
        return self.run(op, *inputs, shape=SHAPE)


def rms(n: Rows, x: int) -> int:
    return n.wide("mul", x, n.inverse(x))


def rms_by_reciprocal(n: Rows, x: int) -> int:
    return n.wide("mul", n.same("reciprocal", n.same("sqrt", n.variance(x))), x)


def rms_by_one_over(n: Rows, x: int) -> int:
    root = n.same("sqrt", n.variance(x))
    return n.wide("mul", x, n.run("div", n.number(1), root, shape=n.tensors[root].shape))


def divided(n: Rows, x: int) -> int:
    d = n.centred(x)
    return n.wide("div", d, n.same("sqrt", n.variance(d)))


def layer(n: Rows, x: int) -> int:
    d = n.centred(x)
    y = n.wide("mul", d, n.inverse(d))
    return n.same("add", n.same("mul", y, n.channels(1)), n.channels(2))


def scaled_before(n: Rows, x: int) -> int:
    d = n.centred(x)
    return n.wide("mul", n.wide("mul", n.inverse(d), n.channels(1)), d)


def _factored(n: Rows, x: int) -> tuple[int, int, int]:
    mean = n.mean(x)
    factor = n.wide("mul", n.channels(1, 1, 1), n.distance(x, mean))
    return mean, factor, n.wide("mul", x, factor)


def keras(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    rest = n.wide("mul", n.same("neg", mean), factor)
    return n.wide("add", y, n.wide("add", n.channels(2), rest))


def keras_without_bias(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    return n.wide("add", n.wide("mul", n.same("neg", mean), factor), y)


def moments(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    return n.wide("add", y, n.wide("sub", n.channels(2), n.wide("mul", mean, factor)))


def taken_off(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    return n.wide("sub", y, n.wide("mul", mean, factor))


def compared(graph: Graph) -> list[str]:
    """Returns the ops that are left."""
    return evaluate.compared(graph, fuse_normalization(fuse_functions(graph)), high=3)


@pytest.mark.parametrize(
    ("spelled", "after"),
    [
        (rms, []), (rms_by_reciprocal, []), (rms_by_one_over, []), (divided, []),
        (layer, ["mul", "add"]), (scaled_before, ["mul"]), (keras, ["mul", "add"]),
        (keras_without_bias, ["mul"]), (moments, ["mul", "add"]), (taken_off, ["mul"]),
    ],
)  # fmt: skip
def test_spellings(spelled: Spelling, after: list[str]) -> None:
    n = Rows()
    assert compared(n.graph(spelled(n, n.input(SHAPE)))) == ["standardize", *after]


@pytest.mark.parametrize("spelled", [rms, layer])
def test_other_axes_stay(spelled: Spelling) -> None:
    n = Rows()
    n.axis = 1
    assert "standardize" not in compared(n.graph(spelled(n, n.input(SHAPE))))


def other_mean(n: Rows, x: int) -> int:
    """Returns the differences of x from the mean of another tensor."""
    other = n.same("sub", x, n.mean(n.same("relu", x)))
    d = n.centred(x)
    return n.wide("mul", other, n.inverse(d))


def other_spread(n: Rows, x: int) -> int:
    return n.wide("mul", x, n.inverse(n.same("relu", x)))


def not_centred(n: Rows, x: int) -> int:
    return n.wide("mul", x, n.inverse(n.centred(x)))


def over_itself(n: Rows, x: int) -> int:
    """Returns the standard deviation divided by the differences."""
    return n.wide("div", n.same("sqrt", n.variance(x)), x)


def two_over(n: Rows, x: int) -> int:
    root = n.same("sqrt", n.variance(x))
    return n.wide("mul", x, n.run("div", n.number(2), root, shape=n.tensors[root].shape))


def mean_added(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    return n.wide("add", y, n.wide("mul", mean, factor))


def negated_twice(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    return n.wide("sub", y, n.wide("mul", n.same("neg", mean), factor))


def the_other_way(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    return n.wide("sub", n.wide("mul", mean, factor), y)


def bias_taken_off(n: Rows, x: int) -> int:
    mean, factor, y = _factored(n, x)
    return n.wide("add", y, n.wide("sub", n.wide("mul", mean, factor), n.channels(2)))


def other_factor(n: Rows, x: int) -> int:
    mean, _, y = _factored(n, x)
    return n.wide("sub", y, n.same("mul", mean, n.distance(n.same("relu", x), mean)))


def distance_from_other(n: Rows, x: int) -> int:
    mean = n.mean(n.same("relu", x))
    factor = n.distance(x, mean)
    return n.wide("sub", n.wide("mul", x, factor), n.same("mul", mean, factor))


def over_the_spread_of_another(n: Rows, x: int) -> int:
    return n.wide("div", x, n.same("sqrt", n.variance(n.centred(x))))


def another_by_the_factor(n: Rows, x: int) -> int:
    other = n.same("relu", x)
    _, factor, _ = _factored(n, x)
    return n.wide("sub", n.wide("mul", other, factor), n.wide("mul", n.mean(other), factor))


def around_another_mean(n: Rows, x: int) -> int:
    factor = n.wide("mul", n.channels(1, 1, 1), n.distance(x, n.mean(n.same("relu", x))))
    return n.wide("sub", n.wide("mul", x, factor), n.wide("mul", n.mean(x), factor))


def long_rows_aside(n: Rows, x: int) -> int:
    """Returns a normalization with a scale along another axis than the channels."""
    d = n.centred(x)
    scale = n.constant(np.full((2, 3, 8), 2.0))
    return n.wide("mul", n.wide("mul", n.inverse(d), scale), d)


@pytest.mark.parametrize(
    "spelled",
    [other_mean, other_spread, not_centred, over_itself, two_over, mean_added, negated_twice,
     the_other_way, bias_taken_off, other_factor, distance_from_other,
     over_the_spread_of_another, another_by_the_factor, around_another_mean, long_rows_aside],
)  # fmt: skip
def test_what_is_none_stays(spelled: Spelling) -> None:
    n = Rows()
    assert "standardize" not in compared(n.graph(spelled(n, n.input(SHAPE))))


def test_differences_that_others_read_stay_too() -> None:
    n = Rows()
    d = n.centred(n.input(SHAPE))
    made = compared(n.graph(n.wide("mul", d, n.inverse(d)), n.same("relu", d)))
    assert sorted(made) == ["mean", "relu", "standardize", "sub"]
