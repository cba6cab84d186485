"""The step `prose` detects faults in each kind of text, and ignores code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import prose

MODULE = '''"""Of the rows, the first."""

CODE = {"value value": 1}  # an partition
raise ValueError(f"{CODE} was told so, and it was teh end.")
'''


def kinds(name: str, text: str) -> list[tuple[str, int]]:
    return [(one.kind, one.line) for one in prose.passages(name, text)]


def test_kinds_of_text_and_their_lines() -> None:
    found = kinds("tflgpu_plugin/a.py", MODULE)
    assert found == [("docstring", 1), ("message", 4), ("comment", 3)]
    assert kinds("tests/a.py", MODULE) == [("docstring", 1), ("comment", 3)]
    assert kinds("a.c", "int a; /* one */\n\n// two\n// three\n") == [
        ("comment", 1),
        ("comment", 3),
    ]
    assert prose.masked(prose.passages("tests/a.py", MODULE)).splitlines()[2] == "an partition."


def test_code_is_left_out() -> None:
    page = "A word.\n\n```\nteh code\n```\nAnother `teh`, and [one](teh.md).\n"
    (found,) = prose.passages("a.md", page)
    assert "teh" not in found.text and found.text.count("\n") == page.count("\n")


@pytest.mark.parametrize("start", ["Of", "Those", "What", "As", "So"])
def test_docstrings_begin_with_a_sentence(start: str) -> None:
    text = f'"""{start} it is."""\n'
    assert prose.starts("a.py", prose.passages("a.py", text))
    assert not prose.starts("a.py", prose.passages("a.py", text.replace(start, f"{start}ten")))


@pytest.mark.parametrize(
    ("text", "count"),
    [("an island", 1), ("Whole numbers", 1), ("an partition", 1), ("a index", 1),
     ("It was told.", 1), ("a one, an hour, a unit, an x, an LSTM, an f32 value", 0)],
)  # fmt: skip
def test_words_of_our_own(text: str, count: int) -> None:
    assert len(prose.retired("a.md", prose.passages("a.md", text))) == count


def test_linters_name_the_place(tmp_path: Path) -> None:
    pytest.importorskip("codespell_lib")
    pytest.importorskip("proselint")
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "a.md.md").write_text("Right.\nIt was teh end.\nIt is is wrong.\n")
    found = prose.linters(tmp_path)
    assert [line[: len("a.md:2")] for line in found] == ["a.md:2", "a.md:3"]


def refusals() -> Iterator[tuple[str, str]]:
    """Yields the docstring of each function that refuses nodes of an op."""
    for path in sorted((prose.ROOT / "tflgpu_plugin" / "ops").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "refuse" in node.name:
                if [one.arg for one in node.args.args][:3] == ["graph", "node", "target"]:
                    yield f"{path.name} {node.name}", ast.get_docstring(node) or ""


def test_functions_that_refuse_say_what_they_require() -> None:
    """The page of operators lists the docstrings without the verb."""
    found = dict(refusals())
    verbs = ("Requires ", "Accepts ", "Refuses ", "Returns ")
    assert len(found) > 50
    assert not [name for name, said in found.items() if said and not said.startswith(verbs)]
