"""Sentences to users name types as people do: float32, not f32."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tflgpu_plugin.ir import NUMPY_DTYPES, PACKED, TYPE_NAMES, type_name

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = ("said", "sentence")  # what variables with a refusal's text are named
REFUSED = ("Refusal", "ShapeRefusal", "ImpossibleShapeRefusal", "unreadable")


def sentences(tree: ast.AST) -> Iterator[ast.JoinedStr]:
    """Yields the texts of refusals that have values in them."""
    for node in ast.walk(tree):
        named = isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id in SENTENCES for one in node.targets
        )
        refused = isinstance(node, ast.Call) and _name(node.func) in REFUSED
        if named or refused:
            yield from (each for each in ast.walk(node) if isinstance(each, ast.JoinedStr))


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def is_dtype(value: ast.AST, names: Collection[str] = ()) -> bool:
    """Whether a value is a dtype as it is: that of a tensor, the result of a builder's `dtype()`,
    or one of these variables."""
    value = value.func if isinstance(value, ast.Call) else value
    return _name(value) == "dtype" or (isinstance(value, ast.Name) and value.id in names)


def dtypes(function: ast.AST) -> Iterator[str]:
    """Yields the variables of a function that are set to dtypes."""
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            yield from (_name(one) for one, value in pairs if is_dtype(value))


def found(text: str) -> list[int]:
    """Returns the lines of sentences that have a dtype as it is."""
    lines = []
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            names = {*dtypes(function)}
            for said in sentences(function):
                parts = (part for part in said.values if isinstance(part, ast.FormattedValue))
                if any(part.conversion == -1 and is_dtype(part.value, names) for part in parts):
                    lines.append(said.lineno)
    return lines


def test_no_sentence_has_a_dtype_as_it_is() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("tflgpu_plugin/ops", "tflgpu_plugin/importer", "providers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in found(path.read_text())
    ]


@pytest.mark.parametrize(
    "text",
    [
        "said = f'Not of {tensor.dtype}.'",
        "return Refusal('code', f'Not of {e.dtype(e.x(1))}.')",
        "raise sparsity.unreadable(f'is of {dtype}')",
        "given, held = e.dtype(), e.dtype(e.x(1))\n    sentence = f'{e.row.name} of {held}'",
    ],
)
def test_a_dtype_in_a_sentence_is_seen(text: str) -> None:
    assert found(f"def refuse(e):\n    {text}") and not found(
        f"def refuse(e):\n    {text}".replace("dtype", "kind")
    )


def test_names_of_types() -> None:
    assert [type_name(name) for name in ("f64", "u16", "bool")] == ["float64", "uint16", "bool"]
    assert NUMPY_DTYPES.keys() - TYPE_NAMES.keys() == {"bool", *PACKED}
