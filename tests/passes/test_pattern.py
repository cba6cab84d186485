"""Tests the pattern language: names, order of operands, numbers, data movement, and how rules are
applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.formulas import Value
from tests.support.net import Net
from tflgpu_plugin.ir import EpilogueOp, Graph, Node, Quantization, Tensor
from tflgpu_plugin.ops.views import View
from tflgpu_plugin.passes.def_use import DefUse
from tflgpu_plugin.passes.pattern import (
    Match,
    Pattern,
    Replacement,
    Rule,
    constant,
    moved,
    named,
    number,
    op,
    product,
    rewrite,
)  # fmt: skip
from tflgpu_plugin.passes.rewriter import Rewriter

X, Y = named("x"), named("y")


class Formulas(Net):
    def value(self, *shape: int) -> Value:
        return Value(self, self.input(shape or (2, 8)))

    def matches(self, pattern: Pattern, value: Value) -> list[Match]:
        uses = DefUse(Rewriter(self.graph(value.tensor)))
        return list(pattern.matches(value.tensor, Match(uses)))


def test_a_name_is_the_same_tensor_everywhere() -> None:
    n = Formulas()
    a, b = n.value(), n.value()
    assert n.matches(X * op("neg", X), a * -a)
    assert not n.matches(X * op("neg", X), a * -b)


def test_sums_and_products_match_in_either_order_and_differences_do_not() -> None:
    n = Formulas()
    a, b = n.value(), n.value()
    assert n.matches(-X * Y, b * -a) and n.matches(-X + Y, b + -a)
    assert n.matches(-X - Y, -a - b) and not n.matches(-X - Y, b - -a)
    assert not n.matches(-X / Y, b / -a)


def test_both_orders_are_tried_until_the_rest_matches() -> None:
    n = Formulas()
    a, b = n.value(), n.value()
    (match,) = n.matches((X + Y) * op("neg", Y), (a + b) * -a)
    assert (match.tensors["x"], match.tensors["y"]) == (b.tensor, a.tensor)
    assert len(n.matches(X + Y, a + b)) == 2 and len(n.matches(X + Y, a + a)) == 1


def test_a_factor_is_a_divisor_too() -> None:
    n = Formulas()
    a = n.value()
    assert n.matches(X * 0.5, a * 0.5) and n.matches(0.5 * X, a / 2)
    assert not n.matches(X * 0.5, a / 0.5) and not n.matches(X / 2.0, a * 0.5)
    assert n.matches(1 / X, Value(n, n.number(1)) / a)


@pytest.mark.parametrize(("off", "found"), [(0, True), (5e-7, True), (2e-6, False)])
def test_numbers_are_equal_up_to_rounding(off: float, found: bool) -> None:
    n = Formulas()
    assert bool(n.matches(X + 3, n.value() + 3 * (1 + off))) == found


def test_numbers_in_float16_have_fewer_digits() -> None:
    n = Formulas()
    y = n.value() + 3 * (1 + 5e-4)
    assert not n.matches(X + 3, y)
    n.retyped(y.tensor, "f16")
    assert n.matches(X + 3, y)


def test_a_named_number_has_one_element_and_a_constant_any() -> None:
    n = Formulas()
    a, many = n.value(), np.ones(8, np.float32)
    (match,) = n.matches(X + number("k"), a + 2.5)
    assert match.numbers == {"k": 2.5}
    assert not n.matches(X + number("k"), a + many)
    assert n.matches(X + constant("k"), a + many)
    assert not n.matches(X + constant("k"), a + n.value())


def test_a_product_is_matched_in_any_nesting() -> None:
    n = Formulas()
    a, b = n.value(), n.value()
    pattern = product(0.5, X, op("neg", Y))
    for y in (a * -b * 0.5, (a * 2) * (-b / 4), a * 2 * -b * 0.25):
        (match,) = n.matches(pattern, y)
        assert (match.tensors["x"], match.tensors["y"]) == (a.tensor, b.tensor)
    assert not n.matches(pattern, a * -b) and not n.matches(pattern, a * -b * b * 0.5)


def test_either_of_two_patterns_is_enough() -> None:
    n = Formulas()
    a = n.value()
    pattern = op("sin", X) | op("cos", X)
    assert pattern.roots == ("sin", "cos")
    assert n.matches(pattern, a.op("sin")) and n.matches(pattern, a.op("cos"))
    assert not n.matches(pattern, a.op("exp"))


def test_moved_elements_may_be_negated() -> None:
    n = Formulas()
    a = n.value(2, 8)
    moving = a.op("reshape", None, shape=(4, 4))
    flat = a.op("sin").op("reshape", None, shape=(16,))
    (match,) = n.matches(moved(op("sin", X), View.reshapes), flat)
    assert match.tensors["x"] == a.tensor
    negated = moved(X, View.reshapes, factor=-1)
    for y in (-moving, moving * -1.0, (-a).op("reshape", None, shape=(4, 4))):
        assert a.tensor in [match.tensors["x"] for match in n.matches(negated, y)]
    assert not n.matches(negated, moving) and not n.matches(negated, moving * 2.0)
    assert not n.matches(moved(named("x", op("sin", Y)), View.reshapes), moving)


def test_quantized_results_activations_and_epilogues_do_not_match() -> None:
    n = Formulas()
    a = n.value()
    assert n.matches(X + Y, a + 1.0)
    limited = a.op("add", 1.0, activation="relu")
    assert not n.matches(X + Y, limited)
    assert n.matches(op("add", X, Y, activation="relu"), limited)
    stored = Quantization((0.1,), (0,))
    summed = n.op("add", a.tensor, a.tensor, made=Tensor("", (), "i8", None, stored),
                  activation="none")  # fmt: skip
    assert not n.matches(X + Y, Value(n, summed))
    ended = a.op("sin")
    n.nodes[-1] = replace(n.nodes[-1], epilogue=(EpilogueOp("relu"),))
    assert not n.matches(op("sin", X), ended)


# ---- rules ---------------------------------------------------------------------------------------


def cosine(node: Node, match: Match) -> Sequence[Node]:
    return [replace(node, op="cos", inputs=(match.tensors["x"],))]


def rewritten(graph: Graph, *rules: tuple[Pattern, Replacement]) -> list[str]:
    listed = [Rule(str(k), *rule, "this test") for k, rule in enumerate(rules)]
    return [node.op for node in rewrite(graph, listed).nodes]


SIN = op("sin", X)


def test_later_nodes_see_replaced_ones() -> None:
    n = Formulas()
    graph = n.graph(n.value().op("sin").op("neg").tensor)
    assert rewritten(graph, (-op("cos", X), cosine), (SIN, cosine)) == ["cos"]


def test_the_first_rule_that_does_not_decline_applies() -> None:
    n = Formulas()
    graph = n.graph(n.value().op("sin").tensor)
    declined = []

    def declines(node: Node, match: Match) -> None:
        declined.append(match.tensors["x"])

    assert rewritten(graph, (SIN, declines), (SIN, cosine)) == ["cos"]
    assert rewritten(graph, (SIN, cosine), (SIN, declines)) == ["cos"] and len(declined) == 1


def test_the_next_match_is_tried_where_one_is_declined() -> None:
    n = Formulas()
    a, b = n.value(), n.value()
    graph = n.graph((a * b).tensor)

    def of_the_second(node: Node, match: Match) -> Sequence[Node] | None:
        return cosine(node, match) if match.tensors["x"] == b.tensor else None

    (made,) = rewrite(graph, [Rule("", X * Y, of_the_second, "this test")]).nodes
    assert made.inputs == (b.tensor,)


def test_a_node_that_something_else_reads_stays() -> None:
    n = Formulas()
    y = n.value().op("sin")
    graph = n.graph((-y).tensor, y.op("exp").tensor)
    assert sorted(rewritten(graph, (-SIN, cosine))) == ["cos", "exp", "sin"]


def test_a_graph_in_which_nothing_matches_is_the_same_object() -> None:
    n = Formulas()
    graph = n.graph(n.value().op("sin").tensor)
    for pattern in (op("exp", X), op("sin", op("exp", X))):
        assert rewrite(graph, [Rule("", pattern, cosine, "this test")]) is graph
