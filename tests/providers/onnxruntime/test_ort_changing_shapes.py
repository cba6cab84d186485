"""Shapes change from run to run in one session: each run gives the CPU provider's result, also
after a plan with symbols was made for other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import compare, cpu, model, node, session, values

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter


def run_all(data: bytes, shapes: Sequence[Sequence[int]]) -> Any:
    """Runs a session on inputs `x` of these shapes, one after another, and returns it."""
    ours, theirs = session(data), cpu(data)
    for shape in shapes:
        compare(ours, theirs, {"x": values(*shape)})
    return ours


def test_an_extent_that_becomes_one_changes_the_rank() -> None:
    nodes = [node("Squeeze", ["x"], ["s"]), node("Relu", ["s"], ["y"])]
    data = model(nodes, {"x": ("a", "b", "c")}, {"y": None})
    run_all(data, [(5, 1, 7), (6, 1, 9), (8, 1, 3), (1, 1, 5), (4, 1, 1), (1, 1, 7)])


def test_an_extent_that_becomes_zero_is_planned() -> None:
    data = model([node("Relu", ["x"], ["y"])], {"x": ("a", "b")}, {"y": None})
    ours = run_all(data, [(5, 7), (6, 9), (8, 3), (0, 3), (4, 3), (0, 5), (3, 0)])
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert (partition.runs, partition.host_runs) == (7, 0)


def test_sizes_of_resize_that_follow_from_the_shape() -> None:
    """Its tables do not follow from symbols, so that a plan with symbols holds for few shapes."""
    nodes = [
        node("Shape", ["x"], ["extents"]),
        node("Mul", ["extents", "times"], ["sizes"]),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    data = model(nodes, {"x": ("a", "b", "c", "d")}, {"y": None}, {"times": np.array([1, 1, 1, 2])})
    run_all(data, [(1, 3, 2, 3), (2, 4, 3, 2), (3, 2, 2, 3), (4, 5, 3, 3), (5, 5, 3, 3)])


def test_nothing_is_left_of_a_longer_row() -> None:
    """Kernels read the last elements of a row as a vector. What follows them in it is not what an
    earlier run had there."""
    data = model([node("Pad", ["x", "pads"], ["y"])], {"x": [1, "m"]}, {"y": [2, "l"]},
                 {"pads": np.array([1, 0, 0, 2], np.int64)})  # fmt: skip
    ours, theirs = session(data), cpu(data)
    for length in (7, 6, 3, 5, 2, 9, 11, 1):
        compare(ours, theirs, {"x": values(1, length)})
