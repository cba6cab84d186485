"""Tests that lanes after the last channel are zero in memory, whoever wrote the tensor: a product
with zero weights must not give NaN because of earlier contents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.harness import run_graph
from tests.support.net import WINDOW, Net
from tflgpu_plugin.ir import Array

pytestmark = pytest.mark.adapter
Make = Callable[[Net, list[int]], int]


def joined(*shapes: tuple[int, ...], axis: int) -> tuple[list[tuple[int, ...]], Make]:
    def make(b: Net, parts: list[int]) -> int:
        result = list(shapes[0])
        result[axis] = sum(shape[axis] for shape in shapes)
        return b.op("concat", *parts, axis=axis, activation="none")

    return list(shapes), make


CASES = {
    "channels, broken slices": joined((2, 3, 4, 3), (2, 3, 4, 2), axis=3),
    "channels, whole slices first": joined((1, 3, 4, 4), (1, 3, 4, 1), axis=3),
    "channels, whole slices last": joined((2, 3, 4, 2), (2, 3, 4, 4), axis=3),
    "channels, three parts": joined((3, 2, 2, 1), (3, 2, 2, 1), (3, 2, 2, 3), axis=3),
    "channels, a last part over a slice": joined((2, 2, 3, 3), (2, 2, 3, 6), axis=3),
    "rows of broken slices": joined((2, 1, 4, 5), (2, 2, 4, 5), axis=1),
    "columns of broken slices": joined((1, 2, 4, 3), (1, 2, 1, 3), axis=2),
    "batches of broken slices": joined((1, 2, 4, 7), (2, 2, 4, 7), axis=0),
}


@pytest.mark.parametrize("name", CASES)
def test_concat(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFLGPU_FILL_NAN", "1")
    shapes, make = CASES[name]
    b, random = Net(), np.random.default_rng(5)
    inputs = [b.input(shape) for shape in shapes]
    # The parts are made on the device, so that they are joined in its memory.
    parts = [b.op("sin", x) for x, shape in zip(inputs, shapes, strict=True)]
    whole = make(b, parts)
    c = b.shape(whole)[3]
    weights = random.uniform(-1, 1, (3, 1, 1, c)).astype(np.float32)
    y = b.op("conv_2d", whole, b.constant(weights), None, **WINDOW)
    values = {x: random.uniform(-1, 1, s).astype(np.float32)
              for x, s in zip(inputs, shapes, strict=True)}  # fmt: skip
    got = run_graph(b.graph(y), values)[y]
    axis = b.nodes[len(parts)].attributes["axis"]
    given: Array = np.concatenate([np.sin(values[x]) for x in inputs], axis=axis)
    np.testing.assert_allclose(got, given @ weights[:, 0, 0].T, atol=1e-5)
