"""Which module of the checkout imports which, and in what circles."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Imports = Mapping[str, set[str]]  # by the importing module
INSTALLED = {"providers": "tflgpu_plugin.providers"}  # folders that install under another name


def modules(root: Path, tops: Iterable[str]) -> dict[str, Path]:
    """Returns the Python files in these folders, by module name."""
    found = {}
    for top in tops:
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root / top).with_suffix("").parts
            inside = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([INSTALLED.get(top, top), *inside])] = path
    return found


def imports(found: Mapping[str, Path]) -> Imports:
    """Returns for each module the modules among `found` that it imports: at its import, in
    functions, or for types alone. Packages that contain a module do not count as imported by it."""
    return {
        name: {known for target in _named(name, path) if (known := _module(target, found))} - {name}
        for name, path in found.items()
    }


def _named(name: str, path: Path) -> Iterator[str]:
    """Returns the full names in all import statements of a module, modules or not."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _module(target: str, found: Mapping[str, Path]) -> str:
    """Returns the innermost module that is, or contains, this name; "" for one of another
    project."""
    while target and target not in found:
        target = target.rpartition(".")[0]
    return target


def circles(graph: Imports) -> list[set[str]]:
    """Returns the largest sets of modules that import each other, directly or indirectly."""
    reached = {name: _reached(name, graph) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        if name in reached[name] and not any(name in circle for circle in found):
            found.append({other for other in reached[name] if name in reached[other]})
    return found


def _reached(name: str, graph: Imports) -> set[str]:
    reached, ahead = set[str](), [*graph[name]]
    while ahead:
        if (one := ahead.pop()) not in reached:
            reached.add(one)
            ahead += graph[one]
    return reached
