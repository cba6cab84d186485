"""Paddings of modes that mirror must not be wider than what they mirror."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.test_passes import Build
from tflgpu_plugin.ops import pad


@pytest.mark.parametrize(
    ("mode", "most"),
    [("constant", 99), ("reflect", 3), ("symmetric", 4), ("wrap", 4), ("edge", 99)],
)
def test_the_widest(mode: str, most: int) -> None:
    for sides in ((most, 0), (0, most), (most, most)):
        b = Build()
        amounts = b.constant(np.array([[0, 0], sides], np.int32))
        y = b.op("pad", b.input((2, 4)), amounts, shape=(2, 4 + sum(sides)), mode=mode)
        graph = b.graph(y)
        assert pad.views(graph, graph.nodes[0])[0].shape == (2, 4 + sum(sides))
    if most < 99:
        for sides in ((most + 1, 0), (0, most + 1)):
            b = Build()
            amounts = b.constant(np.array([[0, 0], sides], np.int32))
            y = b.op("pad", b.input((2, 4)), amounts, shape=(2, 4 + sum(sides)), mode=mode)
            graph = b.graph(y)
            with pytest.raises(ValueError, match="wider"):
                pad.views(graph, graph.nodes[0])
