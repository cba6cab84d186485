"""Bounds in kernels: a number that a launch is given (`p.count`) is one past the last of what it
counts, so that who compares with it asks for less, or for at least as many. No device is needed:
what is written past an end may well be dropped by one driver, and be another tensor on the next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tflgpu_plugin import kernels

TEMPLATES = sorted(Path(kernels.__file__).parent.glob("*.wgsl"))
# A comparison that takes in the count itself, or an index that is cut to one past the last.
WRONG = re.compile(r"(?:<=|(?<![->])>)\s*p\.\w+|\bmin\([^;]*, (?:p\.\w+|\bend) \+ \d")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_count_is_no_place_of_its_own(path: Path) -> None:
    text = re.sub(r"//.*", "", path.read_text())
    assert not [line.strip() for line in text.splitlines() if WRONG.search(line)]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("if (i > p.vectors) { return; }", True),
        ("for (var k = 0u; k <= p.count; k++) {", True),
        ("if (i >= p.vectors) { return; }", False),
        ("let a = x << p.bits;", False),
        ("let at = min(first + 4u, p.pixels + 1u);", True),
        ("let at = min(first + 4u, p.pixels - 1u);", False),
        ("let at = min(k + lane, end + 1u);", True),
        ("let end = min(start + p.chunk, p.count);", False),
    ],
)
def test_the_rule(line: str, wrong: bool) -> None:
    assert bool(WRONG.search(line)) == wrong
