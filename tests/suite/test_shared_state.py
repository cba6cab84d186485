"""Finds state that threads share by inspection: modules have no mutable containers except those of
`registry`, and tables in capitals never change."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.subprocesses import ROOT

CONTAINERS = {
    "Counter", "OrderedDict", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "defaultdict",
    "deque", "dict", "list", "set",
}  # fmt: skip
CHANGES = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "setdefault", "update",
}  # fmt: skip
DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
# State that is safe as it is, and why.
EXCEPTED = {
    "tflgpu_plugin/cli/pyinstaller/hook-tflgpu_plugin.py:hiddenimports": "PyInstaller's interface",
    "tflgpu_plugin/frontend/callbacks.py:_tables": "with the lock _connecting",
    "tflgpu_plugin/preference.py:_active": "with the lock _lock",
    "tflgpu_plugin/preference.py:_lock": "made anew in a forked child, which has one thread",
}


def modules() -> dict[str, ast.Module]:
    """Returns the syntax trees of the package by file name."""
    paths = [p for folder in ("tflgpu_plugin", "providers") for p in (ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(paths)}


def is_container(value: ast.expr | None) -> bool:
    """Whether this makes a list, a dictionary or a set."""
    if isinstance(value, DISPLAYS):
        return True
    if isinstance(value, ast.BinOp):
        return is_container(value.left) or is_container(value.right)
    if not isinstance(value, ast.Call):
        return False
    function = value.func.value if isinstance(value.func, ast.Subscript) else value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in CONTAINERS


def containers(body: list[ast.stmt]) -> Iterator[str]:
    """Returns the names of mutable containers that these statements create."""
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            yield from containers([*statement.body, *statement.orelse])
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and is_container(statement.value):
            yield from (name.id for name in targets if isinstance(name, ast.Name))


def changed(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Returns constants (names in capitals) that this module modifies, also those of other modules,
    and where."""
    for node in ast.walk(tree):
        found: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found = node.func.value if node.func.attr in CHANGES else None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found = node.value
        if isinstance(node, ast.AugAssign):
            found = node.target
        name = found.attr if isinstance(found, ast.Attribute) else getattr(found, "id", "")
        if name.isupper():
            yield name, getattr(node, "lineno", 0)


def problems(file: str, tree: ast.Module) -> Iterator[str]:
    """Returns sentences about state of this module that threads could change at the same time."""
    for name in containers(tree.body):
        if not (name.strip("_").isupper() or name == "__all__" or f"{file}:{name}" in EXCEPTED):
            yield f"{file}: {name} is a mutable container; make it a class of registry"
    for name, line in changed(tree):
        yield f"{file}:{line}: {name} is a table, and changed here"
    for node in ast.walk(tree):
        if isinstance(node, ast.Global) and any(f"{file}:{n}" not in EXCEPTED for n in node.names):
            yield f"{file}:{node.lineno}: global {', '.join(node.names)}; use registry.Single"
        if isinstance(node, ast.ClassDef):
            for name in containers(node.body):
                if not name.isupper():
                    yield f"{file}:{node.lineno}: all objects of {node.name} share {name}"
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            given = (*node.args.defaults, *node.args.kw_defaults)
            if any(is_container(value) for value in given):
                yield f"{file}:{node.lineno}: a default that all calls share"
        if isinstance(node, ast.FunctionDef) and any(map(_caches, node.decorator_list)):
            kind = ast.unparse(node.returns) if node.returns else ""
            if kind.split("[")[0] in CONTAINERS:
                yield f"{file}:{node.lineno}: all callers of {node.name} share a {kind}"


def _caches(decorator: ast.expr) -> bool:
    name = ast.unparse(decorator).split("(")[0].split(".")[-1]
    return name in ("cache", "lru_cache")


def test_threads_share_only_what_has_a_lock() -> None:
    trees = modules()
    assert {"providers", "tflgpu_plugin"} == {file.split("/")[0] for file in trees}
    found = [text for file, tree in trees.items() for text in problems(file, tree)]
    assert not found, "\n".join(found)


def test_what_is_excepted_is_there() -> None:
    for place in EXCEPTED:
        file, name = place.split(":")
        assert re.search(rf"^{name}\b.* = ", (ROOT / file).read_text(), re.MULTILINE), place


@pytest.mark.parametrize(
    "text",
    [
        "_told = set()",
        "_seen: list[int] = []",
        "_by_name = dict[str, int]()",
        "if True:\n  _x = weakref.WeakValueDictionary()",
        "def f():\n  global _x\n  _x = 1",
        "def f():\n  TABLE['x'] = 1",
        "def f():\n  other.TABLE.append(1)",
        "class A:\n  made = {}",
        "def f(x=[]): ...",
        "@functools.cache\ndef f() -> dict[str, int]: ...",
    ],
)
def test_state_is_seen(text: str) -> None:
    assert list(problems("x.py", ast.parse(text)))


def test_tables_and_registries_are_none() -> None:
    text = "TABLE = {1: 2}\n_told = Once()\n_kept: Registry[int, int] = Registry()\nCopy = [*TABLE]"
    assert not list(problems("x.py", ast.parse(text.replace("Copy", "COPY"))))
