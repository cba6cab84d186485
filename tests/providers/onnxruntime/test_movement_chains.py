"""Chains of operators that only move data are planned in a bounded time, whatever their rank and
length, and give the CPU provider's results."""

from __future__ import annotations

import pytest

from tests.support.subprocesses import run_python

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

LIMIT = 240  # seconds; usual are 20

RANDOM = """
from tests.support.movement_chains import chain, compare, inputs
compared = 0
for seed in range({first}, {first} + 7):
    rank = 2 + seed % 5
    compared += compare(chain(seed, 1 + seed % 13, rank), inputs(seed, rank))
assert compared > 15, compared
"""

NAMED = """
import numpy as np
from tests.support.movement_chains import compare, inputs
from tests.support.onnx_models import model, node
pads = np.array([-1, 0, 0, 0, 0, -2, 1, -1])
nodes = [
    node("Transpose", ["x"], ["a"], perm=[1, 3, 0, 2]),
    node("Pad", ["a", "pads"], ["y"], mode="reflect"),
]
assert compare(model(nodes, {"x": [*"abcd"]}, {"y": None}, {"pads": pads}), inputs(1, 4)) == 4
ends = {"s": np.array([-2]), "e": np.array([2**31 - 1]), "axis": np.array([1])}
nodes = [
    node("Pad", ["x", "pads"], ["a"]),
    node("Transpose", ["a"], ["b"], perm=[2, 1, 3, 0]),
    node("Slice", ["b", "s", "e", "axis"], ["y"]),
]
constants = {"pads": np.array([1, 1, 0, 1, 0, 0, 0, 0]), **ends}
assert compare(model(nodes, {"x": [*"abcd"]}, {"y": None}, constants), inputs(2, 4)) == 4
margins = [(1, 0, 0, 0, -1, 1), (2, 2, 1, 2, 0, -1), (1, 0, 0, 2, 0, 1)]
pads = {f"p{k}": np.array([*row, *row[::-1]]) for k, row in enumerate(margins)}
nodes = [node("Pad", ["x" if k == 0 else f"t{k}", f"p{k}"], ["y" if k == 2 else f"t{k + 1}"])
         for k in range(3)]
assert compare(model(nodes, {"x": [*"abcdef"]}, {"y": None}, pads), inputs(3, 6)) == 4
"""


@pytest.mark.parametrize("first", [0, 100])
def test_random_chains(first: int) -> None:
    run_python(RANDOM.format(first=first), limit=LIMIT)


def test_chains_of_all_open_extents() -> None:
    """Rank 4 and 6; products of sums of open extents have most terms here."""
    run_python(NAMED, limit=LIMIT)
