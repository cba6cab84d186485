"""Tests invalid tables of symbols: each is refused with its sentence, and the last valid one is
accepted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.native.test_plans import partition
from tests.native.test_refused_calls import SUM, Spec, buffer, pipeline, spec
from tests.support import native_plans
from tests.support.symbolic_plans import SHOWN, Tables, copying, plan
from tflgpu_plugin import native
from tflgpu_plugin.ir import Plan, Symbols
from tflgpu_plugin.ir.plan import FORMULAS
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program, native_symbols

pytestmark = pytest.mark.adapter
__all__ = ["spec"]
N = 8
REGISTERS = 9  # of copying(): n, four constants and four formulas
OPERATIONS = len(FORMULAS)
CHECKED = tuple[str, Callable[[Symbols], Symbols]]


def made_of(made: Plan) -> Any:
    return Instance(Program(made, adapter.open_device(adapter.select(None)).handle)).replay


def add(made: Plan, symbols: Symbols | None = None, replay: Any = None) -> None:
    """Hands a new partition the plan with these symbols, or its own."""
    given = native_symbols(replace(made, symbols=symbols or made.symbols))
    shapes = [1, N], [1, N + SHOWN]
    native_plans.add(partition(1), *shapes, replay or made_of(made), symbols=given)


def more(name: str, *row: int) -> Callable[[Symbols], Symbols]:
    """Returns a change that adds a row to this table."""

    def change(symbols: Symbols) -> Symbols:
        return replace(symbols, **{name: np.vstack([getattr(symbols, name), row])})

    return change


def only(name: str, *row: int) -> Callable[[Symbols], Symbols]:
    return lambda symbols: replace(symbols, **{name: np.array([row])})


REGISTER = f"has register {REGISTERS}, but only {REGISTERS} come before it"
REFUSED: dict[str, CHECKED] = {
    "a rank": ("Place 1 of .* is not an extent of its inputs", more("places", 0, 0)),
    "behind the shapes": ("Place 1 of .* is not an extent of its inputs", more("places", 2, 0)),
    "far behind them": ("Place 1 of .* is not an extent", more("places", (1 << 32) - 1, 0)),
    "no symbol": ("Place 1 of .* has register 1, but only 1 come before", more("places", 1, 1)),
    "a symbol without a place": (
        "Symbol 1 of the plan has no place in its shapes", lambda s: replace(s, count=2),
    ),
    "no operation": ("Formula 4 of .* has no operation", more("formulas", OPERATIONS, 0, 0)),
    "itself": (f"Formula 4 of .* {REGISTER}", more("formulas", 0, REGISTERS, 0)),
    "itself, second": (f"Formula 4 of .* {REGISTER}", more("formulas", 0, 0, REGISTERS)),
    "no condition": ("Guard 0 of .* has no condition", only("guards", 3, 0)),
    "a guard of none": (f"Guard 0 of .* {REGISTER}", only("guards", 2, REGISTERS)),
    "no word": ("Word 1 of .* is not a word of its uniforms", more("words", 2, 0, 0)),
    "behind the uniforms": ("Word 1 of .* is not a word of its", more("words", 256, 0, 0)),
    "a word far behind": ("Word 1 of .* is not a word", more("words", (1 << 32) - 4, 0, 0)),
    "no type": ("Word 1 of .* has no type", more("words", 8, 0, 3)),
    "a word of none": (f"Word 1 of .* {REGISTER}", more("words", 8, REGISTERS, 0)),
    "no dispatch": ("Group 1 of .* is not an axis of a dispatch", more("groups", 2, 0, 0, 1)),
    "no axis": ("Group 1 of .* is not an axis of a dispatch", more("groups", 0, 3, 0, 1)),
    "a group of none": (f"Group 1 of .* {REGISTER}", more("groups", 0, 0, REGISTERS, 1)),
    "no port": ("Size 2 of .* is of a port that does not exist", more("sizes", 2, 0)),
    "a size of none": (f"Size 2 of .* {REGISTER}", more("sizes", 0, REGISTERS)),
    "a rank of results": ("Extent 1 of .* is not a known extent", more("extents", 0, 0)),
    "behind the results": ("Extent 1 of .* is not a known extent", more("extents", 2, 0)),
    "an extent of none": (f"Extent 1 of .* {REGISTER}", more("extents", 1, REGISTERS)),
    "its own shapes": (r"The plan's symbols refuse its own shapes\.", only("guards", 0, 0)),
    "another word": ("Word 1 of .* is not what the plan was made with", more("words", 8, 0, 0)),
    "another group": ("Group 1 of .* is not what the plan was made", more("groups", 0, 0, 0, 1)),
    "another size": ("Size 2 of .* is not what the plan was made with", more("sizes", 0, 0)),
    "another result": ("Size 2 of .* is not what the plan was made", more("sizes", 1, 0)),
    "another extent": ("Extent 1 of .* is not what the plan was made", more("extents", 1, 0)),
}  # fmt: skip
ALONE: dict[str, CHECKED] = {
    "a place": ("Place 0 of .* is not an extent", only("places", 0, 0)),
    "a formula": ("Formula 0 of .* has no operation", only("formulas", 8, 0, 0)),
    "a guard": ("Guard 0 of .* has no condition", only("guards", 3, 0)),
    "a word": ("Word 0 of .* is not a word", only("words", 2, 0, 0)),
    "a group": ("Group 0 of .* is not an axis", only("groups", 2, 0, 0, 1)),
    "a size": ("Size 0 of .* is of a port that", only("sizes", 2, 0)),
    "an extent": ("Extent 0 of .* is not a known", only("extents", 0, 0)),
    "another word": ("Word 0 of .* is not what the plan was made", only("words", 0, 1, 0)),
    "another group": ("Group 0 of .* is not what the plan was made", only("groups", 1, 0, 0, 1)),
    "another size": ("Size 0 of .* is not what the plan was made", only("sizes", 0, 0)),
    "another extent": ("Extent 0 of .* is not what the plan was made", only("extents", 1, 0)),
}  # fmt: skip
RIGHT: dict[str, Callable[[Symbols], Symbols]] = {
    "as they are": lambda s: s,
    "the last operation": more("formulas", OPERATIONS - 1, REGISTERS - 1, 0),
    "of the last register": more("formulas", 0, 0, REGISTERS - 1),
    "the last condition": only("guards", 2, REGISTERS - 1),
    "the place again": more("places", 1, 0),
}


@pytest.mark.parametrize("wrong", [*REFUSED.values(), *ALONE.values()])
def test_tables_that_cannot_be_right_are_refused(wrong: CHECKED) -> None:
    """The invalid row follows valid rows, or is the first."""
    sentence, change = wrong
    made = plan(copying(), N)
    assert made.symbols
    with pytest.raises(native.NativeError, match=sentence):
        add(made, change(made.symbols))


@pytest.mark.parametrize("name", RIGHT)
def test_tables_at_the_edge_are_taken(name: str) -> None:
    made = plan(copying(), N)
    assert made.symbols
    add(made, RIGHT[name](made.symbols))


def test_the_last_word_and_the_last_dispatch_are_taken() -> None:
    tables = copying()
    tables.words.append((252, 0, "f32"))
    tables.groups.append((1, 2, tables.constant(1)))
    add(plan(tables, N))


def test_uniforms_are_those_of_the_replay(spec: Spec) -> None:
    made = plan(copying(), N)
    sentence = "The uniforms of the plan's symbols have another size than those of its replay"
    for data in (made.uniforms[:-4], made.uniforms * 2):
        with pytest.raises(native.NativeError, match=sentence):
            add(replace(made, uniforms=data), replay=made_of(made))
    x, y = spec.bindings[:2]
    bound = (x, buffer(spec.device), y)
    without = replace(
        spec, uniforms=None, bindings=bound, pipeline=pipeline(spec.device, SUM, "rwr")
    )
    with pytest.raises(native.NativeError, match=sentence):
        add(made, replay=without.make())


def test_a_symbol_has_a_place() -> None:
    made = plan(copying(), N)
    assert made.symbols
    with pytest.raises(native.NativeError, match="Symbol 0 of the plan has no place"):
        add(made, replace(made.symbols, places=np.zeros((0, 2))))


def test_ranks_of_several_tensors_are_no_extents() -> None:
    """Inputs have the shapes (8), () and (8, 5), and results (0) and (8)."""
    for place in range(7):
        tables = copying()
        tables.places.append((place, 0))
        tables.extents = []
        _add_several(tables, {1: "", 4: "", 5: "refuse its own"}.get(place, "Place 1 of .* is not"))
    for place in range(5):
        tables = copying()
        tables.extents = [(place, tables.constant(0) if place == 1 else 0)]
        _add_several(tables, "" if place in (1, 3) else "Extent 0 of .* is not")


def _add_several(tables: Tables, sentence: str) -> None:
    made = plan(tables, N)
    replay = made_of(replace(made, outputs=(*made.outputs, made.outputs[0])))
    refused = pytest.raises(native.NativeError, match=sentence or "nothing")
    with refused if sentence else nullcontext():
        native_plans.add(partition(3, 2), [1, N, 0, 2, N, 5], [1, 0, 1, N], replay,
                         symbols=native_symbols(made))  # fmt: skip


def test_a_dispatch_without_workgroups_has_none_later() -> None:
    """It has no bind group."""
    made = plan(copying(), N)
    first = replace(made.dispatches[0], groups=(0, 1, 1))
    made = replace(made, dispatches=(first, *made.dispatches[1:]))
    add(made)
    assert made.symbols
    with pytest.raises(native.NativeError, match=r"Group 1 of .* a dispatch that has workgroups"):
        add(made, more("groups", 0, 0, 0, 1)(made.symbols))


def test_an_extent_that_the_run_counts_is_not_a_symbols() -> None:
    made = plan(copying(), N)
    count = replace(made.outputs[0], shape=(), bytes=4, dtype="i32")
    replay = made_of(replace(made, outputs=(*made.outputs, count)))
    with pytest.raises(native.NativeError, match=r"Extent 0 of .* is not a known extent"):
        native_plans.add(partition(1, counts=1), [1, N], [1, -1], replay,
                         symbols=native_symbols(made))  # fmt: skip


def test_a_plan_that_does_not_run_has_no_symbols() -> None:
    with pytest.raises(native.NativeError, match=r"A plan with symbols needs a replay\."):
        native_plans.add(partition(1), [1, N], [1, N + SHOWN], reason="It is too large.",
                         symbols=native_symbols(plan(copying(), N)))  # fmt: skip
