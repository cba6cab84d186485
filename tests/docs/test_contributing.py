"""Tests the files for people who report or contribute: they name commands that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

import pytest

from tests.support.subprocesses import ROOT

FOLDER = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(path for path in FOLDER.glob("*.yml") if path.name != "config.yml")


def parsed(name: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_make_help_lists_every_target() -> None:
    said = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    listed = set(re.findall(r"^  make ([a-z0-9-]+) ", said, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed == {*phony.split()}
    assert not said.startswith("#") and "\n#" not in said


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_valid(path: Any) -> None:
    form = parsed(str(path.relative_to(ROOT)))
    assert {"name", "description", "body"} <= set(form)
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    ids = [part["id"] for part in asked]
    assert len(ids) == len(set(ids)) and {part["type"] for part in asked} <= {"input", "textarea"}
    assert all(part["attributes"]["label"] for part in asked)
    assert any(part.get("validations", {}).get("required") for part in asked)


def test_forms_ask_for_what_the_commands_write() -> None:
    from tflgpu_plugin.cli.commands import main

    texts = {path.stem: path.read_text(encoding="utf-8") for path in FORMS}
    assert set(texts) == {"crash", "stays-on-cpu", "wrong-answer"}
    assert all("tflgpu bugreport" in texts[name] for name in ("crash", "wrong-answer"))
    for text in texts.values():
        named = set(re.findall(r"`tflgpu ([a-z]+)", text))
        assert named and named <= set(main.commands)
        for command, flag in re.findall(r"`tflgpu ([a-z]+)[^`]*(--[a-z-]+)[^`]*`", text):
            assert flag in [name for one in main.commands[command].params for name in one.opts]


def test_hooks_run_steps_of_make_test() -> None:
    from tools.check import steps

    hooks = [hook for repo in parsed(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["id"] for hook in hooks] == ["format", "lint", "types", "prose"]
    names = {step.name for step in steps()}
    for hook in hooks:
        tool, *words = shlex.split(hook["entry"])
        if tool.endswith("ruff"):
            assert hook["id"] in names
        else:
            assert words[0] == "tools/check.py" and set(words[1:]) <= names


def test_contributors_find_what_the_page_names() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    goals = set(re.findall(r"^([a-z0-9./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z0-9./-]+)", page)) <= goals
