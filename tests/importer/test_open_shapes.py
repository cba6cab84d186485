"""The shapes by which an open model is judged, without a host."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tflgpu_plugin.importer.imported import Imported, Table
from tflgpu_plugin.importer.model import HostModel
from tflgpu_plugin.importer.placeholders import grown
from tflgpu_plugin.ir import Graph, Tensor

Axes = Mapping[int, tuple[int, ...]]


def host(shape: tuple[int, ...], axes: Axes, unfit: set[int]) -> Imported:
    """A graph of one input without nodes."""
    graph = Graph({0: Tensor("x", shape)}, (), (0,), (0,))
    model = HostModel((), {}, ())
    return Imported(model=model, table=Table({}), graph=graph, unfit=unfit, open=axes)


@pytest.mark.parametrize("axes", [{0: (1,)}, {}])
def test_an_open_model_is_judged_by_its_present_shape(axes: Axes) -> None:
    """Read with its extents open nothing is too small; with those that it has, something is. What
    is not open needs no second look."""
    asked = []

    def read(shapes: Mapping[int, tuple[int, ...]]) -> Imported:
        asked.append(shapes[0])
        return host(shapes[0], axes, {0} if shapes[0][1] < 64 else set())

    found = grown(host((1, 5), axes, set()), read)
    if axes:
        assert asked[0] == (1, 5) and found.graph.tensors[0].shape[1] >= 64
    else:
        assert not asked and found.graph.tensors[0].shape == (1, 5)
