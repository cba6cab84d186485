"""Mutants that change nothing that anyone could see, each with a reason: `equivalent.json`.

An entry names a file and a line by its text, and that line as the mutant has it ("*": whatever it
is); such mutants are not run. Or it names a function that decides nothing but speed: what survives
there is equivalent, the rest has to be killed all the same."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

from tests.mutation.mutants import Mutant, text


@cache
def _entries() -> list[dict[str, str]]:
    listed: list[dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text())
    return listed


def reason(mutant: Mutant) -> str:
    """Why it is equivalent, by its line; empty when nobody has said so."""
    for entry in _entries():
        if entry["file"] == mutant.file and entry.get("line") == mutant.before:
            if entry["mutated"] in ("*", mutant.after):
                return entry["reason"]
    return ""


def of_speed(mutant: Mutant) -> str:
    """Why it is equivalent if it survives, by its function; empty when nobody has said so."""
    name = _function(mutant.file, mutant.line)
    for entry in _entries():
        if entry["file"] == mutant.file and name and entry.get("function") in (name, "*"):
            return entry["reason"]
    return ""


@cache
def _function(file: str, line: int) -> str:
    """The function that a line of Python is in, the outermost one."""
    if not file.endswith(".py"):
        return ""
    for node in ast.walk(ast.parse(text(file))):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return node.name
    return "*"


def stale() -> list[str]:
    """Entries whose line or function is not in its file any more."""
    lost = []
    for entry in _entries():
        whole = " ".join(text(entry["file"]).split())
        function = entry.get("function", "*")
        if entry.get("line", "") not in whole:
            lost.append(f"{entry['file']}: {entry['line']}")
        if function != "*" and not re.search(rf"def {function}\b", whole):
            lost.append(f"{entry['file']}: {function}")
    return lost
