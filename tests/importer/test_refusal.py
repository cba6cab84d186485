"""Refusals have a code and a sentence; no place in the source returns a plain sentence."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tflgpu_plugin.ir import CODES, OTHER, ImpossibleShapeRefusal, Refusal, ShapeRefusal, code_of

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*(ROOT / "tflgpu_plugin").rglob("*.py"), *(ROOT / "providers").rglob("*.py")]
RAISED = {"Unsupported": 0, "BuildError": 1, "ImpossibleShapes": 1}  # where the sentence stands
CODED = {  # where the code stands
    "Refusal": 0, "ShapeRefusal": 0, "ImpossibleShapeRefusal": 0, "needs": 0, "Unsupported.of": 0,
    "BuildError.of": 1,
}  # fmt: skip
CONDITIONS = {"Refusal", "Condition", "ShapeRefusal", "ImpossibleShapeRefusal"}


@pytest.mark.parametrize("kind", [Refusal, ShapeRefusal, ImpossibleShapeRefusal])
def test_a_refusal_is_its_sentence_with_a_code(kind: type[Refusal]) -> None:
    made = kind("shape.empty", "It is empty.")
    assert made == "It is empty." and made.code == code_of(made) == "shape.empty"
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (type(copied), copied, copied.code) == (kind, made, "shape.empty")
    again = made.reworded(f"Here: {made}")
    assert (type(again), again, again.code) == (kind, "Here: It is empty.", "shape.empty")


def test_a_code_is_listed() -> None:
    with pytest.raises(ValueError, match=r"'shape\.emtpy' is not a refusal code"):
        Refusal("shape.emtpy", "It is empty.")
    assert code_of("A sentence of another package.") == OTHER and OTHER not in CODES


def test_every_code_is_used() -> None:
    words: set[str] = set()
    for path in SOURCES:
        if path.name != "refusal.py":
            nodes = ast.walk(ast.parse(path.read_text()))
            words |= {str(n.value) for n in nodes if isinstance(n, ast.Constant)}
    assert CODES.keys() - words == set()


def codes(source: str) -> Iterator[str]:
    """Yields the codes that are literals at the place where a refusal is made."""
    for node in ast.walk(ast.parse(source)):
        at = CODED.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
        for given in () if at is None else node.args[at : at + 1]:
            if isinstance(given, ast.Constant):
                yield given.value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_codes_in_the_source_are_listed(path: Path) -> None:
    assert {*codes(path.read_text())} <= CODES.keys()


def test_codes_are_found() -> None:
    source = "Refusal('a', x); raise Unsupported.of('b', x); raise BuildError.of((), 'c', x)"
    assert [*codes(source)] == ["a", "b", "c"]


def bare(source: str) -> Iterator[int]:
    """Yields lines on which a plain sentence is returned or raised as a refusal."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            named = {n.id for n in ast.walk(node.returns) if isinstance(n, ast.Name)}
            found = _returned(node) if named & CONDITIONS else ()
            yield from (one.lineno for value in found for one in _sentences(value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            at = RAISED.get(node.func.id)
            given = node.args[at : at + 1] if at is not None else ()
            yield from (one.lineno for value in given for one in _sentences(value))


def _returned(function: ast.AST) -> Iterator[ast.expr]:
    """Returns what a function returns, without functions inside it."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.Return) and child.value is not None:
            yield child.value
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from _returned(child)


def _sentences(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.JoinedStr) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    ):
        yield value
    elif isinstance(value, ast.IfExp):
        yield from (*_sentences(value.body), *_sentences(value.orelse))
    elif isinstance(value, ast.BoolOp):
        yield from (one for part in value.values for one in _sentences(part))
    elif isinstance(value, ast.BinOp):
        yield from (*_sentences(value.left), *_sentences(value.right))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_refusal_is_a_bare_sentence(path: Path) -> None:
    assert [*bare(path.read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        "def refuse(graph) -> Refusal | None:\n    return 'No.'",
        "def refuse(graph) -> Refusal | None:\n    if graph:\n        return f'No {graph}.'",
        "def refuse(graph) -> ShapeRefusal | None:\n    return None if graph else 'No.'",
        "def refuse(graph) -> Refusal | None:\n    return found or 'No.'",
        "def refuse(graph) -> Refusal | None:\n    return 'No ' + graph",
        "raise Unsupported('No.', node)",
        "raise BuildError((), f'No {node}.')",
        "raise ImpossibleShapes((), 'No.')",
    ],
)
def test_bare_sentences_are_found(source: str) -> None:
    assert len([*bare(source)]) == 1
    named = re.sub("f?'[^']*'", "NO", source)
    assert [*bare(named)] == []


def test_what_is_no_refusal_may_be_a_bare_sentence() -> None:
    inner = "def refuse(graph) -> Refusal | None:\n    def name() -> str:\n        return 'x'\n"
    assert [*bare(f"{inner}    return None")] == []
    assert [*bare("raise BuildError(nodes, reason)")] == []
