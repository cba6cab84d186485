"""Functions of the ops and of the compiler stay small. No device is needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tflgpu_plugin

MOST_LINES, MOST_PARAMETERS = 60, 7
ROOT = Path(tflgpu_plugin.__file__).parent
FILES = sorted((*ROOT.glob("ops/*.py"), *ROOT.glob("compile/*.py")))


def large(source: str) -> Iterator[str]:
    """The functions that are too long, or take too many parameters beside self."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        given = node.args
        names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        count += (given.vararg is not None) + (given.kwarg is not None)
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > MOST_PARAMETERS or lines > MOST_LINES:
            yield f"{node.name}: {count} parameters, {lines} lines"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_functions_are_small(path: Path) -> None:
    assert list(large(path.read_text())) == []


def test_large_functions_are_seen() -> None:
    names = ", ".join("abcdefg")
    assert list(large(f"def f({names}): pass\n")) == []
    assert list(large(f"def f({names}, *h): pass\n")) == ["f: 8 parameters, 1 lines"]
    assert list(large("def f():\n" + "    pass\n" * 60)) == ["f: 0 parameters, 61 lines"]
