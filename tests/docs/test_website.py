"""Tests the copies of pages that `make site` gives to mkdocs, without mkdocs: every link leads to a
file among the copies, and every page has its place in the navigation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.subprocesses import ROOT
from tools import website


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    folder.mkdir()
    (folder / "stale.md").write_text("")
    assert website.main([str(folder)]) == 0
    return folder


def test_links_of_copies_lead_to_copies(copies: Path) -> None:
    pages, count = sorted(copies.rglob("*.md")), 0
    assert len(pages) > 30 and not (copies / "stale.md").exists()
    for path in pages:
        for _, target in website.LINK.findall(path.read_text(encoding="utf-8")):
            name = target.partition("#")[0]
            count += 1
            assert not name or (path.parent / name).is_file(), f"{path}: {target}"
    assert count > 300


def test_the_navigation_has_every_page(copies: Path) -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (\S+\.md)$", text, re.MULTILINE)
    assert len(listed) == len({*listed})
    pages = {path.relative_to(copies).as_posix() for path in copies.rglob("*.md")}
    assert {name for name in pages if not name.endswith("/report.md")} == {*listed}
    assert listed[0] == "README.md"


def test_links_to_folders_lead_to_their_page_or_become_text() -> None:
    name = Path("docs/page.md")
    text, files = website.page(name, "[a](../examples) [b](../tflgpu_plugin/ops) [c](../.github)\n")
    assert text == "[a](../examples/README.md) b c\n"
    assert files == {Path("examples/README.md")}


def test_links_to_files_take_them_along() -> None:
    name = Path("docs/page.md")
    text = "[a](../tools/check.py) [b](speed.md#half-precision) [c](#here) [d](https://x.org)\n"
    copied, files = website.page(name, text)
    assert copied == text and files == {Path("tools/check.py"), Path("docs/speed.md")}


def test_code_is_no_link() -> None:
    text = "```\n[a](none)\n  [b](none)\n```\n[c](none)\n"
    assert website.page(Path("README.md"), text)[0] == text.replace("[c](none)", "c")


def test_what_belongs_to_a_list_item_is_indented_twice() -> None:
    text = "* a\n  b\n\n  ```\n  if x:\n      y\n  ```\n\n```\n  z\n```"
    wanted = "* a\n    b\n\n    ```\n    if x:\n        y\n    ```\n\n```\n  z\n```"
    assert "\n".join(line for line, _ in website.indented(text)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\n* b\n* c", "a\n\n* b\n* c"),
        ("* a\n  b\n* c", "* a\n    b\n* c"),
        ("* a\n\n  b\n* c\n* d", "* a\n\n    b\n\n* c\n* d"),
        ("1. a\n2. b", "1. a\n2. b"),
        ("```\na\n* b\n```", "```\na\n* b\n```"),
    ],
)
def test_a_paragraph_ends_before_a_list_item(text: str, wanted: str) -> None:
    assert "\n".join(line for line, _ in website.indented(text)) == wanted


def test_without_a_folder_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert website.main([]) == 2
    assert "Usage: " in capsys.readouterr().err
