"""Copies the Markdown pages of the repository, and the files that they link to, for mkdocs.

Usage: python tools/website.py FOLDER

Pages keep their places, so that links between them hold. GitHub's Markdown and that of mkdocs
differ in three respects, which the copies make up for: links to folders lead to the folder's
README.md, or become text; what belongs to a list item is indented by four spaces; and a blank line
is between a paragraph and a list item after it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("*.md", "docs/**/*.md", "examples/*.md", "conformance/reports/**/*.md")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s:]+)\)")
ITEM = re.compile(r"([*-]|\d+\.) ")
API = """# Python API

`tflgpu_plugin` has these functions and classes. [onnxruntime.md](onnxruntime.md) and
[tflite.md](tflite.md) show them in use.

::: tflgpu_plugin
"""


def sources() -> list[Path]:
    """Returns the pages, relative to the repository."""
    return sorted({path.relative_to(ROOT) for name in SOURCES for path in ROOT.glob(name)})


def page(name: Path, text: str) -> tuple[str, set[Path]]:
    """Returns the copy of a page, and the files that it links to, relative to the repository."""
    files = set[Path]()

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found[2].partition("#")
        place = (ROOT / name.parent / target).resolve()
        readme = place / "README.md"
        if not target or place.is_file():
            files.update([place.relative_to(ROOT)] if target else [])
            return found[0]
        if readme.is_file() and not place.name.startswith("."):
            files.add(readme.relative_to(ROOT))
            return f"[{found[1]}]({target.rstrip('/')}/README.md{'#' if anchor else ''}{anchor})"
        return found[1]

    lines = (line if fenced else LINK.sub(link, line) for line, fenced in indented(text))
    return "\n".join(lines) + "\n", files


def indented(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the lines with twice the indentation, and whether each is code in a fence. Code in an
    indented fence moves with its fence."""
    base: int | None = None  # the indentation of the fence that is open
    begun = ""  # the first line of this paragraph or list
    for line in text.splitlines():
        if base is None and ITEM.match(line) and begun and not ITEM.match(begun):
            yield "", False
            begun = line
        begun = begun or line if line else ""
        width = len(line) - len(line.lstrip(" "))
        fence, inside = line.lstrip(" ").startswith("```"), base is not None
        added = width if base is None else base
        yield " " * added + line if line else line, inside or fence
        if fence:
            base = None if inside else width


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(arguments[0])
    shutil.rmtree(out, ignore_errors=True)
    linked, pages = set[Path](), sources()
    for name in pages:
        text, files = page(name, (ROOT / name).read_text(encoding="utf-8"))
        linked |= files
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
    for name in linked - {*pages}:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, out / name)
    (out / "docs" / "api.md").write_text(API, encoding="utf-8")
    print(f"{len(pages) + 1} pages, {len(linked - {*pages})} other files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
