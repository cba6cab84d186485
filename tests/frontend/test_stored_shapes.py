"""Tests which stored plans are used for other shapes of a partition, and which are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.compile.test_templates_run import PLACES, TARGET, layers, traced
from tests.support import stored
from tflgpu_plugin.cache import plan_file
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.frontend import stored_shapes
from tflgpu_plugin.frontend.reshaping import Reshaping, Symbolic
from tflgpu_plugin.ir import Plan
from tflgpu_plugin.ir.extent import EXTENTS

MADE = (4, 1, 20, 30, 6)
FIRST = compiler.compile(layers(8, 9), TARGET)


@dataclass
class Held:
    """A partition of which only the plans matter."""

    data: bytes
    instance: Any = None

    def stored(self, source: str) -> Any:
        assert source == "nodes"
        return plan_file.read(memoryview(self.data))


def symbolic() -> Symbolic:
    places = tuple((position + 1, symbol) for position, symbol in PLACES)
    return Symbolic(MADE, places, traced(20, 30), [{0: 20, 1: 30}, {0: 50, 1: 8}], {0: 20, 1: 30})


def kept(change: Any = None, plan: Plan | None = None, first: Plan = FIRST) -> Any:
    """Returns what is read of a template, or of another plan, with another header."""
    given = symbolic()
    extra = stored_shapes.place("nodes", MADE)
    if plan is None:
        extra = stored_shapes.template_place("nodes", given)
        plan = given.template.settled(given.symbols, given.rooms, given.places)
    data = stored.written(replace(plan, symbols=None), **json.loads(json.dumps(extra)))
    held = Held(stored.changed(data, lambda header: change and change(header["extra"])))
    held.instance = type("Instance", (), {"plan": first})
    return stored_shapes.read(held, "nodes")  # type: ignore[arg-type]


def test_a_template_comes_back() -> None:
    exact, (found,) = kept()
    given = symbolic()
    assert not exact and found.stored and not given.stored
    assert (found.made, found.places) == (given.made, given.places)
    assert (found.rooms, found.newest) == (given.rooms, given.newest)
    settled = (one.template.settled(one.symbols, one.rooms, one.places) for one in (given, found))
    ours, theirs = settled
    assert ours == theirs


def test_a_plan_for_one_list_of_shapes_comes_back() -> None:
    plan = compiler.compile(layers(20, 30), TARGET)
    exact, templates = kept(plan=plan)
    assert [*exact] == [MADE] and exact[MADE].plan == plan and not templates


def test_what_was_read_is_as_if_it_had_been_seen() -> None:
    reshaping, (_, (found,)) = Reshaping(), kept()
    reshaping.recall({(4, 1, 8, 8, 6): "a plan"}, [found])  # type: ignore[dict-item]
    limits = dict.fromkeys((1, 2, 3, 4), EXTENTS)
    assert reshaping.of((4, 1, 22, 33, 6), limits, None) is found  # type: ignore[arg-type]
    assert reshaping.seen[1:] == [(4, 1, 8, 8, 6), MADE]
    assert reshaping.stored == {(4, 1, 8, 8, 6): "a plan"}


def places(*pairs: tuple[int, int]) -> Any:
    return lambda extra: extra["template"].__setitem__(0, pairs)


def rooms(*values: list[int]) -> Any:
    return lambda extra: extra["template"].__setitem__(1, values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (places(), "a symbol has no place"),
        (places((2, 0), (3, 2)), "a symbol has no place"),
        (places((2, 1), (3, 2)), "a symbol has no place"),
        (places((2, 0), (5, 1)), "at no place of the shapes"),
        (places((2, 0), (-1, 1)), "at no place of the shapes"),
        (rooms(), "a symbol has no value"),
        (rooms([20, 30], [20]), "a symbol has no value"),
        (lambda extra: extra["template"].pop(), "3 items"),
        (lambda extra: extra["template"][2][1].append(["le", [[[0], 1]]]), "a guard does not fit"),
        (lambda extra: extra.update(shapes=[4, 1, 20, 31, 6]), "not those of the model"),
        (lambda extra: extra.update(shapes=[3, 20, 30, 6]), "not those of the model"),
        (lambda extra: extra.update(shapes=[]), "not those of the model"),
        (lambda extra: extra.update(shapes=[2.5]), "no int"),
    ],
)
def test_what_does_not_fit_is_refused(change: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        kept(change)


def ports(name: str, **fields: Any) -> Plan:
    """The first plan with another first port of this kind."""
    port, *rest = getattr(FIRST, name)
    return replace(FIRST, **{name: (replace(port, **fields), *rest)})


@pytest.mark.parametrize(
    "first",
    [
        ports("inputs", dtype="i32"),
        ports("inputs", shape=(1, 2)),
        ports("outputs", counted=(0, 1)),
        ports("outputs", dtype="i32"),
        replace(FIRST, inputs=FIRST.inputs * 2),
        replace(FIRST, outputs=FIRST.outputs[:1]),
        replace(FIRST, states=FIRST.inputs),
    ],
)
def test_a_plan_with_other_ports_is_refused(first: Plan) -> None:
    with pytest.raises(ValueError, match="not those of the model"):
        kept(first=first)


def test_a_source_is_known_by_its_values() -> None:
    one, other = stored.dense(), stored.dense(2.0)
    assert stored_shapes.source((1, one)) == stored_shapes.source((1, stored.dense()))
    assert stored_shapes.source((1, one)) != stored_shapes.source((2, one))
    assert stored_shapes.source((1, one.tensors[1].data)) != stored_shapes.source(
        (1, other.tensors[1].data)
    )
    assert stored_shapes.source(None) is None and stored_shapes.source(object()) is None
