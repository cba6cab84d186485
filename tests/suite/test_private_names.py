"""Tests, conformance and benchmarks use no private names of the product."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.private_names import defined, used
from tests.support.subprocesses import ROOT

PRODUCT = ("tflgpu_plugin", "providers", "startup")
OUTSIDE = ("tests", "conformance", "benchmarks", "tools", "examples")


def uses() -> Counter[tuple[str, str]]:
    """Returns how often each file outside of the product uses each of its private names."""
    names = defined(path for room in PRODUCT for path in (ROOT / room).rglob("*.py"))
    files = [path for room in OUTSIDE for path in (ROOT / room).rglob("*.py")]
    return Counter(
        (str(path.relative_to(ROOT)), name)
        for path in files
        for name in used(path.read_text(), names)
    )


def test_no_private_name_of_the_product_is_used() -> None:
    assert not uses()


@pytest.mark.parametrize(
    "code",
    ["from tflgpu_plugin.room import _planted", "room._planted(1)", "one.two._planted = 3",
     "patch.setattr(room, '_planted', 1)", "getattr(room, '_planted')", "made()._planted",
     "patch.setattr('tflgpu_plugin.room._planted', 1)", "PROGRAM = 'import room; room._planted()'"],
)  # fmt: skip
def test_a_use_is_found(code: str) -> None:
    assert list(used(code, {"_planted"})) == ["_planted"]


@pytest.mark.parametrize(
    "code",
    ["self._planted", "cls._planted()", "super()._planted()", "room.name", "_planted = 1",
     "room._other", "words = {'_planted': 1}"],
)  # fmt: skip
def test_names_of_its_own_and_public_ones_are_none(code: str) -> None:
    assert not list(used(code, {"_planted"}))
