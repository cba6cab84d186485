"""Which module of the checkout imports which, and in what circles."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Imports = Mapping[str, set[str]]  # by the importing module
INSTALLED = {"providers": "tflgpu_plugin.providers"}  # folders that install under another name


def modules(root: Path, tops: Iterable[str]) -> dict[str, Path]:
    """The Python files under these folders by the names of their modules."""
    found = {}
    for top in tops:
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root / top).with_suffix("").parts
            inside = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([INSTALLED.get(top, top), *inside])] = path
    return found


def imports(found: Mapping[str, Path]) -> Imports:
    """The modules among `found` that each of them imports: when it is imported, in functions, and
    for types alone. A package that a module is in does not count as imported by it."""
    return {
        name: {known for target in _named(name, path) if (known := _module(target, found))} - {name}
        for name, path in found.items()
    }


def _named(name: str, path: Path) -> Iterator[str]:
    """The full names in all import statements of a module, whether these are of modules or not."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _module(target: str, found: Mapping[str, Path]) -> str:
    """The innermost module that a name is or is in; "" for one of another project."""
    while target and target not in found:
        target = target.rpartition(".")[0]
    return target


def circles(graph: Imports) -> list[set[str]]:
    """The largest sets of modules that import each other, directly or not."""
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
