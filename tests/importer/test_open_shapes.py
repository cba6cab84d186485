"""Tests the shapes with which an open model is planned if its host has present shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import pytest

from tests.support import host_models
from tflgpu_plugin.importer import symbols
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.model import HostModel
from tflgpu_plugin.ir import Shape, Tensor
from tflgpu_plugin.providers.tflite.ops import TABLE


def windowed(shape: Shape, axes: Sequence[int], window: int, tells_open: bool = True) -> HostModel:
    """Returns a model of the maximum over windows of this many samples; the input is open on these
    axes."""
    pool = {"strides": (1, 1), "padding": "valid", "activation": "none", "window": (window, 1)}
    tensors = [Tensor("x", shape), Tensor("y", ()), Tensor("z", ())]
    nodes = [
        host_models.node(0, "RELU", [0], [1]),
        host_models.node(1, "MAX_POOL_2D", [1], [2], pool),
    ]
    made = host_models.model(tensors, nodes)
    named = tuple(f"0 {k}" if k in axes else n for k, n in enumerate(shape))
    loose = {key: replace(value, shape=None) for key, value in made.values.items()}
    values = {**loose, "0": replace(made.values["0"], shape=named)}
    present = {f"0 {k}": shape[k] for k in axes}
    return replace(made, values=values, present=present, tells_open=tells_open)


@pytest.mark.parametrize(
    ("shape", "axes", "window", "tells_open", "wanted"),
    [
        ((1, 5, 1, 4), (1,), 3, True, (1, 5, 1, 4)),  # it fits
        ((1, 5, 1, 4), (1,), 7, True, (1, 224, 1, 4)),
        ((1, 5, 1, 4), (0, 1), 7, True, (1, 224, 1, 4)),  # a batch stays
        ((1, 5, 1, 4), (1,), 3000, True, (1, 8192, 1, 4)),
        ((1, 300, 1, 4), (1,), 250, True, (1, 300, 1, 4)),
        ((1, 300, 1, 4), (1,), 310, True, (1, 320, 1, 4)),
        ((1, 1, 1, 4), (1,), 1, True, (1, 224, 1, 4)),  # 1 holds a place
        ((1, 1, 1, 4), (0,), 1, True, (1, 1, 1, 4)),
        ((1, 1, 1, 4), (1,), 1, False, (1, 1, 1, 4)),  # it may be meant
        ((1, 1, 1, 4), (1,), 7, False, (1, 224, 1, 4)),
        ((1, 1, 1, 4), (1, 2), 9000, True, (1, 1, 1, 4)),  # nothing does
    ],
)  # fmt: skip
def test_the_shape_by_which_a_model_is_judged(
    shape: Shape, axes: Sequence[int], window: int, tells_open: bool, wanted: Shape,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The inputs are not huge in any shape that is tried."""
    seen: list[int] = []

    def watched(*given: Any) -> Any:
        found = import_(*given)
        seen.append(prod(found.graph.tensors[0].shape))
        return found

    monkeypatch.setattr(symbols, "import_", watched)
    found = symbols.import_dynamic(windowed(shape, axes, window, tells_open), TABLE)
    assert found.graph.tensors[0].shape == wanted
    assert max(seen) <= symbols.HUGE
