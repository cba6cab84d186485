"""Forms as rows: which one computes a node, and how one is refused. No device is needed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.support.net import Net
from tests.support.refused import refused
from tflgpu_plugin import ops, options
from tflgpu_plugin.cache import store
from tflgpu_plugin.compile import compiler, tuning
from tflgpu_plugin.ir import Refusal, Target, quirks
from tflgpu_plugin.ir.quirks import Quirk
from tflgpu_plugin.ops.forms import Form, Forms
from tflgpu_plugin.ops.lowering import Lowering

SETTINGS = {"tile", "weights", "ahead", "half"}  # of kernels


def add() -> Any:
    b = Net()
    return b.graph(b.op("add", b.input((2, 3)), b.input((2, 3)), activation="none"))


@pytest.mark.parametrize(
    ("pays", "target", "chosen"),
    [
        ("abc", Target(), "a"),
        ("bc", Target(), "b"),
        ("bc", Target(tuning={"a": "always"}), "a"),
        ("c", Target(tuning={"c": "never"}), "a"),  # which suits, though it is slower
        ("abc", Target(without=frozenset("a")), "b"),
        ("c", Target(without=frozenset("ac")), "b"),
        ("abc", Target(tuning={"a": "never"}), "b"),
        ("", Target(without=frozenset("bc"), tuning={"a": "never"}), "a"),  # all that is left
        ("", Target(tuning={"a": "never"}), "b"),
        ("abc", Target(tuning={"x": "always"}), "a"),  # which does not suit
    ],
)
def test_the_first_form_that_suits_and_pays(pays: str, target: Target, chosen: str) -> None:
    took: list[str] = []
    rows = tuple(
        Form(name, lambda problem, name=name: name != "x",
             lambda problem, name=name: took.append(name),
             lambda problem, name=name: name in pays)
        for name in "xabc"
    )  # fmt: skip
    low = Lowering(add(), target)
    Forms(lambda low, node: None, rows)(low, low.graph.nodes[0])
    assert took == [chosen] == [low.form]


def test_a_node_without_a_form_has_the_reason_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quirks, "QUIRKS", [Quirk("", "b", "It is wrong, see issue 1.")])
    rows = tuple(Form(n, lambda _, n=n: n != "x", lambda _: None) for n in "axbx")
    low = Lowering(add(), Target(without=frozenset("ax")))
    with refused("device.wrong_result") as found:
        Forms(lambda low, node: None, rows)(low, low.graph.nodes[0])
    said = "add has no form left: a, b are refused. It is wrong, see issue 1."
    assert found.value.sentence == said and found.value.nodes == (low.graph.nodes[0].id,)


def test_an_op_is_refused_after_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("option.without"):
        compiler.compile(add(), Target(without=frozenset({"add"})))
    monkeypatch.setattr(quirks, "QUIRKS", [Quirk("", "add", "It is wrong, see issue 1.")])
    with refused("device.wrong_result"):
        compiler.compile(add(), Target())


def test_a_quirk_may_be_of_some_nodes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Quirk("", "add", "It is wrong.", condition=lambda g, n: g.shape(n.outputs[0]) != (2, 3))
    monkeypatch.setattr(quirks, "QUIRKS", [row])
    assert compiler.compile(add(), Target()).dispatches


def test_launches_are_of_a_form_or_of_an_op() -> None:
    plan = compiler.compile(add(), Target())
    assert {dispatch.form for dispatch in plan.dispatches} <= {"add", "io_layout"}
    assert "add" in {dispatch.form for dispatch in plan.dispatches}


def test_tuning_names_forms_and_settings_of_kernels() -> None:
    for each in (*tuning.GPU, *tuning.SOFTWARE):
        for name, value in each.items():
            assert name in SETTINGS or (name in ops.form_names() and value in ("never", "always"))


def test_no_form_has_the_name_of_an_op_that_it_does_not_compute_alone() -> None:
    for name in set(ops.form_names()).intersection(ops.rows()):
        assert ops.form_names()[name] == (name,)


def test_kept_plans_are_of_what_was_refused() -> None:
    none, one = Target(), Target(without=frozenset({"stem", "point"}))
    assert store.difference(store.target_key(none), store.target_key(one))
    same = replace(none, without=frozenset({"point", "stem"}))
    assert store.target_key(one) == store.target_key(same)


def test_the_code_of_a_refusal_by_the_user() -> None:
    (node,) = add().nodes
    found = quirks.refusal("add", add(), node, Target(without=frozenset({"add"})))
    assert isinstance(found, Refusal) and found.code == "option.without"
    assert options.parse({"without": "stem, squeeze_excite"}).without == ("stem", "squeeze_excite")


def is_incomplete(row: Quirk) -> bool:
    """Whether a quirk can never apply, or its reason does not end with the report."""
    known = row.name in ops.form_names() or row.name in ops.rows()
    return not known or not re.search(r"(issue \d+|https://\S+)\.$", row.reason)


def test_quirks_name_a_form_or_an_op_and_a_report() -> None:
    reason = "It is wrong, see issue 1."
    for name, complete in (("add", True), ("winograd_rows", True), ("winograd_row", False)):
        assert is_incomplete(Quirk("", name, reason)) != complete
        assert is_incomplete(Quirk("", name, "It is wrong."))
    assert not [row for row in quirks.QUIRKS if is_incomplete(row)]
