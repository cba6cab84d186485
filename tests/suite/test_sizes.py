"""Functions and files of the product stay short enough to be read at once. Longer ones are listed
with their reason, and removed from the list when they are shortened."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.subprocesses import ROOT

PARAMETERS, LINES, FILE = 7, 60, 400  # at most
ROOMS = ("tflgpu_plugin", "providers", "startup")
KINDS = (".py", ".wgsl", ".c", ".h")
LONG = {
    "providers/tflite/ops.py _rows": "the table of operators, which is data",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(*kinds: str) -> Iterator[Path]:
    for room in ROOMS:
        found = sorted((ROOT / room).rglob("*"))
        yield from (path for path in found if path.suffix in kinds and "build" not in path.parts)


def functions() -> Iterator[tuple[str, Function]]:
    """Returns every function of the product by file and name."""
    for path in files(".py"):
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield f"{file} {node.name}", node


def parameters(function: Function) -> int:
    """Returns how many parameters a caller may pass, not counting `self`."""
    given = function.args
    named = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    extra = (given.vararg, given.kwarg)
    return len(named) - (named[:1] in (["self"], ["cls"])) + sum(one is not None for one in extra)


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_functions_take_few_parameters() -> None:
    many = {name: parameters(f) for name, f in functions() if parameters(f) > PARAMETERS}
    assert not many, f"put some of these together in one value: {many}"


def test_functions_are_short() -> None:
    long = {name: length(f) for name, f in functions() if length(f) > LINES}
    assert long.keys() == LONG.keys(), f"cut these into several, or list them: {long}"


def test_files_are_short() -> None:
    counts = {p.relative_to(ROOT).as_posix(): p.read_text().count("\n") for p in files(*KINDS)}
    long = {name: count for name, count in counts.items() if count > FILE}
    assert not long, f"cut these in two where two things meet: {long}"


def test_parameters_are_counted() -> None:
    (f,) = ast.parse("def f(self, a, /, b, *c, d, **e): ...").body
    assert isinstance(f, Function) and parameters(f) == 5 and length(f) == 1
