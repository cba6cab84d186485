"""Sentences to users name types as people do: float32, not f32."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tflgpu_plugin.ir import NUMPY_DTYPES, PACKED, TYPE_NAMES, type_name

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = ("said", "sentence")  # what variables with a refusal's text are named
REFUSED = ("Refusal", "ShapeRefusal", "ImpossibleShapeRefusal")


def sentences(tree: ast.AST) -> Iterator[ast.JoinedStr]:
    """Yields the texts of refusals that have values in them."""
    for node in ast.walk(tree):
        named = isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id in SENTENCES for one in node.targets
        )
        refused = isinstance(node, ast.Call) and getattr(node.func, "id", "") in REFUSED
        if named or refused:
            yield from (each for each in ast.walk(node) if isinstance(each, ast.JoinedStr))


def is_dtype(part: ast.AST) -> bool:
    """Whether a part of a text is a dtype as it is, or the result of a builder's `dtype()`."""
    if not isinstance(part, ast.FormattedValue) or part.conversion != -1:
        return False
    value = part.value.func if isinstance(part.value, ast.Call) else part.value
    return "dtype" in (getattr(value, "attr", ""), getattr(value, "id", ""))


def test_no_sentence_has_a_dtype_as_it_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{text.lineno}"
        for folder in ("tflgpu_plugin/ops", "tflgpu_plugin/importer", "providers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in sentences(ast.parse(path.read_text()))
        if any(map(is_dtype, text.values))
    ]
    assert not found


def test_names_of_types() -> None:
    assert [type_name(name) for name in ("f64", "u16", "bool")] == ["float64", "uint16", "bool"]
    assert NUMPY_DTYPES.keys() - TYPE_NAMES.keys() == {"bool", *PACKED}
