"""Private names of the product in what is outside of it: imported, attributes of modules and of
objects, given to `setattr`, and in programs that are strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

OWN = ("self", "cls")
PATCHES = ("setattr", "delattr", "getattr")
# Names that are documented: those of named tuples, and what Jupyter calls.
DOCUMENTED = ("_asdict", "_field_defaults", "_fields", "_make", "_replace", "_repr_html_")
IN_A_PROGRAM = re.compile(r"\b[A-Za-z]\w*\.(_[A-Za-z]\w*)")


def private(name: object) -> bool:
    named = isinstance(name, str) and name.startswith("_") and name.strip("_") != ""
    return named and name not in DOCUMENTED


def defined(paths: Iterable[Path]) -> set[str]:
    """Returns the private names that these modules define; none with two underscores."""
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return {name for name in found if private(name) and not name.startswith("__")}


def used(code: str, names: set[str]) -> Iterator[str]:
    """Returns those of the `names` that a module uses of others, as often as it does."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.Attribute) and node.attr in names and not _of_itself(node.value):
            yield node.attr
        elif isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            function = node.func.id if isinstance(node.func, ast.Name) else function
            if function in PATCHES:
                given = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
                yield from (str(name) for name in given if _named(name, names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (name for name in IN_A_PROGRAM.findall(node.value) if name in names)


def _named(given: object, names: set[str]) -> bool:
    """Returns a pattern of the name alone, preceded by module names as in a program."""
    return isinstance(given, str) and given in names


def _of_itself(owner: ast.expr) -> bool:
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return isinstance(owner, ast.Name) and owner.id in OWN
