"""Equivalent mutants, each with a reason, listed in `equivalent.json`.

An entry names a file, the text of a line, and that line as the mutant writes it ("*" for any text);
such mutants are not run. Or it names a function that affects speed only; its mutants are run, and
those that survive count as equivalent."""

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
    """Returns why a mutant is equivalent, by its line, or "" if it is not listed."""
    for entry in _entries():
        if entry["file"] == mutant.file and entry.get("line") == mutant.before:
            if entry["mutated"] in ("*", mutant.after):
                return entry["reason"]
    return ""


def of_speed(mutant: Mutant) -> str:
    """Returns why a mutant that survives is equivalent, by its function, or ""."""
    name = _function(mutant.file, mutant.line)
    for entry in _entries():
        if entry["file"] == mutant.file and name and entry.get("function") in (name, "*"):
            return entry["reason"]
    return ""


@cache
def _function(file: str, line: int) -> str:
    """Returns the name of the outermost function around a line of Python, "*" outside of any."""
    if not file.endswith(".py"):
        return ""
    for node in ast.walk(ast.parse(text(file))):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return node.name
    return "*"


def stale() -> list[str]:
    """Returns the entries whose line or function is no longer in its file."""
    lost = []
    for entry in _entries():
        whole = " ".join(text(entry["file"]).split())
        function = entry.get("function", "*")
        if entry.get("line", "") not in whole:
            lost.append(f"{entry['file']}: {entry['line']}")
        if function != "*" and not re.search(rf"def {function}\b", whole):
            lost.append(f"{entry['file']}: {function}")
    return lost
