"""Tests that paddings of mirroring modes are not wider than what they mirror, and the intermediate
shapes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.evaluate import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ops import pad
from tflgpu_plugin.passes.decompose import decompose


@pytest.mark.parametrize(
    ("mode", "most"),
    [("constant", 99), ("reflect", 3), ("symmetric", 4), ("wrap", 4), ("edge", 99)],
)
def test_the_widest(mode: str, most: int) -> None:
    for sides in ((most, 0), (0, most), (most, most)):
        b = ShapedNet()
        amounts = b.constant(np.array([[0, 0], sides], np.int32))
        y = b.op("pad", b.input((2, 4)), amounts, shape=(2, 4 + sum(sides)), mode=mode)
        graph = b.graph(y)
        assert pad.views(graph, graph.nodes[0])[0].shape == (2, 4 + sum(sides))
    if most < 99:
        for sides in ((most + 1, 0), (0, most + 1)):
            b = ShapedNet()
            amounts = b.constant(np.array([[0, 0], sides], np.int32))
            y = b.op("pad", b.input((2, 4)), amounts, shape=(2, 4 + sum(sides)), mode=mode)
            graph = b.graph(y)
            with pytest.raises(ValueError, match="wider"):
                pad.views(graph, graph.nodes[0])


@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (1, 3), (4, 2)])
def test_what_comes_in_between(steps: tuple[int, int]) -> None:
    """Axes without padding do not grow, also in intermediate results."""
    b = ShapedNet()
    shape = (steps[0] * 2 + 1, steps[1] * 3 + 1)
    x = b.input((3, 4))
    y = b.op("dilate", x, b.constant(np.array(steps, np.int32)),
             b.constant(np.float32(-7)), shape=shape)  # fmt: skip
    graph = decompose(b.graph(y))
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    wanted = np.full(shape, -7, np.float32)
    wanted[:: steps[0], :: steps[1]] = given
    np.testing.assert_array_equal(evaluate(graph, {x: given})[y], wanted)
    longer = graph.shape(graph.nodes[0].outputs[0])
    assert longer == (3 + (steps[0] > 1), 4 + (steps[1] > 1))
