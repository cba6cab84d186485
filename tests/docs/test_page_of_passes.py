"""docs/passes.md lists every pass, in order, with the first sentence of its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from tests.support.subprocesses import ROOT
from tflgpu_plugin.passes import pipeline

PAGE = ROOT / "docs" / "passes.md"


def table() -> Iterator[str]:
    """Yields the lines that the page must have."""
    yield "| pass | needed | what it does |"
    yield "|---|---|---|"
    for rewrite, needed in pipeline.LIST:
        path = Path(inspect.getfile(rewrite)).relative_to(ROOT)
        text = " ".join((inspect.getdoc(rewrite) or "").split())
        sentence = text.partition(". ")[0].rstrip(".") + "."
        yield f"| [{rewrite.__name__}](../{path}) | {'yes' if needed else ''} | {sentence} |"


def test_the_page_lists_the_passes() -> None:
    assert "\n".join(table()) in PAGE.read_text(), "\n".join(["write this:", *table()])
