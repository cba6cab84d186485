"""Spelling and style of the pages, docstrings, messages and comments.

Usage: python tools/prose.py [--all]; --all also lists the findings that a ceiling allows.

The prose is copied without code to a temporary folder, line by line, so that codespell and
proselint name the places in the sources. Two checks are ours: `STARTS` and `RETIRED`."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("conformance/reports/",)  # what other steps have written
MESSAGES = ("tflgpu_plugin/", "providers/", "startup/")

SPELLED = "SME"  # an extension of ARM's CPUs
# Checks of proselint that are about printed books, or take terms such as multiply-add for others.
OFF = ("typography", "cliches", "misc.phrasal_adjectives", "misc.but", "dates_times")

# A docstring begins with a verb or a noun phrase, not with the middle of a sentence.
STARTS = re.compile(r"(Of|Those|What|As|So)\b")
# Words that this project used in senses of its own, and the field's words for them.
RETIRED = {
    r"islands?": "partition, delegated subgraph",
    r"doors?": "frontend, delegate, execution provider",
    r"whole numbers?": "integer",
    r"split depth": "split-K",
    r"an? partition of none": "no partition",
    r"(?:is|are|was|were|be|been) told": "given, reported, logged",
    r"runs? tells?": "known only in a run, computed in a run",
    r"so many(?!(?:\s+\S+){0,7}?\s+(?:that|as)\b)": "this many",
    r"(?-i:an) (?=[bcdfgjkpqtvwyz])(?!x\b)[a-z]{2,}": "a",
    r"(?-i:a) (?=[aio])(?!one\b|once\b)[a-z]{2,}": "an",
}
# How many findings each check may have. These numbers only fall.
CEILINGS = {"linters": 0, "starts": 0, "retired": 0}


@dataclass(frozen=True)
class Passage:
    """Text of a file from `line` on; kind is page, docstring, message or comment."""

    kind: str
    line: int
    text: str


def page(text: str) -> Iterator[Passage]:
    """Yields the page without blocks of code; headings and cells of tables become sentences."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    text = re.sub(r"^( *)```.*?^ *```$", blank, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(#+ .*)$", r"\1.", text, flags=re.MULTILINE)
    yield Passage("page", 1, re.sub(r"\s*\|\s*$|(?<!^)\|", ". ", text, flags=re.MULTILINE))


def python(text: str, *, messages: bool) -> Iterator[Passage]:
    """Yields docstrings and comments, and with `messages` strings that are sentences."""
    skipped = set[ast.AST]()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                skipped.add(value)
                yield Passage("docstring", value.lineno, value.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(ast.walk(node))
        if node not in skipped or isinstance(node, ast.JoinedStr):
            said = _said(node)
            if messages and re.search(r"\w+ \w+ \w+.*[.,:;]( |$)", said):
                yield Passage("message", getattr(node, "lineno", 1), said)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage("comment", token.start[0], token.string.lstrip("#"))


def _said(node: ast.AST) -> str:
    """Returns the text of a string, with `X` for each value that is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_said(part) or "`X`" for part in node.values)
    found = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if found else ""  # type: ignore[attr-defined,no-any-return]


def c(text: str) -> Iterator[Passage]:
    """Yields the comments of a C file."""
    for found in re.finditer(r"/\*.*?\*/|(?://[^\n]*\n?\s*)+", text, re.DOTALL):
        said = re.sub(r"/\*|\*/|^\s*\*|//", "", found[0], flags=re.MULTILINE)
        yield Passage("comment", text.count("\n", 0, found.start()) + 1, said)


def passages(name: str, text: str) -> list[Passage]:
    """Returns the prose of a file, code in backquotes, links and addresses left out."""
    found = list[Passage]()
    if name.endswith(".md"):
        found += page(text)
    elif name.endswith(".py"):
        found += python(text, messages=name.startswith(MESSAGES))
    elif name.endswith((".c", ".h")):
        found += c(text)
    number = count()

    def hidden(match: re.Match[str]) -> str:
        word = f"{next(number):05}".translate(str.maketrans("0123456789", "abcdefghij"))
        return f"X{word}" + "\n" * match[0].count("\n")

    code = re.compile(r"`[^`]*`|\]\([^)\s]*\)|https?://\S+")
    return [Passage(one.kind, one.line, code.sub(hidden, one.text)) for one in found]


def starts(name: str, found: list[Passage]) -> list[str]:
    """Returns the docstrings that begin in the middle of a sentence."""
    return [
        f"{name}:{one.line}: a docstring begins with {start[1]}: {one.text.splitlines()[0]}"
        for one in found
        if one.kind == "docstring" and (start := STARTS.match(one.text))
    ]


def retired(name: str, found: list[Passage]) -> list[str]:
    """Returns the places that use one of our former words."""
    results = []
    for one in found:
        for word, instead in RETIRED.items():
            for match in re.finditer(rf"\b{word}\b", one.text, re.IGNORECASE):
                line = one.line + one.text.count("\n", 0, match.start())
                results.append(f"{name}:{line}: {match[0]!r}: {instead}")
    return results


def masked(found: list[Passage]) -> str:
    """Returns the prose on the lines where it stands in the source."""
    lines = dict[int, str]()
    for one in found:
        text = one.text if re.search(r"[.:;?!]\s*$", one.text) else one.text + "."
        for number, line in enumerate(text.split("\n"), one.line):
            lines[number] = f"{lines.get(number, '')} {line.strip()}"
    return "\n".join(
        lines.get(number, "").strip() for number in range(1, max(lines, default=0) + 1)
    )


def linters(folder: Path) -> list[str]:
    """Returns what codespell and proselint say of the copies in `folder`."""
    settings, copies = folder / "proselint.json", folder / "copies"
    settings.write_text(json.dumps({"checks": dict.fromkeys(OFF, False), "max_errors": 10_000}))
    spelling = ("codespell_lib", "--ignore-words-list", SPELLED, str(copies))
    style = ("proselint", "--config", str(settings), "-o", "compact", "check", str(copies))
    lines = list[str]()
    for module, *arguments in (spelling, style):
        command = [sys.executable, "-m", module, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode and not done.stdout:
            raise RuntimeError(done.stderr)
        lines += [line.removeprefix(f"{copies}/").replace(".md:", ":", 1)
                  for line in done.stdout.splitlines() if line.startswith(str(copies))]  # fmt: skip
    return [line for line in lines if not re.search(rf": (?:{'|'.join(OFF)})\b", line)]


def main(arguments: list[str]) -> int:
    if lacking := [name for name in ("codespell_lib", "proselint") if not find_spec(name)]:
        print(f"NOT RUN: {' and '.join(lacking)} cannot be imported; run make .venv/ready-dev")
        return 0
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    names = [name for name in listed.split() if name.endswith((".md", ".py", ".c", ".h"))
             and not name.startswith(LEFT_OUT) and (ROOT / name).is_file()]  # fmt: skip
    results = {name: list[str]() for name in CEILINGS}
    with tempfile.TemporaryDirectory(prefix="tflgpu-prose-") as folder:
        for name in names:
            found = passages(name, (ROOT / name).read_text(encoding="utf-8"))
            results["starts"] += starts(name, found)
            results["retired"] += retired(name, found)
            copy = Path(folder) / "copies" / f"{name}.md"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(masked(found), encoding="utf-8")
        results["linters"] = linters(Path(folder))
    over = {name for name, lines in results.items() if len(lines) > CEILINGS[name]}
    for name, lines in results.items():
        print("\n".join(lines if name in over or "--all" in arguments else ()))
    counts = [f"{name} {len(lines)} of {CEILINGS[name]}" for name, lines in results.items()]
    print(f"findings: {', '.join(counts)}, in {len(names)} files")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
