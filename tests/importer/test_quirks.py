"""Tests quirks: what they refuse, on which adapters and drivers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.one_add import add, ask
from tflgpu_plugin.ir import Shape, Target
from tflgpu_plugin.ir.quirks import QUIRKS, Quirk


@pytest.fixture
def quirk() -> Iterator[Quirk]:
    row = Quirk(
        "geforce 9000", "add", "ADD of rank 2 goes wrong on this driver, see issue 1.",
        first="530.10", last="535", condition=lambda g, n: len(g.shape(n.outputs[0])) == 2,
    )  # fmt: skip
    QUIRKS.append(row)
    yield row
    QUIRKS.remove(row)


@pytest.mark.parametrize(
    ("name", "driver", "shape", "refused"),
    [
        ("NVIDIA GeForce 9000", "NVIDIA 530.10.1", (2, 3), True),
        ("NVIDIA GeForce 9000", "535", (2, 3), True),
        ("NVIDIA GeForce 9000", "535.1", (2, 3), False),
        ("NVIDIA GeForce 9000", "530.9", (2, 3), False),
        ("NVIDIA GeForce 9000", "530.10", (2, 3, 4), False),
        ("NVIDIA GeForce 8000", "530.10", (2, 3), False),
    ],
)
def test_quirks(quirk: Quirk, name: str, driver: str, shape: Shape, refused: bool) -> None:
    target = Target(name=name, driver=driver)
    assert ask(add(shape=shape), target) == (quirk.reason if refused else None)


@pytest.mark.parametrize(
    ("driver", "wrong"),
    [("1.9", False), ("2", True), ("Mesa 2.0 (LLVM 1.1)", True), ("3.4", True), ("3.4.1", False),
     ("10", False), ("", False)],
)  # fmt: skip
def test_a_quirk_is_of_all_drivers_from_the_first_to_the_last(driver: str, wrong: bool) -> None:
    graph = add()
    node = graph.nodes[0]
    target = Target(name="An Adapter", driver=driver)
    row = Quirk("adapter", "add", "It goes wrong.", first="2", last="3.4")
    assert row.applies("add", graph, node, target) == wrong
    assert Quirk("adapter", "add", "").applies("add", graph, node, target)
    assert not Quirk("other", "add", "").applies("add", graph, node, target)
    assert not Quirk("adapter", "sub", "").applies("add", graph, node, target)
    never = Quirk("adapter", "add", "", condition=lambda graph, node: False)
    assert not never.applies("add", graph, node, target)
