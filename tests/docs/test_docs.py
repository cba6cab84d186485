"""Tests the pages: generated ones are up to date, links are valid, and the README names things that
exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tflgpu_plugin.cli import environment, tables

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
)
# Every page of the repository: these, and those of other folders.
MARKDOWN = sorted(
    {*PAGES}
    | {
        path.relative_to(ROOT).as_posix()
        for folder in ("conformance", "examples", "tests", ".github")
        for path in (ROOT / folder).rglob("*.md")
    }
)


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["docs/ops.md", "docs/options.md"])
def test_generated_page_is_fresh(page: str) -> None:
    made = {"docs/ops.md": tables.ops_markdown, "docs/options.md": tables.options_markdown}
    assert read(page) == made[page](), f"{page} is stale: run make docs"


def test_links_lead_somewhere() -> None:
    broken = [
        f"{page}: {target}"
        for page in MARKDOWN
        for target in links(page)
        if not leads(page, target)
    ]
    assert not broken


def links(page: str) -> list[str]:
    """Returns the targets of the links and pictures of a page, without those of other sites."""
    text = re.sub(r"^ *```.*?^ *```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    inline = re.findall(r"\]\(([^)\s]+)\)", text)
    named = re.findall(r"^\[[^\]]+\]: *(\S+)", text, re.MULTILINE)
    return [target for target in inline + named if not re.match(r"[a-z]+:", target)]


def leads(page: str, target: str) -> bool:
    """Whether the file of a link is there, and has the heading that the link names."""
    name, _, anchor = target.partition("#")
    path = (ROOT / page).parent / name if name else ROOT / page
    return path.exists() and (not anchor or anchor in anchors(path))


def anchors(path: Path) -> set[str]:
    """Returns the anchors of the headings of a page, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("target", ["none.md", "docs/none.md#links", "CHANGELOG.md#none", "#none"])
def test_a_link_to_nothing_is_found(target: str) -> None:
    assert not leads("README.md", target)


def test_the_first_page_is_short() -> None:
    assert len(read("README.md").encode()) <= 5000
    assert read("README.md").index("NVIDIA H100") < read("README.md").index("## Install")


FIGURE = re.compile(r"\(?\d[\d.,]*\??\)?( ?(s|ms|us|MB|%))?(, \d+ %)?$")
TABLE = re.compile(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)


def measured(text: str) -> Iterator[str]:
    """Yields what introduces each table with two columns of figures: the heading, and the text
    since the last table."""
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        start = 0
        for table in TABLE.finditer(section):
            rows = [re.split(r" +\| +", row.strip("| ")) for row in table[1].splitlines()]
            columns = [all(map(FIGURE.match, column)) for column in [*zip(*rows, strict=False)][1:]]
            if sum(columns) >= 2:
                yield section.partition("\n")[0] + section[start : table.start()]
            start = table.end()


def test_figures_have_a_command_and_a_day() -> None:
    found = [(page, said) for page in PAGES for said in measured(read(page))]
    assert len(found) > 10
    for page, said in found:
        command = re.search(r"`(make|tflgpu|pytest|python -m) [^`]+`", said)
        assert command and re.search(r"20\d\d-\d\d-\d\d", said), f"{page}: {said}"


def test_pages_are_finished() -> None:
    for page in PAGES:
        assert not re.search(r"@[A-Z]+@|TODO|FIXME", read(page)), page


def test_readme_names_commands_that_exist() -> None:
    from tflgpu_plugin.cli.commands import main

    goals = set(re.findall(r"^([a-z0-9-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z0-9-]+)", read("README.md"))) <= goals
    commands = set(re.findall(r"`tflgpu ([a-z]+)", read("README.md")))
    assert commands and commands <= set(main.commands)


def test_every_command_is_on_the_page() -> None:
    from tflgpu_plugin.cli.commands import main

    table = read("docs/commands.md").partition("\n## ")[0]
    assert set(re.findall(r"`tflgpu ([a-z]+)", table)) == set(main.commands)


def test_changelog_keeps_its_form() -> None:
    heads = re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert heads[0] == "Unreleased"
    version = re.search(r'^version = "(.+)"', read("pyproject.toml"), re.MULTILINE)
    assert version and version[1] in heads


FOLDERS = (
    ".ci",
    "benchmarks",
    "conformance",
    "docs",
    "providers",
    "tests",
    "tflgpu_plugin",
    "tools",
)
OF_ITSELF = {"environment.py", "options.md"}
SUFFIXES = {"", ".c", ".h", ".md", ".py", ".sh", ".txt"}
OF_C = re.compile(r"^ *#define (TFLGPU_\w+)|^target_compile_def.*?(TFLGPU_\w+)", re.MULTILINE)


def test_every_environment_variable_is_on_the_page() -> None:
    listed = {variable.name for variable in environment.VARIABLES}
    paths = [*ROOT.iterdir(), *(path for name in FOLDERS for path in (ROOT / name).rglob("*"))]
    texts = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in paths
        if path.is_file() and path.suffix in SUFFIXES and path.name not in OF_ITSELF
    ]
    macros = {name for text in texts for names in OF_C.findall(text) for name in names}
    found = {name for text in texts for name in re.findall(r"\bTFLGPU_[A-Z0-9_]*[A-Z0-9]", text)}
    assert found - macros == {name for name in listed if name.startswith("TFLGPU_")}
