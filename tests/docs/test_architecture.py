"""ARCHITECTURE.md names every package, in the order that import-linter checks."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.support.subprocesses import ROOT


def contracts() -> list[dict[str, Any]]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)["tool"]["importlinter"]["contracts"])


def page() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    """Returns the packages of each row of the first table, top down."""
    table = page().partition("\n## From")[0]
    first = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    return [re.sub(r"\[(\w+)\]\([^)]*\)", r"\1", cell).split(", ") for cell in first[1:]]


def test_packages_are_in_the_order_of_the_layers() -> None:
    (layers,) = [one["layers"] for one in contracts() if one["type"] == "layers"]
    assert rows() == [layer.split(" | ") for layer in layers]


def test_every_package_is_on_the_page() -> None:
    package = ROOT / "tflgpu_plugin"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    assert {name for row in rows() for name in row} == folders | modules | {"providers"}


def test_what_the_page_says_of_imports_is_a_contract() -> None:
    kinds = {one["type"]: one for one in contracts()}
    assert "It knows no op and no kernel" in page()
    forbidden = [one for one in contracts() if one["type"] == "forbidden"]
    assert set(forbidden[0]["source_modules"]) >= {"tflgpu_plugin.runtime"}
    assert set(forbidden[0]["forbidden_modules"]) == {
        "tflgpu_plugin.ops", "tflgpu_plugin.kernels",
    }  # fmt: skip
    assert "Hosts know nothing of each other" in page()
    built_in = {
        f"tflgpu_plugin.providers.{p.parent.name}" for p in ROOT.glob("providers/*/__init__.py")
    }
    assert set(kinds["independence"]["modules"]) == built_in
    assert set(forbidden[1]["source_modules"]) == built_in
    assert "acyclic_siblings" in kinds


def test_it_is_one_page() -> None:
    assert len(page().split()) < 1500  # ten minutes
