"""Each rule, and each step of attention, has an example in its exporter's form and a near miss: the
rule replaces the example, with the same values, and leaves the near miss."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import pi, sqrt
from typing import NamedTuple

import numpy as np
import pytest

from conformance.evaluation import passes
from tests.support.formulas import Value
from tests.support.net import Net
from tflgpu_plugin.ir import Graph, Shape
from tflgpu_plugin.ops.views import region
from tflgpu_plugin.passes.fuse import attention, functions, normalization, rotary
from tflgpu_plugin.passes.pattern import rewrite

MODULES = functions, normalization, rotary
RULES = {rule.name: rule for module in MODULES for rule in module.RULES}
Formula = Callable[[Value], Value]


class Example(NamedTuple):
    """A formula of x, the ops that remain of it, and a similar formula."""

    formula: Formula
    after: tuple[str, ...]
    near_miss: Formula
    shape: Shape = (2, 5, 16)


# ---- functions of each value ---------------------------------------------------------------------


def gelu(x: Value, half: float = 0.5) -> Value:
    return x * ((x / sqrt(2)).op("erf") + 1) * half


def gelu_tanh(x: Value, cubic: float = 0.044715) -> Value:
    inner = (x + x.op("cube") * cubic) * sqrt(2 / pi)
    return x * 0.5 * (inner.op("tanh") + 1)


def six(x: Value, above: float = 3) -> Value:
    return (x + above).op("clip", low=0.0, high=6.0)


def hard_swish(x: Value, slope: float = 1 / 6) -> Value:
    return x * x.op("hard_sigmoid", alpha=slope, beta=0.5)


# ---- normalizations ------------------------------------------------------------------------------


def squares(x: Value, axis: int = -1) -> Value:
    return x.op("reduce_mean_square", np.array([axis], np.int32), keep_dims=True)


def layer(x: Value, axis: int = -1) -> Value:
    """Adds a normalization as torch writes it."""
    d = x - x.mean(axis)
    return d / (squares(d, axis) + 1e-3).op("sqrt")


def rms(x: Value, axis: int = -1) -> Value:
    return x * (squares(x, axis) + 1e-3).op("rsqrt") * ramp(x)


def multiplied_out(x: Value, changed: bool = False) -> Value:
    """Adds a normalization as TensorFlow writes it."""
    mean = x.mean(-1)
    variance = x.binary("squared_difference", mean).mean(-1)
    factor = (variance + 1e-3).op("rsqrt") * ramp(x)
    other = x.mean(-2) if changed else mean
    return x * factor + (-other * factor + ramp(x))


def ramp(x: Value) -> Value:
    values = np.linspace(0.5, 2, x.shape[-1], dtype=np.float32)
    return Value(x.n, x.n.constant(values))


def variance(x: Value, axes: tuple[int, ...] = (1, 2)) -> Value:
    return x.binary("squared_difference", x.mean(*axes)).mean(*axes)


# ---- rotary embeddings ---------------------------------------------------------------------------

HEADS = (1, 3, 5, 16)


def cut(x: Value, start: int, extent: int, step: int = 1) -> Value:
    """Adds a slice of the last axis."""
    starts, extents = (*[0] * (len(x.shape) - 1), start), (*x.shape[:-1], extent)
    return x.op("view", view=region(x.shape, starts, extents, (*[1] * (len(starts) - 1), step)))


def joined(first: Value, second: Value) -> Value:
    return first.op("concat", second, axis=-1, activation="none")


def angles(x: Value, width: int) -> tuple[Value, Value]:
    values = np.linspace(0, 3, x.shape[-2] * width, dtype=np.float32).reshape(-1, width)
    return Value(x.n, x.n.constant(np.cos(values))), Value(x.n, x.n.constant(np.sin(values)))


def rotated(x: Value, negated: int = 1) -> Value:
    """Adds a rotation as Llama computes it."""
    half = x.shape[-1] // 2
    cos, sin = angles(x, x.shape[-1])
    return x * cos + joined(-cut(x, negated * half, half), cut(x, 0, half)) * sin


def rotated_neighbours(x: Value, first: int = 0) -> Value:
    """Adds a rotation as GPT-J computes it."""
    half, (cos, sin) = x.shape[-1] // 2, angles(x, x.shape[-1])
    pairs = [each.op("reshape", None, shape=(*x.shape[:-1], half, 1))
             for each in (-cut(x, 1, half, 2), cut(x, first, half, 2))]  # fmt: skip
    return x * cos + joined(*pairs).op("reshape", None, shape=x.shape) * sin


def rotated_halves(x: Value, swapped: bool = False) -> Value:
    """Adds a rotation as GPT-OSS computes it."""
    half, (cos, sin) = x.shape[-1] // 2, angles(x, x.shape[-1] // 2)
    a, b = cut(x, 0, half), cut(x, half, half)
    return joined(a * cos - b * sin, a * cos + b * sin if swapped else b * cos + a * sin)


def rotated_partly(x: Value, start: int = 8) -> Value:
    """Adds a rotation as GPT-NeoX computes it, with an op for the first values."""
    cos, sin = angles(x, 8)
    given = {"paired": False, "together": False, "joined": False}
    return joined(cut(x, 0, 8).op("rotary", cos, sin, **given), cut(x, start, 8))


EXAMPLES = {
    "power": Example(lambda x: x.op("pow", 3.0), ("cube",), lambda x: x.op("pow", 2.5)),
    "square": Example(lambda x: x * x, ("square",), lambda x: x * x.op("neg")),
    "swish": Example(
        lambda x: x.op("logistic") * x, ("swish",), lambda x: x * x.op("neg").op("logistic")
    ),
    "mish": Example(
        lambda x: x * x.op("softplus").op("tanh"), ("mish",), lambda x: x * x.op("tanh")
    ),
    "gelu": Example(gelu, ("gelu",), partial(gelu, half=0.501)),
    "gelu_tanh": Example(gelu_tanh, ("gelu_tanh",), partial(gelu_tanh, cubic=0.0448)),
    "hard_sigmoid": Example(
        lambda x: six(x) / 6, ("hard_sigmoid",), lambda x: six(x, above=2.5) / 6
    ),
    "hard_swish": Example(hard_swish, ("hard_swish",), partial(hard_swish, slope=0.2)),
    "hard_swish by limits": Example(
        lambda x: x * six(x) * (1 / 6), ("hard_swish",), lambda x: x * six(x) * (1 / 5)
    ),
    "mean of squares": Example(
        lambda x: x.op("square").mean(-1), ("reduce_mean_square",), lambda x: x.op("cube").mean(-1)
    ),
    "variance of an image": Example(
        variance, ("mean", "reduce_mean_square"), partial(variance, axes=(3,)), (2, 5, 7, 8)
    ),
    "layer normalization": Example(layer, ("standardize",), partial(layer, axis=1)),
    "layer normalization, multiplied out": Example(
        multiplied_out, ("standardize", "mul", "add"), partial(multiplied_out, changed=True)
    ),
    "RMS normalization": Example(rms, ("standardize", "mul"), partial(rms, axis=1)),
    "rotary embedding of halves": Example(rotated, ("rotary",), partial(rotated, negated=0), HEADS),
    "rotary embedding of neighbours": Example(
        rotated_neighbours, ("rotary",), partial(rotated_neighbours, first=1), HEADS
    ),
    "rotary embedding of each half": Example(
        rotated_halves, ("rotary",), partial(rotated_halves, swapped=True), HEADS
    ),
    "rotary embedding of the first values": Example(
        rotated_partly, ("rotary",), partial(rotated_partly, start=7), HEADS
    ),
}


def graph_of(formula: Formula, shape: Shape) -> Graph:
    n = Net()
    return n.graph(formula(Value(n, n.input(shape))).tensor)


def test_every_rule_has_an_example() -> None:
    assert EXAMPLES.keys() == RULES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_replaces_its_example(name: str) -> None:
    example, rule = EXAMPLES[name], RULES[name]
    graph = graph_of(example.formula, example.shape)

    def applied(graph: Graph) -> Graph:
        return rewrite(graph, [rule])

    assert tuple(node.op for node in applied(graph).nodes) == example.after

    checked = passes.check(graph, [applied])
    assert (checked.skipped, checked.findings, checked.applied) == ("", [], ["applied"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_leaves_a_near_miss(name: str) -> None:
    graph = graph_of(EXAMPLES[name].near_miss, EXAMPLES[name].shape)
    assert rewrite(graph, [RULES[name]]) is graph


def test_every_rule_names_who_writes_it() -> None:
    assert all(rule.written_by for rule in RULES.values())


# ---- steps of attention --------------------------------------------------------------------------

SCORES = (2, 3, 5, 5)


def condition(scores: Value, of: float) -> Value:
    """Whether the key is behind the query, in either sense."""
    return Value(scores.n, scores.n.constant(np.triu(np.ones((5, 5)), 1) == of))


def chosen(scores: Value, first: bool, number: float = -1e38) -> Value:
    """Returns a mask that replaces the score of each key after the query."""
    value = Value(scores.n, scores.n.number(number))
    given = (value, scores) if first else (scores, value)
    return condition(scores, 1.0 if first else 0.0).op("where", *given)


def mask(scores: Value) -> Value:
    return Value(scores.n, scores.n.input((2, 1, 5, 5)))


STEPS: dict[str, tuple[Formula, Formula]] = {
    "softcap": (lambda s: (s / 20).op("tanh") * 20, lambda s: (s / 20).op("tanh").op("tanh")),
    "reshape": (lambda s: s.op("reshape", None, shape=(6, 5, 5)).op("reshape", None, shape=SCORES),
                lambda s: s.op("transpose", perm=(0, 1, 3, 2))),
    "factor": (lambda s: s * 0.5, lambda s: s * mask(s)),
    "mask": (lambda s: s + mask(s), lambda s: (s + mask(s)) * 0.5),
    "choice of a number": (partial(chosen, first=True), partial(chosen, first=True, number=-3.0)),
    "choice of scores": (partial(chosen, first=False), partial(chosen, first=False, number=-3.0)),
}  # fmt: skip


def attention_graph(step: Formula) -> Graph:
    n = Net()
    q, k, v = (n.input((2, 3, 5, 8)) for _ in range(3))
    scores = step(Value(n, n.op("matmul", q, k, transpose_b=True)))
    return n.graph(n.op("matmul", scores.op("softmax", beta=1.0).tensor, v))


@pytest.mark.parametrize("name", [step.name for step in attention.STEPS])
def test_attention_has_each_step(name: str) -> None:
    example, near_miss = (attention_graph(each) for each in STEPS[name])
    checked = passes.check(example, [attention.fuse_attention])
    assert (checked.skipped, checked.findings, checked.applied) == ("", [], ["fuse_attention"])
    ops = [node.op for node in attention.fuse_attention(example).nodes]
    assert "attention" in ops and not {"softmax", "matmul", "tanh"} & {*ops}
    assert attention.fuse_attention(near_miss) is near_miss
